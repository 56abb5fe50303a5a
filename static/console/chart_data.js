/** What the chart is made of, as plain data: an hour of samples, scales, marks. Pure: no page, no server, no words. */

/** The chart's span, in ms. */
export const HOUR_MS = 3_600_000;

/** Names of a sample's figures, as the server calls them. */
export const FIGURES = ["waiting", "joinsPerMin", "passesPerMin", "estWaitSec", "waitP50Sec", "waitP90Sec"];

/** Begin of the turn of `ms`, for turns of `step` ms; the server's samples stand at these. */
export const turnOf = (ms, step) => Math.floor(ms / step) * step;

/** Samples by the begin of their turn. */
export const byTurn = (samples) => new Map(samples.map((sample) => [sample.ts, sample]));

/** Columns of the hour that ends with the turn of `end`: `ts` and every figure, a turn without a sample is null in all. */
export function columnsOf(samples, end, step) {
  const turns = HOUR_MS / step;
  const last = turnOf(end, step);
  const ts = Array.from({ length: turns }, (_, place) => last - (turns - 1 - place) * step);
  const column = (name) => ts.map((turn) => samples.get(turn)?.[name] ?? null);
  return { ts, ...Object.fromEntries(FIGURES.map((name) => [name, column(name)])) };
}

/** Take out what is older than the hour before `end`. */
export function forgetOld(samples, end) {
  for (const ts of samples.keys()) if (ts <= end - HOUR_MS) samples.delete(ts);
}

const most = (column) => column.reduce((found, value) => (value === null ? found : Math.max(found, value)), 0);

/** Whether joins and passes need scales of their own: one is more than 4 times the other (CON-118, CON-119). */
export function needOwnScales(joins, passes) {
  const [a, b] = [most(joins), most(passes)];
  return Math.min(a, b) > 0 && Math.max(a, b) > 4 * Math.min(a, b);
}

/** Ends of a scale of counts: three even steps of whole numbers, 3, 6, 9, 15, 30, 60, 90, 150 … */
function countEnd(value) {
  for (let ten = 1; ; ten *= 10) {
    const end = [3, 6, 9, 15].find((one) => one * ten >= value);
    if (end) return end * ten;
  }
}

/** Ends of a scale of waits, in seconds: two even steps that read well as 20s, 5m, 1h. */
const WAITS = [20, 40, 60, 120, 240, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 72_000, 144_000, 288_000, 720_000];
const waitEnd = (value) => WAITS.find((end) => end >= value) ?? countEnd(value / 7200) * 7200;

/** A scale that grows at once and shrinks only after it was too big for a minute, so that it does not breathe. */
class Scale {
  #endOf;
  #end = 0;
  #bigSince = null;

  constructor(endOf) {
    this.#endOf = endOf;
  }

  /** End of the scale for these columns at `now`, in ms. */
  fit(columns, now) {
    const needed = this.#endOf(Math.max(...columns.map(most)));
    if (needed >= this.#end) this.#bigSince = null;
    else this.#bigSince ??= now;
    if (needed > this.#end || (this.#bigSince !== null && now - this.#bigSince >= 60_000)) {
      this.#end = needed;
      this.#bigSince = null;
    }
    return this.#end;
  }
}

export const countScale = () => new Scale(countEnd);
export const waitScale = () => new Scale(waitEnd);

/** Where `ts` lies on a line `width` px long from `start` to `end`, in whole px. */
export const pixelOf = (ts, start, end, width) => Math.round(((ts - start) / (end - start)) * width);

/** Marks inside the span, oldest first, those of one pixel together: `[{x, marks}]` (CON-124). */
export function mergedMarks(marks, start, end, width) {
  const groups = new Map();
  for (const mark of [...marks].sort((a, b) => a.ts - b.ts)) {
    if (mark.ts < start || mark.ts > end) continue;
    const x = pixelOf(mark.ts, start, end, width);
    if (!groups.has(x)) groups.set(x, { x, marks: [] });
    groups.get(x).marks.push(mark);
  }
  return [...groups.values()];
}

/** Times of round tens of minutes by the zone's clock, farther apart on a narrow chart; `zone` is its offset in ms. */
export function ticksOf(start, end, width, zone) {
  const every = [10, 20, 30].find((minutes) => (width * minutes) / 60 >= 76) ?? 30;
  const first = Math.ceil((start + zone) / (every * 60_000)) * every * 60_000 - zone;
  return Array.from({ length: Math.floor((end - first) / (every * 60_000)) + 1 }, (_, place) => first + place * every * 60_000);
}

/** Place of the turn nearest to `x` px on a line `width` px long. */
export function placeAt(x, columns, width) {
  const last = columns.ts.length - 1;
  return Math.min(last, Math.max(0, Math.round((x / width) * last)));
}
