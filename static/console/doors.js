/** The doors of a scheduled room: when they open, counted down by the server's clock (CON-072 … CON-075). */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { dayOf, minuteOfDay, span } from "./format.js";
import { useSeconds } from "./seconds.js";
import { clockFace } from "./icons.js";
import { Tip } from "./tip.js";

const SOON_SEC = 300;
const LATE_SEC = 5;

export const isScheduled = (room) => room.effectiveState === "scheduled";

/** The line under the name. Without an opening time the doors were opened by hand, and the order is being drawn. */
export function Doors({ room }) {
  const now = useSeconds();
  const sec = room.opensAt === null ? -LATE_SEC - 1 : Math.ceil((room.opensAt - now) / 1000);
  if (sec < -LATE_SEC) return html`<p class="notice notice-warn">${clockFace()}<span>${t("doors.opening")}</span></p>`;
  const day = dayOf(room.opensAt) === dayOf(now) ? "" : `${dayOf(room.opensAt)}, `;
  const text = t("doors.in", { left: span(Math.max(0, sec)), time: day + minuteOfDay(room.opensAt) });
  return html`<p class="notice ${sec <= SOON_SEC ? "notice-warn" : ""}">${clockFace()}<${Tip} tip=${t("doors.tip")}>${text}<//></p>`;
}
