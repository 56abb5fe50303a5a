/** Totals of all rooms, and how live they are. Every figure has a reserved place: digits never move a box. */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { number, timeOfDay, wait } from "./format.js";
import { useSeconds } from "./seconds.js";
import { live, roomOf, server, totals } from "./store.js";
import { disc, slashRing } from "./icons.js";
import { Who } from "./header.js";

/** The figure and its note (CON-035 … CON-037): rooms that stand still are left out, and that is said. */
function worst(all) {
  const found = all?.worstWait;
  if (!found) return { text: "–", note: "" };
  if (found.kind === "infinite") return { text: "∞", spoken: t("wait.infinite.spoken"), note: t("worst.still", { n: found.notAdmitting }) };
  if (found.sec === null) return { text: "–", note: "" };
  const floor = found.kind === "floor";
  const text = (floor ? "≥" : "") + wait(found.sec);
  const spoken = floor ? t("wait.floor.spoken", { wait: wait(found.sec) }) : undefined;
  if (found.excluded) return { text, spoken, note: t("worst.excludes", { n: found.excluded }) };
  return { text, spoken, note: (found.sec && found.roomId && roomOf(found.roomId).value?.name) || "" };
}

function Figure({ name, text, spoken, note = "", class: size = "" }) {
  return html`
    <div class="total ${size}">
      <dt>${name}</dt>
      <dd><span aria-hidden=${Boolean(spoken)}>${text}</span>${spoken && html`<span class="unseen">${spoken}</span>`}</dd>
      <dd class="total-note">${note}</dd>
    </div>
  `;
}

/** The server's clock, ticking on its whole seconds (CON-057). */
function Clock() {
  const now = useSeconds();
  return html`<time class="clock">${timeOfDay(now)}</time>`;
}

function LiveMark() {
  const { on, since } = live.value;
  const instances = server.value?.instances;
  const fleet = instances === undefined ? "" : t(instances === 1 ? "instances.one" : "instances", { n: instances });
  if (on) return html`<p class="live live-on">${disc()}${t("live")}</p><p class="live-clock"><${Clock} /></p><p class="live-fleet">${fleet}</p>`;
  if (since === null) return html`<p class="live">${slashRing()}${t("connecting")}</p><p class="live-clock"></p><p class="live-fleet"></p>`;
  return html`<p class="live live-off">${slashRing()}${t("notlive")}</p><p class="live-clock">${t("since", { time: timeOfDay(since) })}</p><p class="live-fleet">${fleet}</p>`;
}

export function Totals() {
  const all = totals.value;
  const longest = worst(all);
  return html`
    <section class="totals" aria-label=${t("totals")}>
      <${Who} />
      <dl>
        <${Figure} class="total-first" name=${t("waiting")} text=${number(all?.waiting)} />
        ${all?.preQueue > 0 && html`<${Figure} name=${t("prequeue")} text=${number(all.preQueue)} />`}
        <${Figure} name=${t("onsite")} text=${number(all?.active)} />
        <${Figure} name=${t("joins")} text=${number(all?.joinsPerMin)} />
        <${Figure} name=${t("passes")} text=${number(all?.passedLastMinute)} />
        <${Figure} class="total-worst" name=${t("worst")} ...${longest} />
      </dl>
      <div class="live-block"><${LiveMark} /></div>
    </section>
  `;
}
