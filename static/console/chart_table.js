/** The chart's figures as a table, newest first, for screen readers and for copying (CON-128). */
import { useRef } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { timeOfDay } from "./format.js";
import { seriesOf } from "./chart_series.js";
import { Mark } from "./chart_over.js";

/** Turns that were measured, or in which something happened. */
function rowsOf({ columns, marks }) {
  const step = columns.ts[1] - columns.ts[0];
  const during = (ts) => marks.filter((mark) => mark.ts >= ts && mark.ts < ts + step);
  const rows = columns.ts.map((ts, place) => ({ ts, place, marks: during(ts) }));
  return rows.filter(({ place, marks: here }) => columns.waiting[place] !== null || here.length > 0).reverse();
}

/** What is read, scrolled or selected stays as it is; the table takes new figures when it is left alone at its top. */
function isRead(frame) {
  return frame !== null && (frame.scrollTop > 0 || frame.contains(document.activeElement) || (String(getSelection()) !== "" && frame.contains(getSelection().anchorNode)));
}

export function ChartTable({ id, shown }) {
  const frame = useRef(null);
  const kept = useRef({ id: null, shown });
  if (kept.current.id !== id || !isRead(frame.current)) kept.current = { id, shown };
  const { columns } = kept.current.shown;
  const lines = seriesOf(id).flatMap((series) => series.lines);
  return html`
    <div class="chart-table" ref=${frame} tabindex="0" role="group" aria-label=${t("chart.table.name")}>
      <table class="figures-table">
        <thead><tr><th scope="col">${t("chart.time")}</th>${lines.map(([column, name]) => html`<th scope="col" key=${column}>${name()}</th>`)}<th scope="col" class="text">${t("chart.events")}</th></tr></thead>
        <tbody>${rowsOf(kept.current.shown).map(({ ts, place, marks }) => html`
          <tr key=${ts}><td><time datetime=${new Date(ts).toISOString()}>${timeOfDay(ts)}</time></td>${lines.map(([column, , text]) => html`<td key=${column}>${text(columns[column][place])}</td>`)}
            <td class="text">${marks.map((mark) => html`<div key=${mark.id}><${Mark} mark=${mark} id=${id} /></div>`)}</td></tr>
        `)}</tbody>
      </table>
    </div>
  `;
}
