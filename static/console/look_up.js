/** One question about a visitor, asked again while its panel is open (CON-146). */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "./api.js";
import { roomOf } from "./store.js";
import { words } from "./toasts.js";

/** How often the answer is read again while the tab is visible (CON-245). */
const EVERY_MS = 2000;

/**
 * The answer, unless the room was made anew since the question: today's holder of a number is somebody else (CON-144).
 * `what` keeps whom the first answer spoke of.
 */
function stillTheSame(what, answer, generationNow) {
  if (answer.state === "previous_generation" || answer.candidates) return answer;
  const generation = answer.generation ?? generationNow;
  what.first ??= { generation, ticket: answer.ticket, ref: answer.ref };
  const { first } = what;
  if (generation === undefined || first.generation === undefined || first.generation === generation) return answer;
  return { ...first, state: "previous_generation" };
}

/**
 * `{answer, asked, problem, look, pick, again}` for a room: `look(text)` asks what a visitor read out, `pick(candidate)`
 * for one of several: by his ticket, or by the ref and the place of one who has no number yet. A failed refresh leaves the answer and says so in `problem`.
 */
export function useLookUp(roomId) {
  const [found, setFound] = useState({ what: null, answer: null, problem: "" });
  const what = useRef(null);
  const busy = useRef(null);
  const load = async () => {
    const mine = what.current;
    if (!mine || busy.current === mine) return;
    busy.current = mine;
    try {
      const answer = stillTheSame(mine, await ask("GET", mine.path), roomOf(roomId).peek()?.generation);
      if (what.current === mine) setFound({ what: mine, answer, problem: "" });
    } catch (refusal) {
      if (what.current === mine) setFound(({ what: shown, answer }) => ({ what: mine, answer: shown === mine ? answer : null, problem: words(refusal) }));
    } finally {
      if (busy.current === mine) busy.current = null;
    }
  };
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && load(), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  const begin = (path, asked) => {
    what.current = { path: `/rooms/${encodeURIComponent(roomId)}/tickets${path}`, asked };
    return load();
  };
  const asked = found.what?.asked ?? "";
  return {
    answer: found.answer,
    asked,
    problem: found.problem,
    look: (text) => begin(`?q=${encodeURIComponent(text)}`, text),
    pick: ({ ticket, place }) => begin(ticket === null ? `?${new URLSearchParams({ ref: asked, place })}` : `/${ticket}`, ticket === null ? asked : String(ticket)),
    again: load,
  };
}
