/** The chart's room, its samples and its marks: asked for once, lengthened by every frame, asked for again now and then. */
import { batch, computed, effect, signal } from "@preact/signals";
import { ask } from "./api.js";
import { byTurn, columnsOf, forgetOld, HOUR_MS, turnOf } from "./chart_data.js";
import { selectedRoom } from "./prefs.js";
import { order, roomOf, serverNow, totals } from "./store.js";
import { words } from "./toasts.js";
import { inTurn, TURN_MS } from "./turns.js";

/** Choice of all rooms, by which the server knows their sums; no room id can hold a star. */
export const ALL = "*";

const STEP_MS = 5000;

/** How often samples are asked for again though frames lengthen them. */
const AGAIN_MS = 60_000;

/** Room shown: the remembered one, or the first when that is gone (CON-116); undefined without rooms. */
export const chosen = computed(() => {
  const ids = order.value ?? [];
  if (ids.length > 0 && (selectedRoom.value === ALL || ids.includes(selectedRoom.value))) return selectedRoom.value;
  return ids[0];
});

const NOTHING = { columns: null, marks: [], problems: {}, known: false };

/** `{columns, marks, problems, known}` of the chosen room: why a question was refused by its name; `known` once an answer came, `columns` is null before. */
export const chart = signal(NOTHING);

let samples = new Map();

/** Turns of the two questions while the chart is on the page. */
let turns = null;

/** Every question carries what was chosen; an answer to an earlier choice is dropped. */
const isStill = (id) => chosen.peek() === id;

/** Show what is known now. */
function show(more = {}) {
  const end = Math.max(serverNow(), ...samples.keys());
  forgetOld(samples, end);
  const columns = samples.size > 0 ? columnsOf(samples, end, STEP_MS) : null;
  chart.value = { ...chart.peek(), ...more, columns };
}

async function readSamples(id) {
  turns?.samples.asked();
  const query = new URLSearchParams({ roomId: id });
  const { rooms } = await ask("GET", `/history?${query}`);
  if (!isStill(id)) return;
  const read = byTurn(rooms[id] ?? []);
  const newest = Math.max(0, ...read.keys());
  /* Frames may be ahead of the last sample that was written. */
  samples.forEach((sample, ts) => ts > newest && read.set(ts, sample));
  samples = read;
  show({ known: true });
}

async function readMarks(id) {
  turns?.marks.asked();
  /* A little less than an hour, which a web worker of the server reads without help (BUD-073). */
  const query = new URLSearchParams({ from: serverNow() - HOUR_MS + TURN_MS });
  if (id !== ALL) query.set("roomId", id);
  const { items } = await ask("GET", `/timeline?${query}`);
  if (isStill(id)) show({ marks: items });
}

const QUESTIONS = { samples: readSamples, marks: readMarks };

/** Ask one question; what another one met stays told beside it. */
async function attempt(name, id) {
  const problem = await QUESTIONS[name](id).then(() => "", words);
  if (isStill(id)) chart.value = { ...chart.peek(), problems: { ...chart.peek().problems, [name]: problem } };
}

/** Ask for everything of the chosen room. */
export async function readAll() {
  const id = chosen.peek();
  if (id === undefined) return;
  await Promise.all(Object.keys(QUESTIONS).map((name) => attempt(name, id)));
}

/** Ask one question again. */
function again(name) {
  const id = chosen.peek();
  if (id !== undefined) attempt(name, id);
}

const COUNTED = { waiting: "waiting", joinsPerMin: "joinsPerMin", passesPerMin: "passedLastMinute" };
const WAITED = { estWaitSec: "estWaitSec", waitP50Sec: "waitP50Sec", waitP90Sec: "waitP90Sec" };

/** The sample that a frame stands for; null where its figures are unknown or old. */
function sampleOf(id) {
  const source = id === ALL ? totals.peek() : roomOf(id).peek();
  if (!source || source.stale || source.recovering || source.waiting === null) return null;
  const members = id === ALL ? COUNTED : { ...COUNTED, ...WAITED };
  return Object.fromEntries(Object.entries(members).map(([name, member]) => [name, source[member] ?? null]));
}

function lengthen() {
  if (!totals.value || !chart.peek().known) return;
  const ts = turnOf(serverNow(), STEP_MS);
  const sample = samples.has(ts) ? null : sampleOf(chosen.peek());
  if (!sample) return;
  samples.set(ts, { ts, ...sample });
  show();
}

/** A mark is written about a second after the change that it tells of. */
const WRITTEN_MS = 1500;

let changed;

function noticeChange() {
  const id = chosen.value;
  const at = id && id !== ALL ? roomOf(id).value?.lastChange?.at : undefined;
  if (at !== changed) turns.marks.soon(WRITTEN_MS);
  changed = at;
}

/** Keep the chart up to date while it is on the page; returns what ends it. */
export function keepChart() {
  turns = { samples: inTurn(() => again("samples"), AGAIN_MS), marks: inTurn(() => again("marks"), AGAIN_MS) };
  const ends = [
    effect(() => {
      if (chosen.value === undefined) return;
      batch(() => {
        samples = new Map();
        chart.value = NOTHING;
      });
      readAll();
    }),
    effect(lengthen),
    effect(noticeChange),
  ];
  return () => {
    Object.values(turns).forEach(({ end }) => end());
    ends.forEach((end) => end());
  };
}
