/** The Security sheet: what bot protection does and what it decided lately (CON-195 … CON-197). */
import { useEffect } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { number } from "./format.js";
import { moment, Problem, useAnswer } from "./listing.js";
import { Panel } from "./dialogs.js";
import { roomOf } from "./store.js";
import { alarm, cross } from "./icons.js";

const EVERY_MS = 10_000;

/** Name of a room that may be gone. */
const nameOf = (id) => roomOf(id).value?.name ?? id;

/** Outcomes in the words of the server, with a sign where somebody was or would have been kept out. */
const SIGNS = { warned: alarm, wouldBlock: alarm, blocked: cross };

function Total({ name, count }) {
  return html`<div><dt>${name}</dt><dd>${number(count)}</dd></div>`;
}

function Totals({ totals }) {
  return html`
    <dl class="security-totals">
      <${Total} name=${t("security.scored")} count=${totals.scored} />
      <${Total} name=${t("security.warned")} count=${totals.warned} />
      <${Total} name=${t("security.wouldblock")} count=${totals.wouldBlock} />
      <${Total} name=${t("security.blocked")} count=${totals.blocked} />
      <${Total} name=${t("security.crawlers")} count=${totals.crawlers} />
      <${Total} name=${t("security.allowed")} count=${totals.allowListed} />
    </dl>
  `;
}

/** Names and what stands beside them; a sentence when there are none. */
function List({ title, none, rows }) {
  return html`
    <section><h3>${title}</h3>
      ${rows.length === 0 ? html`<p class="entries-none">${none}</p>` : html`<dl class="security-list">${rows.map(([name, value]) => html`<div ><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`}
    </section>
  `;
}

function Decision({ one, isWhole }) {
  return html`
    <tr>
      <td><time datetime=${new Date(one.ts).toISOString()}>${moment(one.ts)}</time></td>
      <td class="text">${nameOf(one.roomId)}</td>
      <td>${number(one.score)}</td>
      <td class="text"><span class=${one.outcome === "blocked" ? "tag-bad" : "outcome"}>${SIGNS[one.outcome]?.()}${one.outcome}</span></td>
      <td class="text mono">${one.signals.join(", ") || "–"}</td>
      ${isWhole && html`<td class="text mono">${one.address ?? "–"}</td><td class="text mono"><span class="agent">${one.userAgent ?? "–"}</span></td>`}
    </tr>
  `;
}

/** The last decisions, newest first. Only who may see addresses gets them from the server (CON-197). */
function Recent({ recent }) {
  const isWhole = recent.some((one) => "address" in one || "userAgent" in one);
  return html`
    <section><h3 id="security-recent">${t("security.recent")}</h3>
      ${recent.length === 0 ? html`<p class="entries-none">${t("security.recent.none")}</p>` : html`
        <div class="wide-table" tabindex="0" role="group" aria-labelledby="security-recent">
          <table class="figures-table">
            <thead><tr><th scope="col">${t("audit.when")}</th><th scope="col" class="text">${t("audit.room")}</th><th scope="col">${t("security.score")}</th><th scope="col" class="text">${t("security.outcome")}</th><th scope="col" class="text">${t("security.signals")}</th>
              ${isWhole && html`<th scope="col" class="text">${t("security.address")}</th><th scope="col" class="text">User-Agent</th>`}</tr></thead>
            <tbody>${recent.map((one, place) => html`<${Decision} key=${place} one=${one} isWhole=${isWhole} />`)}</tbody>
          </table>
        </div>
      `}
    </section>
  `;
}

function Found({ answer }) {
  const bounds = { warn: answer.warnAt, block: answer.blockAt };
  return html`
    <div class="mode"><span class="mode-word" lang="en">${answer.mode}</span><span>${t("security.bounds", bounds)}</span></div>
    <${Totals} totals=${answer.totals} />
    <div class="security-two">
      <${List} title=${t("security.signals")} none=${t("security.signals.none")} rows=${answer.signals.map(({ signal, count }) => [html`<span class="mono">${signal}</span>`, number(count)])} />
      <${List} title=${t("security.rooms")} none=${t("security.rooms.none")} rows=${answer.rooms.map(({ roomId, mode }) => [nameOf(roomId), html`<span lang="en">${mode}</span>`])} />
    </div>
    <${Recent} recent=${answer.recent} />
  `;
}

export function Security({ panelId }) {
  const { answer, problem, load } = useAnswer("/protection");
  useEffect(() => {
    const timer = setInterval(load, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return html`
    <${Panel} panelId=${panelId} kind="sheet sheet-wide" title=${t("security")} sub=${t("security.sub")}>
      ${() => html`
        <div class="panel-body">
          <ul class="report-notes"><li>${t("security.begin")}</li><li>${t("security.refuses")}</li><li>${t("security.shared")}</li></ul>
          <${Problem} text=${problem} again=${load} />
          ${answer && html`<${Found} answer=${answer} />`}
        </div>
      `}
    <//>
  `;
}
