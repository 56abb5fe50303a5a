/** The chart below the cards: one room, or all, over the last hour (CON-115 … CON-129). */
import { effect } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { saveFile } from "./api.js";
import { hiddenSeries, keepSelectedRoom, language, theme, toggleSeries } from "./prefs.js";
import { countScale, needOwnScales, waitScale } from "./chart_data.js";
import { ALL, chart, chosen, keepChart, readAll } from "./chart_store.js";
import { EDGES, Panes } from "./chart_plot.js";
import { Over } from "./chart_over.js";
import { ChartTable } from "./chart_table.js";
import { labelOf, Sample, seriesOf, valueOf } from "./chart_series.js";
import { Problem } from "./listing.js";
import { order, roomOf } from "./store.js";
import { words } from "./toasts.js";
import { chevron } from "./icons.js";

/** Show the room of a card, and go to the chart. */
export function showInChart(id) {
  keepSelectedRoom(id);
  focusChart();
}

/** Put the focus on the chart; false where there is none. */
export function focusChart(event) {
  const heading = document.getElementById("chart-title");
  if (!heading) return false;
  event?.preventDefault();
  heading.focus();
  heading.scrollIntoView({ block: "nearest" });
  return true;
}

function Room({ id }) {
  const rooms = order.value.map((one) => [one, roomOf(one).value?.name ?? one]);
  return html`
    <span class="select"><select value=${id} aria-label=${t("chart.room")} onChange=${(event) => keepSelectedRoom(event.currentTarget.value)}>
      ${[...rooms, [ALL, t("totals")]].map(([one, name]) => html`<option key=${one} value=${one} selected=${one === id}>${name}</option>`)}
    </select>${chevron()}</span>
  `;
}

/** Everything that is kept, as a file (CON-127). */
function Export({ id, tell }) {
  const [busy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    tell("");
    const [query, name] = id === ALL ? ["", "qm-history.csv"] : [`roomId=${encodeURIComponent(id)}&`, `qm-history-${id}.csv`];
    await saveFile(`/history?${query}format=csv`, name).catch((refusal) => tell(words(refusal)));
    setBusy(false);
  };
  return html`<button type="button" class="button quiet" disabled=${busy} aria-busy=${busy} onClick=${save}>${t("chart.csv")}</button>`;
}

/** Every series with its present value; pressing one switches it off or on (CON-125). */
function Legend({ id, columns, marks, own }) {
  const entry = (name, label, value) => html`
    <button type="button" key=${name} class="legend-${name}" aria-pressed=${!hiddenSeries.value.has(name)} onClick=${() => toggleSeries(name)}><${Sample} name=${name} /><span>${label}</span><b>${value}</b></button>
  `;
  return html`
    <div class="legend" role="group" aria-label=${t("chart.legend")}>
      ${seriesOf(id).map((series) => entry(series.name, labelOf(series, own), valueOf(series, columns, -1)))}
      ${entry("events", t("chart.events"), marks.filter((mark) => mark.ts >= columns.ts[0]).length)}
    </div>
  `;
}

/** Calls `act` when the colours of the page may have changed: theme, the system's, paper. */
function watchPaint(act) {
  const medias = ["(prefers-color-scheme: dark)", "print"].map((query) => matchMedia(query));
  medias.forEach((media) => media.addEventListener("change", act));
  const end = effect(() => (theme.value, act()));
  return () => {
    end();
    medias.forEach((media) => media.removeEventListener("change", act));
  };
}

function useWidth(host) {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const look = () => setWidth(Math.floor(host.current.clientWidth));
    look();
    const watch = new ResizeObserver(look);
    watch.observe(host.current);
    return () => watch.disconnect();
  }, []);
  return width;
}

/** Ends of the scales; the same objects as long as the room is shown, so that they know when they grew. */
function useEnds(id, { ts, waiting, joinsPerMin, passesPerMin, estWaitSec, waitP90Sec }) {
  const scales = useRef({});
  if (scales.current.id !== id) scales.current = { id, people: countScale(), rate: countScale(), joins: countScale(), passes: countScale(), wait: waitScale() };
  const fit = (name, columns) => scales.current[name].fit(columns, ts.at(-1));
  return { people: fit("people", [waiting]), rate: fit("rate", [joinsPerMin, passesPerMin]), joins: fit("joins", [joinsPerMin]), passes: fit("passes", [passesPerMin]), wait: fit("wait", [estWaitSec, waitP90Sec]) };
}

function Drawn({ id, columns, marks, own }) {
  const host = useRef(null);
  const panes = useRef(null);
  const pointed = useRef(null);
  const width = useWidth(host);
  const ends = useEnds(id, columns);
  const [all, hidden] = [id === ALL, hiddenSeries.value];
  const view = { columns, ends, hidden, width, own, all };
  const isReady = width > 0;
  useLayoutEffect(() => {
    if (!isReady) return undefined;
    panes.current = new Panes(host.current, view);
    const end = watchPaint(() => panes.current.repaint());
    return () => {
      end();
      panes.current.destroy();
      panes.current = null;
    };
  }, [own, all, isReady, language.value]);
  /* After the drawing, for the time that is pointed at moves with the figures. */
  const point = () => panes.current?.point(pointed.current);
  useLayoutEffect(() => {
    panes.current?.draw(view);
    point();
  });
  return html`
    <div class="panes">
      <div ref=${host}></div>
      ${isReady && html`<${Over} key=${id} id=${id} columns=${columns} marks=${marks} own=${own} width=${width} left=${own ? EDGES.own : EDGES.one} point=${(place) => ((pointed.current = place), point())} />`}
    </div>
  `;
}

function Figures({ id, asTable }) {
  const { columns, marks } = chart.value;
  const own = needOwnScales(columns.joinsPerMin, columns.passesPerMin);
  return html`
    <${Legend} id=${id} columns=${columns} marks=${marks} own=${own} />
    ${asTable
      ? html`<${ChartTable} id=${id} shown=${{ columns, marks }} />`
      : html`
        ${own && html`<p class="chart-note chart-own">${t("chart.own.note")}</p>`}
        <${Drawn} id=${id} columns=${columns} marks=${marks} own=${own} />
      `}
    ${id !== ALL && html`<p class="chart-note">${t("chart.trust")}</p>`}
  `;
}

export function Chart() {
  const [asTable, setAsTable] = useState(false);
  const [unsaved, setUnsaved] = useState("");
  useEffect(keepChart, []);
  const id = chosen.value;
  if (id === undefined) return null;
  const { columns, problems, known } = chart.value;
  return html`
    <section class="chart" id="chart" aria-labelledby="chart-title">
      <div class="chart-head">
        <h2 id="chart-title" tabindex="-1">${t("chart")}</h2>
        <${Room} id=${id} />
        <span class="chart-span">${t("chart.hour")}</span>
        <span class="chart-acts">
          <button type="button" class="button quiet" aria-pressed=${asTable} onClick=${() => setAsTable(!asTable)}>${t("chart.table")}</button>
          <${Export} id=${id} tell=${setUnsaved} />
        </span>
      </div>
      <${Problem} text=${Object.values(problems).find(Boolean) || unsaved} again=${() => (setUnsaved(""), readAll())} />
      ${columns ? html`<${Figures} id=${id} asTable=${asTable} />` : known && html`<p class="chart-none">${t("chart.none")}</p>`}
    </section>
  `;
}
