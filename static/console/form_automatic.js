/** What a room does by itself, in its form: when its doors open, and the switch with the number that it goes by. */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { isScheduled } from "./doors.js";
import { number } from "./format.js";
import { Aside, Conflict, Frame, Name, Note, tiesOf } from "./form_frame.js";
import { utcOf, zone } from "./local_time.js";
import { roomOf } from "./store.js";
import { check } from "./icons.js";

/** What the opening time means as it stands: in UTC, or what none means for this room. */
function meaning(form, text) {
  const utc = utcOf(text);
  if (utc) return html`<b class="mono utc" lang="en">${utc}</b> · ${t("f.opensAt.zone", { zone: zone() })}`;
  const room = form.id === null ? null : roomOf(form.id).value;
  return t(room && isScheduled(room) ? "f.opensAt.open" : "f.opensAt.help");
}

/** A moment in the operator's zone. What was typed of it stays while it is no whole time yet. */
export function Moment({ form, name }) {
  const { text } = form.raw.value[name];
  const typed = ({ currentTarget: field }) => form.set(name, { text: field.value, partial: field.validity.badInput });
  const clear = () => form.set(name, { text: "", partial: false });
  return html`
    <${Frame} form=${form} name=${name} wide help=${meaning(form, text)}>
      ${(ties) => html`
        <span class="field-row moment"><input ...${ties} type="datetime-local" step="any" value=${text} onInput=${typed} />
          ${text && html`<button type="button" class="button" onClick=${clear}>${t("f.opensAt.clear")}</button>`}</span>
      `}
    <//>
  `;
}

/** On or off, by a tick before its words. */
export function Switch({ form, name }) {
  const ties = tiesOf(form, name);
  return html`
    <div class="field field-wide">
      <div class="field-head"><label class="tick"><span class="tick-box"><input ...${ties} type="checkbox" checked=${form.raw.value[name]} onChange=${(event) => form.set(name, event.currentTarget.checked)} />${check()}</span><span><${Name} form=${form} name=${name} /></span></label><${Aside} form=${form} name=${name} /></div>
      <${Note} form=${form} name=${name} />
      <${Conflict} form=${form} name=${name} />
    </div>
  `;
}

/** The number that a threshold is compared with, as it is now (CON-190). */
export function JoinsNow({ id }) {
  return html`<dl class="joins-now"><dt>${t("form.joins.now")}</dt><dd>${number(roomOf(id).value?.joinsPerMin)}<span class="unit">/min</span></dd><dd class="note">${t("form.joins.same")}</dd></dl>`;
}
