/** The bar: name, warnings, who is signed in, the Console menu and New room. */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { may, me } from "./session.js";
import { roomOf, server, totals } from "./store.js";
import { alarm, lock, mark, plus } from "./icons.js";
import { focusRoom } from "./keyboard.js";
import { Menu } from "./menu.js";
import { Tip } from "./tip.js";
import { openPanel } from "./panels.js";
import { DesktopAlerts } from "./desktop_alerts.js";
import { Diagnostics } from "./diagnostics.js";
import { openRoomForm } from "./room_form.js";
import { Security } from "./security.js";
import { Share } from "./share.js";

/** `ADMIN_KEY`, or `Night ops · operator`, or `… · read only` (CON-015, CON-222). */
export function Who() {
  const person = me.value;
  const right = person.kind === "admin_key" ? "" : may("write") ? person.role : t("readonly");
  return html`<p class="who"><b>${person.name}</b>${right && html`<span> · ${right}</span>`}</p>`;
}

/** `origin down — Shop` of `origin down — Shop: 7 of 9 requests failed in the last minute`; the whole stands in the tip. */
function brief({ text, roomId }) {
  const name = roomId ? roomOf(roomId).value?.name : null;
  const end = name ? text.indexOf(` — ${name}: `) : -1;
  return end < 0 ? text : text.slice(0, end + 3 + name.length);
}

/** The most serious incident, and how many more there are; the only filled red on the page. Leads to its room, or to Diagnostics (CON-038). */
function Incident() {
  const worst = totals.value?.incident;
  if (!worst) return null;
  const more = totals.value.incidents - 1;
  const go = () => (worst.roomId ? focusRoom(worst.roomId) : openPanel(Diagnostics));
  const words = html`${alarm()}<span title=${worst.text}>${brief(worst)}</span>`;
  return html`
    ${worst.roomId || may("diagnostics")
      ? html`<button type="button" class="badge-head badge-bad" onClick=${go}>${words}</button>`
      : html`<span class="badge-head badge-bad">${words}</span>`}
    ${more > 0 && html`<span class="badge-head badge-more" aria-label=${t("incident.more", { n: more })}>+${more}</span>`}
  `;
}

function Insecure() {
  if (!server.value?.insecureConfig || me.value.kind === "monitor") return null;
  const open = () => may("diagnostics") && openPanel(Diagnostics, { at: "diag-warnings" });
  return html`<${Tip} class="badge-head badge-warn" tip=${t("insecure.tip")} onClick=${open}>${lock()}insecure config<//>`;
}

export function Header() {
  return html`
    <header class="bar">
      <p class="brand">${mark()}<span>Queue Manager</span></p>
      <div class="bar-badges"><${Incident} /><${Insecure} /></div>
      <${Who} />
      <${Menu} />
      ${may("diagnostics") && html`<${DesktopAlerts} />`}
      ${may("links") && html`<button type="button" class="button" aria-haspopup="dialog" onClick=${() => openPanel(Share)}>${t("share")}</button>`}
      ${may("security") && html`<button type="button" class="button" aria-haspopup="dialog" onClick=${() => openPanel(Security)}>${t("security")}</button>`}
      ${may("diagnostics") && html`<button type="button" class="button" aria-haspopup="dialog" onClick=${() => openPanel(Diagnostics)}>${t("diag")}</button>`}
      ${may("write") && html`<button type="button" class="button" onClick=${() => openRoomForm()}>${plus()}<span>${t("room.new")}</span></button>`}
    </header>
  `;
}
