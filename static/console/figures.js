/** The figures of a card: WAITING, EST. WAIT, CAPACITY, then what flows in and out. */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { number, wait } from "./format.js";
import { isScheduled } from "./doors.js";
import { Tip } from "./tip.js";

/** EST. WAIT of a room: the text, and where it needs one an explanation and its spoken form (CON-064 … CON-068). */
function estimate(room) {
  if (room.recovering || room.waiting === null || room.waiting === undefined) return { text: "–" };
  if (room.waiting === 0) return { text: "0s", calm: true };
  if (room.estWaitInfinite) {
    const why = isScheduled(room) ? "wait.infinite.doors" : room.state === "paused" ? "wait.infinite.paused" : "wait.infinite.rate";
    return { text: "∞", tip: t(why), spoken: t("wait.infinite.spoken") };
  }
  if (room.estWaitSec === null || room.estWaitSec === undefined) return { text: "–" };
  const text = wait(room.estWaitSec);
  if (!room.estWaitIsFloor) return { text };
  return { text: `≥${text}`, tip: t("wait.floor.tip", { wait: text }), spoken: t("wait.floor.spoken", { wait: text }) };
}

const calm = (value) => (value === 0 || value === null || value === undefined ? "calm" : "");

function Estimate({ room }) {
  const found = estimate(room);
  const look = found.calm || found.text === "–" ? "calm" : "";
  return html`
    <div class="figure"><dt>${t("estwait")}</dt>
      <dd class="figure-l ${look}">${found.tip ? html`<${Tip} tip=${found.tip} spoken=${found.spoken}>${found.text}<//>` : found.text}</dd>
    </div>
  `;
}

/** Always with a denominator (CON-060); holders of a pass without a slot stand below (CON-062). */
function Capacity({ room }) {
  const { occupancy, maxConcurrent: cap, passesOutstanding: holding } = room;
  const share = cap && occupancy ? Math.min(1, occupancy / cap) : 0;
  const title = holding ? html`<${Tip} tip=${t("capacity.tip")}>${t("capacity")}<//>` : t("capacity");
  return html`
    <div class="figure figure-cap"><dt>${title}</dt>
      <dd class="figure-l ${calm(occupancy)}">
        <span aria-hidden="true">${number(occupancy)}<small>/${cap ? number(cap) : "∞"}</small></span>
        <span class="unseen">${t("capacity.spoken", { n: number(occupancy), cap: cap ? number(cap) : t("nocap") })}</span>
      </dd>
      <dd class="meter ${cap ? "" : "meter-none"} ${share === 1 ? "meter-full" : ""}" aria-hidden="true"><i style=${{ "--share": share }}></i></dd>
      <dd class="figure-note">${holding ? t("capacity.holding", { n: number(holding) }) : ""}</dd>
    </div>
  `;
}

/** People in line; of a scheduled room those in its pre-queue (CON-059). */
export function Figures({ room }) {
  const [name, people] = isScheduled(room) ? [t("prequeue"), room.preQueue] : [t("waiting"), room.waiting];
  const long = people >= 1_000_000;
  return html`
    <dl class="figures">
      <div class="figure"><dt>${name}</dt><dd class="${long ? "figure-l" : "figure-xl"} ${calm(people)}">${number(people)}</dd></div>
      <${Estimate} room=${room} />
      <${Capacity} room=${room} />
    </dl>
  `;
}

export function Flow({ room }) {
  const figure = (name, value) => html`<div class="figure"><dt>${name}</dt><dd class="figure-m ${calm(value)}">${number(value)}</dd></div>`;
  return html`<dl class="flow-figures">${figure(t("joins"), room.joinsPerMin)}${figure(t("passes"), room.passedLastMinute)}</dl>`;
}
