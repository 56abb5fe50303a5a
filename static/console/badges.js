/** The tags beside a room's id: how it is served and what the server does with it by itself (CON-083 … CON-085). */
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { number, timeOfDay, wait } from "./format.js";
import { server, serverNow } from "./store.js";
import { bolt } from "./icons.js";
import { Tip } from "./tip.js";

/** How long a switch by the server itself is set off from one by a person (CON-084). */
const SELF_MS = 15 * 60_000;

/** Ms for which the last switch still counts as fresh at `now`; 0 once it does not. */
function freshFor(auto, now) {
  return auto?.lastSwitchAt ? Math.max(0, auto.lastSwitchAt + SELF_MS - now) : 0;
}

/** What the server did and when, with the numbers by which it does so. */
function story(room) {
  const { lastSwitch, lastSwitchAt, joinsPerMin, sustainSec, releaseAfterSec } = room.autoActivate;
  const time = timeOfDay(lastSwitchAt);
  const figures = { time, n: number(joinsPerMin), now: number(room.joinsPerMin) };
  if (lastSwitch === "closed") return t("auto.closed", { ...figures, sec: wait(releaseAfterSec) });
  return t("auto.opened", { ...figures, sec: wait(sustainSec) });
}

/** Threshold activation: armed with its number, and for a while after a switch the amber one that tells of it. */
function Auto({ room }) {
  const auto = room.autoActivate;
  const [turn, again] = useState(0);
  const left = freshFor(auto, serverNow());
  useEffect(() => {
    if (left === 0) return undefined;
    const timer = setTimeout(() => again((n) => n + 1), left + 50);
    return () => clearTimeout(timer);
  }, [auto?.lastSwitchAt, left > 0, turn]); // the server's time may be told anew meanwhile, and then some is left
  if (left > 0) return html`<${Tip} class="tag tag-self" tip=${story(room)}>${bolt()}AUTO · SELF<//>`;
  return auto?.enabled && html`<b class="tag">AUTO ≥${number(auto.joinsPerMin)}/MIN</b>`;
}

/** Whether the server adjusts the rate: the room's own setting, else the server's (ENG-222). */
const isTuned = (room) => (room.autotune ? room.autotune.enabled === true : server.value?.autotune === true);

/** Whether protection refuses newcomers: the room's own mode, else the server's (VIS-192). */
const isEnforced = (room) => (room.protection?.mode ?? server.value?.protectionMode) === "enforce";

export function Tags({ room }) {
  return html`
    ${room.mode === "inline" && html`<b class="tag">INLINE</b>`}
    <${Auto} room=${room} />
    ${isTuned(room) && html`<b class="tag">AUTOTUNE</b>`}
    ${isEnforced(room) && html`<b class="tag">ENFORCE</b>`}
  `;
}
