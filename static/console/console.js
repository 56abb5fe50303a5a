/** The signed-in page: skip links, bar, totals, rooms, and what lies over them. */
import { effect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { number } from "./format.js";
import { Header } from "./header.js";
import { Strip } from "./strip.js";
import { Totals } from "./totals.js";
import { RoomList } from "./room_list.js";
import { Chart, focusChart } from "./chart.js";
import { Toasts } from "./toasts.js";
import { PanelHost } from "./dialogs.js";
import { live, order, totals } from "./store.js";
import { focusRooms } from "./keyboard.js";
import { watchRestarts } from "./restart.js";

/** The tab's title carries the number waiting, and a sign while something is wrong (CON-042). */
function titled() {
  return effect(() => {
    const waiting = totals.value?.waiting;
    const alarmed = totals.value?.incident ? "⚠ " : "";
    document.title = alarmed + (waiting ? `(${number(waiting)}) Queue Manager` : "Queue Manager");
  });
}

/** Reads out the incident of the badge when it is a new one (CON-226). */
const Alarm = () => html`<p class="unseen" role="alert">${totals.value?.incident?.text ?? ""}</p>`;

/** Greys every figure while frames do not come; nothing moves by it. */
function marked() {
  return effect(() => document.documentElement.toggleAttribute("data-old", !live.value.on));
}

export function Console() {
  useEffect(titled, []);
  useEffect(marked, []);
  useEffect(watchRestarts, []);
  return html`
    <a class="skip skip-page" href="#rooms" onClick=${focusRooms}>${t("skip.rooms")}</a>
    ${order.value?.length > 0 && html`<a class="skip skip-page" href="#chart" onClick=${focusChart}>${t("skip.chart")}</a>`}
    <${Header} />
    <${Totals} />
    <${Strip} />
    <main id="rooms" tabindex="-1" aria-label=${t("rooms")}><${RoomList} /><${Chart} /></main>
    <${Alarm} />
    <${Toasts} />
    <${PanelHost} />
  `;
}
