/** Questions that the page asks by itself, again and again: all together one a turn at most (CON-245). */

/** Length of a turn. */
export const TURN_MS = 10_000;

/** Timers are some ms early or late: what is asked every turn must not miss each second one by that. */
const dueIn = (ms) => performance.now() + ms - TURN_MS / 20;

const entries = new Set();
let timer = null;

/** Ask what is due for the longest time; in a hidden tab only what acts there too. */
function next() {
  const now = performance.now();
  const due = [...entries].filter((one) => one.at <= now && (one.whileHidden || !document.hidden));
  const [first] = due.sort((one, other) => one.at - other.at);
  if (!first) return;
  first.at = dueIn(first.everyMs);
  first.act();
}

/**
 * Have `act` called every `everyMs`, from then on, when its turn comes. Returns `{asked, soon, end}`: `asked()` tells that it
 * was just asked outside its turn, `soon(ms)` that it is due in `ms`, `end()` that it is asked no more.
 */
export function inTurn(act, everyMs, { whileHidden = false } = {}) {
  const entry = { act, everyMs, whileHidden, at: dueIn(everyMs) };
  entries.add(entry);
  timer ??= setInterval(next, TURN_MS);
  return {
    asked: () => (entry.at = dueIn(everyMs)),
    soon: (ms) => (entry.at = Math.min(entry.at, performance.now() + ms)),
    end: () => {
      entries.delete(entry);
      if (entries.size > 0) return;
      clearInterval(timer);
      timer = null;
    },
  };
}
