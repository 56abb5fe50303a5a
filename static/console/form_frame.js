/** Frame of a field in the room form: label, default or value before, sentence, mistake, and what somebody else set. */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { FIELDS, idOf } from "./form_fields.js";
import { moment } from "./listing.js";
import { alarm } from "./icons.js";

const UNITS = { "/min": "/min", sec: "s", ms: "ms" };

export const unitWord = (unit) => UNITS[unit] ?? t(`unit.${unit}`);

/** Short text of a field's value, for `default …`, `was …` and conflicts. */
function shortly(name, value) {
  const { kind } = FIELDS[name];
  if (kind === "tag" && value === null) return t("form.tag.same").toLowerCase();
  if (kind === "switch") return t(value ? "form.on" : "form.off");
  if (kind === "moment" && value !== null) return moment(value);
  if (kind === "choice" && value === "server") return t("form.server");
  if (Array.isArray(value) && value.length > 0) return String(value.length);
  return value === null || value.length === 0 ? t("form.none") : String(value);
}

/** At the right of a label: the value before the change, else the default. */
export function Aside({ form, name }) {
  const changed = form.changed.value.includes(name);
  if (changed && form.id !== null) return html`<span class="field-aside">${t("form.was", { value: shortly(name, form.base[name]) })}</span>`;
  const { first, kind, needed } = FIELDS[name];
  return first === "" || needed || kind === "inline" ? null : html`<span class="field-aside">${t("form.default", { value: shortly(name, first) })}</span>`;
}

export const Dot = () => html`<span class="dot" role="img" aria-label=${t("form.changed.one")}></span>`;

export function Conflict({ form, name }) {
  if (!(name in form.conflicts.value)) return null;
  const now = form.conflicts.value[name];
  return html`
    <div class="caution" role="alert">${alarm()}<span>${t("form.conflict", { value: shortly(name, now) })}</span>
      <button type="button" class="button" onClick=${() => form.settle(name, true)}>${t("form.conflict.keep")}</button>
      <button type="button" class="button" onClick=${() => form.settle(name, false)}>${t("form.conflict.take")}</button></div>
  `;
}

/** A field's sentence, or in its place what is wrong with it. */
export function Note({ form, name, help = t(`f.${name}.help`) }) {
  const mistake = form.mistake(name);
  return mistake ? html`<p class="note note-bad" id="${idOf(name)}-note">${alarm()}<span>${mistake}</span></p>` : html`<p class="note" id="${idOf(name)}-note">${help}</p>`;
}

/** Name of a field, with a dot once it was changed. */
export function Name({ form, name }) {
  const changed = form.id !== null && form.changed.value.includes(name);
  return html`${t(`f.${name}`)}${changed && html` <${Dot} />`}`;
}

/** Attributes that tie a control to its words. */
export function tiesOf(form, name) {
  const mistake = form.mistake(name);
  return { id: idOf(name), "aria-describedby": `${idOf(name)}-note`, "aria-invalid": Boolean(mistake), class: mistake ? "field-bad" : "" };
}

/** Frame around any control: `children` is a function of the attributes that tie it to its words. */
export function Frame({ form, name, wide = false, labelled = true, help, children }) {
  const label = html`<${Name} form=${form} name=${name} />`;
  return html`
    <div class="field ${wide ? "field-wide" : ""}">
      <div class="field-head">${labelled ? html`<label for=${idOf(name)}>${label}</label>` : html`<span class="field-label">${label}</span>`}<${Aside} form=${form} name=${name} /></div>
      ${children(tiesOf(form, name))}
      <${Note} form=${form} name=${name} help=${help} />
      <${Conflict} form=${form} name=${name} />
    </div>
  `;
}
