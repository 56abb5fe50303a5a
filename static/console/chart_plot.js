/** The two panes of the chart, drawn by uPlot: flow above, waits below, on one time axis. */
import { minuteOfDay, number, wait } from "./format.js";
import { ticksOf } from "./chart_data.js";

/** Room beside and around the panes, in px; `top` holds the heads of marks and the names of the scales. */
export const EDGES = { top: 24, one: 48, own: 100, right: 56, between: 14, bottom: 24 };
export const FLOW = 150;
export const WAITS = 74;

/** Colours by the names of their variables in chart.css. */
const HUES = ["people", "joins", "joins-text", "passes", "actual", "est", "people-area", "actual-area", "grid", "text", "surface"];

/** The colours of the present theme, as canvas understands them; `probe` is any element of the chart. */
function huesOf(probe) {
  const style = getComputedStyle(probe);
  const paint = (name) => {
    probe.style.color = `var(--con-chart-${name})`;
    return style.color;
  };
  const hues = Object.fromEntries(HUES.map((name) => [name, paint(name)]));
  probe.style.color = "";
  return { ...hues, font: `${document.documentElement.lang === "th" ? 12 : 11}px ${style.fontFamily}` };
}

/** A sample between two gaps has no line: it is shown as a dot. */
function lonely(plot, series) {
  const values = plot.data[series];
  return values.flatMap((value, at) => (value !== null && values[at - 1] == null && values[at + 1] == null ? [at] : []));
}

/** Shapes on the lines of joins (▲, adds to the line) and passes (▼, takes from it), every six minutes. */
function drawShapes(plot, series, up, hue) {
  if (!plot.series[series].show) return;
  const { ctx } = plot;
  const size = 3.4 * devicePixelRatio;
  ctx.fillStyle = hue;
  plot.data[0].forEach((sec, at) => {
    const value = plot.data[series][at];
    if (value === null || sec % 360 !== (up ? 0 : 180)) return;
    const [x, y] = [plot.valToPos(sec, "x", true), plot.valToPos(value, plot.series[series].scale, true)];
    const tip = up ? -size : size;
    ctx.beginPath();
    ctx.moveTo(x, y + tip);
    ctx.lineTo(x - size, y - tip);
    ctx.lineTo(x + size, y - tip);
    ctx.fill();
  });
}

const thirds = (_, axis, min, max) => [0, max / 3, (2 * max) / 3, max];
const halves = (_, axis, min, max) => [0, max / 2, max];

export class Panes {
  #flow;
  #waits = null;
  #view = null;
  #hues;
  #host;

  /** `view`: `{own, all, …}` as `draw` takes it; `own` and `all` hold as long as the panes. */
  constructor(host, view) {
    this.#host = host;
    this.#view = view;
    this.#hues = huesOf(host);
    this.#flow = new uPlot(this.#flowOptions(), this.#flowData(), host);
    if (!view.all) this.#waits = new uPlot(this.#waitOptions(), this.#waitData(), host);
    this.draw(view);
  }

  destroy() {
    this.#flow.destroy();
    this.#waits?.destroy();
  }

  /** Show `view`: `{columns, ends: {people, rate, joins, passes, wait}, hidden, width}`. */
  draw(view) {
    this.#view = view;
    const shown = [view.hidden.has("waiting"), view.hidden.has("joins"), view.hidden.has("passes")];
    this.#put(this.#flow, this.#flowData(), shown, this.#flowHeight());
    const { hidden } = view;
    if (this.#waits) this.#put(this.#waits, this.#waitData(), [hidden.has("est"), hidden.has("actual"), hidden.has("actual")], this.#waitHeight());
  }

  /** Take the colours of the present theme, language or paper. */
  repaint() {
    this.#hues = huesOf(this.#host);
    this.#flow.redraw(false, true);
    this.#waits?.redraw(false, true);
  }

  /** Line and dots at the sample at `place`; null puts them away. */
  point(place) {
    for (const plot of [this.#flow, this.#waits]) {
      const left = place === null ? -10 : plot?.valToPos(plot.data[0][place], "x");
      plot?.setCursor({ left, top: place === null ? -10 : 0 });
    }
  }

  #put(plot, data, hidden, height) {
    if (plot.width !== this.#view.width) plot.setSize({ width: this.#view.width, height });
    plot.batch(() => {
      hidden.forEach((isHidden, place) => plot.series[place + 1].show === isHidden && plot.setSeries(place + 1, { show: !isHidden }));
      plot.setData(data);
    });
  }

  #flowData() {
    const { columns } = this.#view;
    return [columns.ts.map((ms) => ms / 1000), columns.waiting, columns.joinsPerMin, columns.passesPerMin];
  }

  #waitData() {
    const { columns } = this.#view;
    return [columns.ts.map((ms) => ms / 1000), columns.estWaitSec, columns.waitP50Sec, columns.waitP90Sec];
  }

