/** The chart's series: their names, the shape of their lines, and their values as text. */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { number, wait } from "./format.js";
import { ALL } from "./chart_store.js";

const figure = (value) => number(value);
const length = (value) => (value === null ? "–" : wait(value));

/** Series in the order of the legend; `lines` are `[column, name, text of a value]` of each of its lines. */
const SERIES = [
  { name: "waiting", label: () => t("chart.people"), lines: [["waiting", () => t("chart.people"), figure]] },
  { name: "joins", label: () => t("joins"), ofRate: true, lines: [["joinsPerMin", () => t("joins"), figure]] },
  { name: "passes", label: () => t("passes"), ofRate: true, lines: [["passesPerMin", () => t("passes"), figure]] },
  { name: "est", label: () => t("estwait"), isWait: true, lines: [["estWaitSec", () => t("estwait"), length]] },
  {
    name: "actual",
    label: () => t("chart.actual"),
    isWait: true,
    lines: [
      ["waitP50Sec", () => t("chart.actual50"), length],
      ["waitP90Sec", () => t("chart.actual90"), length],
    ],
  },
];

/** Series of the chosen room; all rooms together have no waits. */
export const seriesOf = (id) => SERIES.filter((series) => id !== ALL || !series.isWait);

/** `Joins/min (rate scale)`: whose numbers at the axis are the line's (CON-117, CON-118). */
export const labelOf = (series, own) => (series.ofRate ? `${series.label()} ${t(own ? "chart.ownscale" : "chart.ratescale")}` : series.label());

/** Value of a series at `place`: `28m / 40m` where it has two lines. */
export const valueOf = (series, columns, place) => series.lines.map(([column, , text]) => text(columns[column].at(place))).join(" / ");

const SAMPLES = {
  waiting: html`<path class="sample-area" d="M0 5h18v7H0z" /><path d="M0 4.5h18" stroke-width="2" />`,
  joins: html`<path d="M0 6h18" stroke-width="1.6" /><path class="sample-shape" d="M9 2.4 12.4 9H5.6z" />`,
  passes: html`<path d="M0 6h18" stroke-width="1.6" /><path class="sample-shape" d="M9 9.6 12.4 3H5.6z" />`,
  est: html`<path d="M0 6h18" stroke-width="1.6" stroke-dasharray="4 3" />`,
  actual: html`<path class="sample-area" d="M0 2h18v8H0z" /><path d="M0 2h18" /><path d="M0 10h18" stroke-width="2" />`,
  events: html`<path class="sample-shape" d="M9 2 12.6 6 9 10 5.4 6z" />`,
};

/** A piece of the line as it is drawn. */
export const Sample = ({ name }) => html`<svg class="sample sample-${name}" viewBox="0 0 18 12" aria-hidden="true" focusable="false">${SAMPLES[name]}</svg>`;
