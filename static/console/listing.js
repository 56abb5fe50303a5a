/** What the sheets of people and links share: one answer of the server, read again after each act. */
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { ask } from "./api.js";
import { dayOf, minuteOfDay } from "./format.js";
import { words } from "./toasts.js";
import { alarm } from "./icons.js";

/**
 * `{answer, problem, load}` of `path`; `answer` is null until there is one, and stays when a later reading fails. Readings may
 * overtake each other: what one of before the shown one brings is not shown.
 */
export function useAnswer(path) {
  const [answer, setAnswer] = useState(null);
  const [problem, setProblem] = useState("");
  const readings = useRef({ begun: 0, shown: 0 });
  const load = async () => {
    const place = (readings.current.begun += 1);
    const show = (answerNow, problemNow) => {
      if (place < readings.current.shown) return;
      readings.current.shown = place;
      if (answerNow) setAnswer(answerNow);
      setProblem(problemNow);
    };
    await ask("GET", path).then((found) => show(found, ""), (refusal) => show(null, words(refusal)));
  };
  useEffect(() => void load(), []);
  return { answer, problem, load };
}

/** `Sep 1, 6:04 PM`, or the word for never. */
export const moment = (ms) => (ms === null ? t("never") : `${dayOf(ms)}, ${minuteOfDay(ms)}`);

/** What could not be read or done, with a button that tries again. */
export function Problem({ text, again }) {
  if (!text) return null;
  return html`<p class="entry-problem" role="alert">${alarm()}<span>${text}</span><button type="button" class="button" onClick=${again}>${t("again")}</button></p>`;
}