  #flowHeight() {
    return EDGES.top + FLOW + (this.#view.all ? EDGES.bottom : EDGES.between / 2);
  }

  #waitHeight() {
    return EDGES.between / 2 + WAITS + EDGES.bottom;
  }

  #hue = (name) => () => this.#hues[name];

  #span = () => {
    const { ts } = this.#view.columns;
    return [ts[0] / 1000, ts.at(-1) / 1000];
  };

  #scale = (name) => ({ range: () => [0, this.#view.ends[name]] });

  #line(scale, hue, width, more = {}) {
    return { scale, stroke: this.#hue(hue), width, points: { show: true, size: 4, fill: this.#hue(hue), filter: lonely }, ...more };
  }

  #axis(more) {
    const { font } = this.#hues;
    return { font, size: EDGES.one, gap: 8, ticks: { show: false }, grid: { show: false }, ...more };
  }

  #time(isShown) {
    const ticks = (plot, axis, min, max) => {
      const zone = -new Date(max * 1000).getTimezoneOffset() * 60_000;
      return ticksOf(min * 1000, max * 1000, plot.bbox.width / devicePixelRatio, zone).map((ms) => ms / 1000);
    };
    if (!isShown) return { show: false };
    return this.#axis({ size: EDGES.bottom, gap: 6, stroke: this.#hue("text"), splits: ticks, values: (_, splits) => splits.map((sec) => minuteOfDay(sec * 1000)) });
  }

  #frame(padding, height) {
    return {
      width: this.#view.width,
      height,
      padding,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7, width: 0 } },
    };
  }

  #counts(side, scale, hue, more = {}) {
    return this.#axis({ side, scale, stroke: this.#hue(hue), splits: thirds, values: (_, splits) => splits.map(number), ...more });
  }

  #flowOptions() {
    const { own, all } = this.#view;
    const lines = { stroke: this.#hue("grid"), width: 1 };
    const left = own
      ? [this.#counts(3, "passes", "passes", { size: EDGES.own - EDGES.one }), this.#counts(3, "joins", "joins-text")]
      : [this.#counts(3, "rate", "joins-text")];
    const shapes = (plot) => {
      drawShapes(plot, 2, true, this.#hues.joins);
      drawShapes(plot, 3, false, this.#hues.passes);
    };
    return {
      ...this.#frame([EDGES.top, 0, all ? 0 : EDGES.between / 2, 0], this.#flowHeight()),
      scales: { x: { range: this.#span }, people: this.#scale("people"), ...(own ? { joins: this.#scale("joins"), passes: this.#scale("passes") } : { rate: this.#scale("rate") }) },
      axes: [this.#time(all), this.#counts(1, "people", "people", { size: EDGES.right, grid: { show: true, ...lines } }), ...left],
      series: [
        {},
        this.#line("people", "people", 2, { fill: this.#hue("people-area") }),
        this.#line(own ? "joins" : "rate", "joins", 1.6),
        this.#line(own ? "passes" : "rate", "passes", 1.6),
      ],
      hooks: { draw: [shapes] },
    };
  }

  #waitOptions() {
    const left = this.#view.own ? EDGES.own : EDGES.one;
    const lines = { stroke: this.#hue("grid"), width: 1 };
    const values = (_, splits) => splits.map((sec) => (sec === 0 ? "0" : wait(sec)));
    return {
      ...this.#frame([EDGES.between / 2, 0, 0, left], this.#waitHeight()),
      scales: { x: { range: this.#span }, wait: this.#scale("wait") },
      axes: [this.#time(true), this.#axis({ side: 1, scale: "wait", size: EDGES.right, stroke: this.#hue("text"), splits: halves, values, grid: { show: true, ...lines } })],
      series: [{}, this.#line("wait", "est", 1.6, { dash: [5, 4] }), this.#line("wait", "actual", 2), this.#line("wait", "actual", 1)],
      bands: [{ series: [3, 2], fill: this.#hue("actual-area") }],
    };
  }
}
