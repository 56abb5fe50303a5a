/** What the server said last: rooms, totals, and how old that is. Only frames and answers of the server write here. */
import { batch, signal } from "@preact/signals";
import { isOnSite } from "./api.js";

/** How long a change by somebody else stays marked on the card (CON-055). */
const MARK_MS = 10_000;

/** Ids in the order of the server's list; `null` before the first frame. */
export const order = signal(null);

/** Blocks of the last frame: `totals`, `server`; `null` before the first. */
export const totals = signal(null);
export const server = signal(null);

/** Address that links of this server begin with: PUBLIC_URL, else where this page stands (PAG-043). */
export const publicBase = () => server.value?.publicUrl ?? location.origin + (isOnSite ? "/__qm" : "");

/** `on`: frames arrive; `since`: server time of the last frame once they do not. */
export const live = signal({ on: false, since: null });

/** Server time minus this machine's, in ms (CON-057). */
let offset = 0;
export const serverNow = () => Date.now() + offset;

const rooms = new Map();
const marks = new Map();
const looks = new Map();

function slot(map, id, first) {
  if (!map.has(id)) map.set(id, signal(first));
  return map.get(id);
}

/** Signal of one room's object, `null` once it is deleted. */
export const roomOf = (id) => slot(rooms, id, null);

/** Signal of the last change by somebody else: `{text, by}` or `null`. */
export const markOf = (id) => slot(marks, id, null);

/** Signal: true from the end of a rebuild until the operator dismissed the notice (CON-053). */
export const lookOf = (id) => slot(looks, id, false);

/** Values of this page's own requests under way or just answered, so that they are not marked as somebody else's. */
const own = new Map();

/** Tell that this page sets `field` of room `id` to `value`. */
export const expectOwn = (id, field, value) => own.set(`${id}/${field}`, { value, until: Date.now() + MARK_MS });

function isOwn(id, field, value) {
  const entry = own.get(`${id}/${field}`);
  return entry !== undefined && entry.value === value && entry.until > Date.now();
}

function noticeChanges(id, before, after) {
  for (const field of ["rate", "state"]) {
    if (before[field] === after[field] || isOwn(id, field, after[field])) continue;
    const mark = { text: `${before[field]} → ${after[field]}`, by: after.lastChange?.by ?? "" };
    const place = markOf(id);
    place.value = mark;
    setTimeout(() => place.value === mark && (place.value = null), MARK_MS);
  }
  if (before.recovering && !after.recovering) lookOf(id).value = true;
}

const FIGURES = ["waiting", "preQueue", "active", "occupancy", "passesOutstanding", "joinsPerMin", "passedLastMinute", "estWaitSec", "estWaitInfinite", "estWaitIsFloor"];

/** While the live state cannot be read, the last known figures stand on the card, marked with their time (CON-050). */
function withKnown(before, room) {
  if (!room.stale || !before) return room;
  const unread = FIGURES.filter((name) => room[name] === null);
  return { ...room, ...Object.fromEntries(unread.map((name) => [name, before[name]])) };
}

/** Put one room in place; an answer to an act may bring only some members. */
export function putRoom(room) {
  const place = roomOf(room.id);
  const before = place.peek();
  const after = before ? { ...before, ...withKnown(before, room) } : room;
  if (before) noticeChanges(room.id, before, after);
  place.value = after;
  if (order.peek() && !order.peek().includes(room.id)) order.value = [...order.peek(), room.id];
}

/** Where rooms stood that are gone, so that the focus can go to that place. */
const places = new Map();

/** Id of the room that now stands where `id` stood, or of the last one; undefined without rooms. */
export function neighbourOf(id) {
  const ids = order.peek() ?? [];
  return ids[places.get(id) ?? 0] ?? ids.at(-1);
}

/** Take one room out, after a frame or an answer said that it is gone. */
export function dropRoom(id) {
  if (rooms.has(id)) rooms.get(id).value = null;
  places.set(id, order.peek()?.indexOf(id));
  if (order.peek()?.includes(id)) order.value = order.peek().filter((other) => other !== id);
}

/** Apply one `stats` frame; returns false when it is a delta and no full frame came before it (ADM-095). */
export function applyFrame(frame, started) {
  if (frame.delta && !started) return false;
  offset = frame.ts - Date.now();
  batch(() => {
    const listed = frame.rooms.map((room) => room.id);
    const gone = frame.delta ? (frame.removed ?? []) : (order.peek() ?? []).filter((id) => !listed.includes(id));
    gone.forEach(dropRoom);
    if (!frame.delta && String(order.peek()) !== String(listed)) order.value = listed;
    frame.rooms.forEach(putRoom);
    totals.value = frame.totals;
    server.value = frame.server;
    if (!live.peek().on) live.value = { on: true, since: null };
  });
  return true;
}

/** Mark every figure as old; `since` is the server's time of the last frame. */
export function markOld(since) {
  if (live.peek().on || live.peek().since !== since) live.value = { on: false, since };
}

/** Forget everything, at sign-out: the next person starts from his own first frame. */
export function forgetRooms() {
  rooms.forEach((place) => (place.value = null));
  [marks, looks, own].forEach((map) => map.clear());
  order.value = totals.value = server.value = null;
  live.value = { on: false, since: null };
}
