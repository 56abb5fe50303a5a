/** Parts of the room form: a field with its label, default, sentence and mistake; lists of origins and rules. */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { FIELDS } from "./form_fields.js";
import { InlineSwitch, isHeld } from "./form_inline.js";
import { alarm, arrow, check, chevron, cross, plus } from "./icons.js";

const UNITS = { "/min": "/min", sec: "s" };

const unitWord = (unit) => UNITS[unit] ?? t(`unit.${unit}`);

/** Short text of a field's value, for `default …`, `was …` and conflicts. */
function shortly(name, value) {
  if (name === "tagOrigins" && value === null) return t("form.tag.same").toLowerCase();
  if (Array.isArray(value) && value.length > 0) return String(value.length);
  return value === null || value.length === 0 ? t("form.none") : String(value);
}

/** At the right of a label: the value before the change, else the default. */
function Aside({ form, name }) {
  const changed = form.changed.value.includes(name);
  if (changed && form.id !== null) return html`<span class="field-aside">${t("form.was", { value: shortly(name, form.base[name]) })}</span>`;
  const { first, kind } = FIELDS[name];
  return first === "" || kind === "inline" ? null : html`<span class="field-aside">${t("form.default", { value: shortly(name, first) })}</span>`;
}

const Dot = () => html`<span class="dot" role="img" aria-label=${t("form.changed.one")}></span>`;

function Conflict({ form, name }) {
  if (!(name in form.conflicts.value)) return null;
  const now = form.conflicts.value[name];
  return html`
    <div class="caution" role="alert">${alarm()}<span>${t("form.conflict", { value: shortly(name, now) })}</span>
      <button type="button" class="button" onClick=${() => form.settle(name, true)}>${t("form.conflict.keep")}</button>
      <button type="button" class="button" onClick=${() => form.settle(name, false)}>${t("form.conflict.take")}</button></div>
  `;
}

/** Frame around any control: `children` is a function of the attributes that tie it to its words. */
function Frame({ form, name, wide = false, labelled = true, children }) {
  const mistake = form.mistake(name);
  const changed = form.id !== null && form.changed.value.includes(name);
  const label = html`${t(`f.${name}`)}${changed && html` <${Dot} />`}`;
  const ties = { id: `f-${name}`, "aria-describedby": `f-${name}-note`, "aria-invalid": Boolean(mistake), class: mistake ? "field-bad" : "" };
  return html`
    <div class="field ${wide ? "field-wide" : ""}">
      <div class="field-head">${labelled ? html`<label for="f-${name}">${label}</label>` : html`<span class="field-label">${label}</span>`}<${Aside} form=${form} name=${name} /></div>
      ${children(ties)}
      ${mistake ? html`<p class="note note-bad" id="f-${name}-note">${alarm()}<span>${mistake}</span></p>` : html`<p class="note" id="f-${name}-note">${t(`f.${name}.help`)}</p>`}
      <${Conflict} form=${form} name=${name} />
    </div>
  `;
}

function Line({ form, name }) {
  const { kind, unit } = FIELDS[name];
  const hint = name === "name" ? (form.raw.value.id ?? form.id) : FIELDS[name].first === null ? t("form.none") : undefined;
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

/** A choice of few words; those of an inline room alone are there only while it is one. */
function Choice({ form, name }) {
  if (!form.raw.value.proxyOrigin.on) return null;
  return html`
    <${Frame} form=${form} name=${name}>
      ${(ties) => html`
        <span class="select"><select ...${ties} value=${form.raw.value[name]} onChange=${(event) => form.set(name, event.currentTarget.value)}>
          ${FIELDS[name].options.map(([word, key]) => html`<option key=${word} value=${word}>${t(key)}</option>`)}</select>${chevron()}</span>
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

const VIEWS = { lines: Origins, tag: TagOrigins, rules: Rules, inline: Inline, choice: Choice };

/** One field of the form by its name. */
export function Field({ form, name }) {
  const View = VIEWS[FIELDS[name].kind] ?? Line;
  return html`<${View} form=${form} name=${name} />`;
}

/** A low number of places per address hurts honest people first; said before it is saved (CON-191). */
export function FewPlaces({ form }) {
  const { value } = form.results.value.queueMaxPerIp;
  const before = form.base.queueMaxPerIp;
  if (!value || (before !== null && value >= before)) return null;
  return html`<p class="caution">${alarm()}<span>${t("form.fewplaces")}</span></p>`;
}
