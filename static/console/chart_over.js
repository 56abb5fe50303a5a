/** What lies over the panes: marks, names of the scales, and the values of the time that is pointed at. */
import { useLayoutEffect, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { timeOfDay } from "./format.js";
import { hiddenSeries } from "./prefs.js";
import { mergedMarks, pixelOf, placeAt } from "./chart_data.js";
import { ALL } from "./chart_store.js";
import { EDGES, FLOW } from "./chart_plot.js";
import { Sample, seriesOf } from "./chart_series.js";
import { roomOf } from "./store.js";

/** Marks so near to the pointer, in px, are told with the time that is pointed at. */
const NEAR = 5;

/** Samples that Page Up and Page Down pass over: five minutes. */
const PAGE = 60;

/** `rate 60 → 90/min · Night ops`, with the room before it where several are shown. */
export function Mark({ mark, id }) {
  const room = id === ALL && mark.roomId ? `${roomOf(mark.roomId).value?.name ?? mark.roomId}: ` : "";
  return html`<b>${room}${mark.text}</b> <span>· ${mark.actor} · ${timeOfDay(mark.ts)}</span>`;
}

const spoken = (mark) => `${mark.text}, ${mark.actor}, ${timeOfDay(mark.ts)}`;

/** Lines of the tip: `[series, name, value]` of every series that is on. */
function valuesAt(id, columns, place) {
  const on = seriesOf(id).filter((series) => !hiddenSeries.value.has(series.name));
  return on.flatMap((series) => series.lines.map(([column, name, text]) => [series.name, name(), text(columns[column][place])]));
}

function ChartTip({ id, columns, place, marks, x, width }) {
  const side = x > width / 2 ? { right: `${width - x + 14}px` } : { left: `${x + 14}px` };
  return html`
    <div class="chart-tip" style=${side}>
      <b>${timeOfDay(columns.ts[place])}</b>
      <dl>${valuesAt(id, columns, place).map(([series, name, value]) => html`<div key=${name}><${Sample} name=${series} /><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
      ${marks.length > 0 && html`<ul>${marks.map((mark) => html`<li key=${mark.id}><${Mark} mark=${mark} id=${id} /></li>`)}</ul>`}
    </div>
  `;
}

/** Names of the scales above their numbers, in the colours of their lines. */
function ScaleNames({ own, all, left, width }) {
  const at = (px) => ({ right: `${width - px}px` });
  return html`
    ${own
      ? html`<span class="scale-name scale-joins" style=${at(EDGES.one - 8)}>${t("chart.joins")}</span><span class="scale-name scale-passes" style=${at(left - 8)}>${t("chart.passes")}</span>`
      : html`<span class="scale-name scale-joins" style=${at(left - 8)}>/min</span>`}
    <span class="scale-name scale-people" style=${{ left: `${width - EDGES.right + 8}px` }}>${t("chart.scale.people")}</span>
    ${!all && html`<span class="scale-name scale-wait" style=${{ left: `${left + 6}px`, top: `${EDGES.top + FLOW + EDGES.between}px` }}>${t("chart.scale.wait")}</span>`}
  `;
}

/** Where a key leads from the sample at `place`; undefined: the key is another one. */
function keyed(key, place, last) {
  const from = place ?? last;
  return { ArrowLeft: from - (place === null ? 0 : 1), ArrowRight: from + 1, PageUp: from - PAGE, PageDown: from + PAGE, Home: 0, End: last, Escape: null }[key];
}

/** `point` shows the line of a sample in the panes, `left` is where they begin. Escape puts the line away. */
export function Over({ id, columns, marks, own, width, left, point }) {
  const [at, setAt] = useState(null);
  const last = columns.ts.length - 1;
  const inner = width - left - EDGES.right;
  const [start, end] = [columns.ts[0], columns.ts[last]];
  const groups = hiddenSeries.value.has("events") ? [] : mergedMarks(marks, start, end, inner);
  /* The time stays pointed at while the chart moves on under it, and at the left edge the oldest there is: keys go on from it. */
  const place = at === null ? null : Math.min(last, Math.max(0, Math.round((at - start) / (columns.ts[1] - start))));
  useLayoutEffect(() => point(place));
  const x = place === null ? null : pixelOf(columns.ts[place], start, end, inner);
  const near = place === null ? [] : groups.filter((group) => Math.abs(group.x - x) <= NEAR).flatMap((group) => group.marks);
  const goTo = (found) => setAt(found === null ? null : columns.ts[found]);
  const onPointer = (event) => goTo(placeAt(event.clientX - event.currentTarget.getBoundingClientRect().left - left, columns, inner));
  const onKeyDown = (event) => {
    const found = keyed(event.key, place, last);
    if (found === undefined || (event.key === "Escape" && place === null)) return;
    event.preventDefault();
    goTo(found === null ? null : Math.min(last, Math.max(0, found)));
  };
  const shown = place ?? last;
  const told = [timeOfDay(columns.ts[shown]), ...valuesAt(id, columns, shown).map(([, name, value]) => `${name} ${value}`), ...near.map(spoken)];
  return html`
    <div class="over" role="slider" tabindex="0" aria-label=${t("chart.move")} aria-valuemin="0" aria-valuemax=${last} aria-valuenow=${shown} aria-valuetext=${told.join(", ")}
      onPointerMove=${onPointer} onPointerDown=${onPointer} onPointerLeave=${() => setAt(null)} onBlur=${() => setAt(null)} onKeyDown=${onKeyDown}>
      <${ScaleNames} own=${own} all=${id === ALL} left=${left} width=${width} />
      ${groups.map((group) => html`
        <span key=${group.marks[0].id} class="chart-mark ${group.marks.length > 1 ? "chart-mark-many" : ""}" style=${{ left: `${left + group.x}px` }} aria-hidden="true">${group.marks.length > 1 && html`<b>${group.marks.length}</b>`}</span>
      `)}
      ${place !== null && html`<${ChartTip} id=${id} columns=${columns} place=${place} marks=${near} x=${left + x} width=${width} />`}
    </div>
  `;
}
