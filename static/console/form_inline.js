/** The switch "Serve this room inline": who may use it, what it changes, what is asked before it is taken off (CON-110). */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { hostOf } from "./format.js";
import { hostLeft, isHere } from "./inline.js";
import { openPanel } from "./panels.js";
import { may } from "./session.js";
import { roomOf } from "./store.js";
import { alarm, check } from "./icons.js";
import { Confirm } from "./dialogs.js";

const HELD = ["proxyOrigin", "targetUrl"];

/** Whether a field decides where an inline room's traffic goes, and is an owner's to change (INL-015). */
export const isHeld = (form, name) => HELD.includes(name) && !may("inline") && (name === "proxyOrigin" || form.base.proxyOrigin !== null);

/** What becomes of the host: nothing answers there any more, perhaps not even this page (INL-022, INL-023). */
export function HostLeft({ host }) {
  return host && html` <b>${t(isHere(host) ? "inline.left.here" : "inline.left", { host })}</b>`;
}

function askSnippet(form, off) {
  const room = roomOf(form.id).peek();
  const body = html`${t("inline.off.body", { host: hostOf(room.targetUrl) })}<${HostLeft} host=${hostLeft(room)} />`;
  openPanel(Confirm, { roomId: form.id, title: t("inline.off.title", { name: room.name }), body, keep: t("inline.off.keep"), act: t("inline.off"), bad: true, run: async () => off() });
}

/** The sentence under the switch: why it cannot be used, or what it means as it stands. */
function what(form, held) {
  if (held) return t(form.base.proxyOrigin === null ? "inline.owner.new" : "inline.owner");
  const { value } = form.raw;
  return value.proxyOrigin.on ? t("inline.on", { host: hostOf(value.targetUrl) || "…" }) : t("inline.what");
}

export function InlineSwitch({ form }) {
  const { on } = form.raw.value.proxyOrigin;
  const held = isHeld(form, "proxyOrigin");
  const first = form.base.proxyOrigin;
  const off = () => form.set("proxyOrigin", { on: false, text: first ?? "" });
  const toggle = (event) => {
    if (event.currentTarget.checked) return form.set("proxyOrigin", { on: true, text: first ?? "" });
    if (first === null) return off();
    event.currentTarget.checked = true; // it stays until the question is answered
    return askSnippet(form, off);
  };
  return html`
    <div class="field field-wide">
      <label class="tick"><span class="tick-box"><input type="checkbox" id="f-inline" checked=${on} disabled=${held} aria-describedby="f-inline-note" onChange=${toggle} />${check()}</span>${t("inline")}</label>
      <p class="note" id="f-inline-note">${what(form, held)}</p>
    </div>
  `;
}

/** Said before a save that takes the host of this page away (CON-185). */
export function Leaving({ form }) {
  const room = form.id === null ? null : roomOf(form.id).value;
  const { targetUrl, proxyOrigin } = form.results.value;
  if (!room || targetUrl.error || proxyOrigin.error) return null;
  const host = hostLeft(room, targetUrl.value, proxyOrigin.value);
  return isHere(host) && html`<p class="caution" role="alert">${alarm()}<span>${t("inline.left.here", { host })}</span></p>`;
}
