/** What the sheets of people and links share: one answer of the server, read again after each act. */
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { ask } from "./api.js";
import { dayOf, minuteOfDay } from "./format.js";
import { words } from "./toasts.js";
import { alarm } from "./icons.js";

/** `{answer, problem, load}` of `path`; `answer` is null until there is one, and stays when a later reading fails. */
export function useAnswer(path) {
  const [answer, setAnswer] = useState(null);
  const [problem, setProblem] = useState("");
  const load = async () => {
    try {
      setAnswer(await ask("GET", path));
      setProblem("");
    } catch (refusal) {
      setProblem(words(refusal));
    }
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
