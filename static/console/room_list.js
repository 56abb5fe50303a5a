/** The rooms as cards, in the order of the server's list, or what to do while there is none. */
import { useEffect } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { may } from "./session.js";
import { order } from "./store.js";
import { line } from "./icons.js";
import { beginFirstSteps, FirstSteps } from "./first_steps.js";
import { openRoomForm } from "./room_form.js";
import { RoomCard } from "./room_card.js";

/** Nothing is served yet: one sentence, one button, and how this build fails when it fails (CON-231, CON-235). */
function Empty() {
  useEffect(() => void (may("write") && beginFirstSteps()), []);
  if (!may("write")) return html`<section class="empty"><h1>${t("empty.readonly")}</h1></section>`;
  return html`
    <section class="empty">
      ${line()}
      <h1>${t("empty.title")}</h1>
      <p class="empty-what">${t("empty.what")}</p>
      <button type="button" class="fill" onClick=${() => openRoomForm()}>${t("empty.create")}</button>
      <h2>${t("empty.how")}</h2>
      <div class="way">
        <h3>${t("empty.tag")}</h3>
        <p>${t("empty.tag.what")}</p>
        <h4>${t("empty.down")}</h4>
        <p class="way-down">${t("empty.tag.down")}</p>
      </div>
    </section>
  `;
}

export function RoomList() {
  const ids = order.value;
  if (ids === null) return null;
  if (ids.length === 0) return html`<${Empty} />`;
  return html`
    <div class="cards">${ids.map((id) => html`<${RoomCard} key=${id} id=${id} />`)}</div>
    <${FirstSteps} />
    <p id="rooms-end" class="unseen" tabindex="-1">${t("rooms.end")}</p>
  `;
}
