/** What a look-up found, in words: its state, the way it has gone, the clock that runs. Pure but for the language. */
import { t } from "./i18n.js";
import { dayOf, number, span, timeOfDay } from "./format.js";

/** State of the server → the word for it (CON-138) and its colour; the words are badge words and stay English. */
export const STATES = {
  prequeued: { word: "in pre-queue", tone: "wait" },
  waiting: { word: "waiting", tone: "plain" },
  passed: { word: "passed", tone: "wait" },
  active: { word: "on site", tone: "good" },
  expired: { word: "expired", tone: "plain" },
  ejected: { word: "ejected", tone: "bad" },
  previous_generation: { word: "earlier generation", tone: "warn" },
  unknown: { word: "unknown", tone: "plain" },
};

/** States in which there is a place, a pass or a session to take away. */
export const canEject = (answer) => ["waiting", "passed", "active"].includes(answer?.state) && answer.ticket !== null;

/** `K7Q-2MX`, as pages show a ref. */
export const dashed = (ref) => (ref?.length === 6 ? `${ref.slice(0, 3)}-${ref.slice(3)}` : (ref ?? "–"));

/** `2:29:55 AM`, with the day where it is another one than that of `now`. */
const at = (ms, now) => (ms === null || ms === undefined ? "–" : `${dayOf(ms) === dayOf(now) ? "" : `${dayOf(ms)}, `}${timeOfDay(ms)}`);

const until = (ms, now) => span(Math.max(0, Math.ceil((ms - now) / 1000)));

/** The wait: still growing (`waiting`) or over and standing still (`waited`); the two are never both there (CON-139). */
function wait({ waitingSec, waitedSec }) {
  if (waitingSec !== undefined) return [{ mark: "dash", name: "visit.waiting", value: span(waitingSec), large: true }];
  return waitedSec === null || waitedSec === undefined ? [] : [{ mark: "line", name: "visit.waited", value: span(waitedSec), large: true }];
}

/** The release: a point in time, or that it is not known; never a guess (CON-140). */
function release({ state, passedAt, passedUnknown }, now) {
  if (passedAt) return [{ mark: "dot", name: "visit.passed", value: at(passedAt, now) }];
  if (passedUnknown) return [{ mark: "ring", name: "visit.passed", value: t("visit.unknown") }];
  if (state === "ejected") return [];
  return [{ mark: "ring", name: "visit.passed", value: t(state === "expired" ? "visit.never" : "visit.notyet") }];
}

/** The one clock that runs (CON-137). */
function clock({ passExpiresAt, sessionExpiresAt }, now) {
  if (passExpiresAt) return [{ mark: "dash", name: "visit.passends", value: until(passExpiresAt, now) }];
  return sessionExpiresAt ? [{ mark: "dash", name: "visit.sessionends", value: until(sessionExpiresAt, now) }] : [];
}

/** The way of a visitor from joining to the site: `{mark, name, value, large}`, in order of time. */
export function steps(answer, now) {
  const over = ["expired", "ejected"].includes(answer.state);
  const site = answer.onSite ? { mark: "dot", value: t("visit.now") } : { mark: "ring", value: t(over ? "visit.no" : "visit.notyet") };
  return [{ mark: "dot", name: "visit.joined", value: at(answer.joinedAt, now) }, ...wait(answer), ...release(answer, now), ...clock(answer, now), { name: "visit.onsite", ...site }];
}

function slot({ state, holdsSlot, atDoor }) {
  if (holdsSlot) return t("visit.slot.held");
  if (atDoor) return t("visit.slot.door");
  return state === "passed" ? t("visit.slot.without") : t("visit.slot.none");
}

function bound({ bound: to }) {
  if (to?.cookie && to.fingerprint) return t("visit.bound.both");
  if (to?.cookie) return t("visit.bound.cookie");
  return to?.fingerprint ? t("visit.bound.fingerprint") : t("visit.no");
}

function seen({ lastSeenAt, present }, now) {
  if (!lastSeenAt) return "–";
  const ago = t("visit.ago", { n: span(Math.max(0, Math.floor((now - lastSeenAt) / 1000))) });
  return present ? t("visit.open", { ago }) : ago;
}

/** Further facts as `[key of the name, value]`. */
export function facts(answer, now) {
  return [
    ["visit.position", number(answer.position)],
    ["visit.onsitenow", t(answer.onSite ? "visit.yes" : "visit.no")],
    ["visit.slot", slot(answer)],
    ["visit.bound", bound(answer)],
    ["visit.seen", seen(answer, now)],
  ];
}
