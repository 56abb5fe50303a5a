/** Parts of the room form: a field with its label, default, sentence and mistake; lists of origins and rules. */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { FIELDS } from "./form_fields.js";
import { InlineSwitch, isHeld } from "./form_inline.js";
import { Frame, unitWord } from "./form_frame.js";
import { JoinsNow, Moment, Switch } from "./form_automatic.js";
import { server } from "./store.js";
import { alarm, arrow, check, chevron, cross, plus } from "./icons.js";

function Line({ form, name }) {
  const { kind, unit } = FIELDS[name];
  const hint = name === "name" ? (form.raw.value.id ?? form.id) : FIELDS[name].first === null && !FIELDS[name].needed ? t("form.none") : undefined;
  return html`
    <${Frame} form=${form} name=${name}>
      ${(ties) => html`
        <span class="field-box"><input ...${ties} type="text" class="${ties.class} ${kind === "mono" ? "mono" : ""}" placeholder=${hint} inputmode=${kind === "number" ? "numeric" : undefined} autocomplete="off" autocapitalize="off" spellcheck=${false}
          value=${form.raw.value[name]} disabled=${isHeld(form, name)} onInput=${(event) => form.set(name, event.currentTarget.value)} />${unit && html`<span class="field-unit">${unitWord(unit)}</span>`}</span>
      `}
    <//>
  `;
}

const Lines = ({ ties, value, onInput }) => html`
  <textarea ...${ties} class="${ties.class} mono" rows="3" spellcheck=${false} autocapitalize="off" value=${value} onInput=${(event) => onInput(event.currentTarget.value)}></textarea>
`;

const Origins = ({ form, name }) => html`
  <${Frame} form=${form} name=${name} wide>${(ties) => html`<${Lines} ties=${ties} value=${form.raw.value[name]} onInput=${(text) => form.set(name, text)} />`}<//>
`;

function TagOrigins({ form, name }) {
  const raw = form.raw.value[name];
  const toggle = (event) => form.set(name, { ...raw, same: event.currentTarget.checked });
  return html`
    <${Frame} form=${form} name=${name} wide labelled=${false}>
      ${(ties) => html`
        <label class="tick"><span class="tick-box"><input type="checkbox" checked=${raw.same} onChange=${toggle} />${check()}</span>${t("form.tag.same")}</label>
        ${!raw.same && html`<${Lines} ties=${{ ...ties, "aria-label": t("f.tagOrigins") }} value=${raw.text} onInput=${(text) => form.set(name, { ...raw, text })} />`}
      `}
    <//>
  `;
}

function Rule({ rule, place, last, put, move, drop }) {
  const n = place + 1;
  return html`
    <li class="rule">
      <span class="select"><select aria-label=${t("rule.action", { n })} value=${rule.action} onChange=${(event) => put({ ...rule, action: event.currentTarget.value })}>
        <option value="protect">protect</option><option value="skip">skip</option></select>${chevron()}</span>
      <input class="mono" type="text" aria-label=${t("rule.pattern", { n })} value=${rule.pattern} placeholder="/checkout*" spellcheck=${false} autocapitalize="off" onInput=${(event) => put({ ...rule, pattern: event.currentTarget.value })} />
      <span class="rule-acts">
        <button type="button" class="button quiet square" aria-label=${t("rule.up", { n })} disabled=${place === 0} onClick=${() => move(-1)}>${arrow(true)}</button>
        <button type="button" class="button quiet square" aria-label=${t("rule.down", { n })} disabled=${last} onClick=${() => move(1)}>${arrow(false)}</button>
        <button type="button" class="button quiet square" aria-label=${t("rule.drop", { n })} onClick=${drop}>${cross()}</button>
      </span>
    </li>
  `;
}

function Rules({ form, name }) {
  const rules = form.raw.value[name];
  const set = (next) => form.set(name, next);
  const move = (place, by) => {
    const next = [...rules];
    [next[place], next[place + by]] = [next[place + by], next[place]];
    set(next);
  };
  const entry = (rule, place) => html`
    <${Rule} key=${place} rule=${rule} place=${place} last=${place === rules.length - 1} put=${(changed) => set(rules.map((other, at) => (at === place ? changed : other)))}
      move=${(by) => move(place, by)} drop=${() => set(rules.filter((_, at) => at !== place))} />
  `;
  return html`
    <${Frame} form=${form} name=${name} wide labelled=${false}>
      ${(ties) => html`
        <ol class="rules" id=${ties.id} tabindex="-1">${rules.map(entry)}</ol>
        <button type="button" class="button" onClick=${() => set([...rules, { action: "protect", pattern: "", note: "" }])}>${plus()}${t("rule.add")}</button>
      `}
    <//>
  `;
}

/** A choice of few words; `server` is the one of rooms without a setting of their own, and tells what that is now. */
function Choice({ form, name }) {
  const { options, ofServer } = FIELDS[name];
  const now = ofServer && server.value ? t("form.server.now", { value: ofServer(server.value) }) : t("form.server");
  return html`
    <${Frame} form=${form} name=${name} wide=${Boolean(ofServer)}>
      ${(ties) => html`
        <span class="select"><select ...${ties} value=${form.raw.value[name]} onChange=${(event) => form.set(name, event.currentTarget.value)}>
          ${ofServer && html`<option value="server">${now}</option>`}
          ${options.map(([word, key]) => html`<option key=${word} value=${word}>${t(key)}</option>`)}</select>${chevron()}</span>
      `}
    <//>
  `;
}

/** The switch of inline mode, and with it on the address that only the server reaches (INL-020, INL-021). */
function Inline({ form, name }) {
  return html`
    <${InlineSwitch} form=${form} />
    ${form.raw.value[name].on && html`
      <${Frame} form=${form} name=${name}>
        ${(ties) => html`
          <span class="field-box"><input ...${ties} type="text" class="${ties.class} mono" placeholder="http://site:3000" autocomplete="off" autocapitalize="off" spellcheck=${false}
            value=${form.raw.value[name].text} disabled=${isHeld(form, name)} onInput=${(event) => form.set(name, { on: true, text: event.currentTarget.value })} /></span>
        `}
      <//>
    `}
  `;
}

const VIEWS = { lines: Origins, tag: TagOrigins, rules: Rules, inline: Inline, choice: Choice, moment: Moment, switch: Switch };

/** One field of the form by its name, if it is there as the others stand. */
export function Field({ form, name }) {
  if (!form.isShown(name)) return null;
  const View = VIEWS[FIELDS[name].kind] ?? Line;
  return html`<${View} form=${form} name=${name} />${name === "autoActivate.joinsPerMin" && form.id !== null && html`<${JoinsNow} id=${form.id} />`}`;
}

const isFewer = (form, name) => {
  const { value } = form.results.value[name];
  return Boolean(value) && (form.base[name] === null || value < form.base[name]);
};

/** A low number of places per address hurts honest people first; said before it is saved (CON-191). */
export function FewPlaces({ form }) {
  if (!isFewer(form, "queueMaxPerIp") && !isFewer(form, "preQueueMaxPerIp")) return null;
  return html`<p class="caution">${alarm()}<span>${t("form.fewplaces")}</span></p>`;
}
