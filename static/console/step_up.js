/** The key once more: asked in the dialog of the act that needs it, and good for five minutes (ADM-298, WHK-113, CON-253). */
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { ask, keepStepUp, whenStepUp } from "./api.js";
import { onePressPerKey } from "./keyboard.js";
import { panels } from "./panels.js";
import { serverNow } from "./store.js";
import { words } from "./toasts.js";
import { alarm, lock } from "./icons.js";

/** The act that waits for a key: `{answer, settle, opener}`, or null. */
const waiting = signal(null);

/** Whether the panel `id` asks for a key now: the one on top does. */
export const isAsking = (id) => waiting.value !== null && panels.value.at(-1)?.id === id;

/** Ask for a key where the act was begun; resolves with whether a token was obtained. Without a dialog there is nowhere to ask. */
function question() {
  if (panels.peek().length === 0) return false;
  if (waiting.peek() === null) {
    let settle;
    const answer = new Promise((resolve) => (settle = resolve));
    waiting.value = { answer, settle, opener: document.activeElement };
  }
  return waiting.peek().answer;
}

whenStepUp(question);

/** End the question, and give the focus back to what was pressed. */
function settle(found) {
  const asked = waiting.peek();
  waiting.value = null;
  asked?.settle(found);
  /* A press outside leaves the focus on the dialog itself. */
  requestAnimationFrame(() => document.activeElement.matches("body, dialog") && asked?.opener.isConnected && asked.opener.focus());
}

/** The act is not done after all. */
export const giveUp = () => settle(false);

/** Forget the token and the question: another person may sit here next. */
export function forgetStepUp() {
  keepStepUp("", 0);
  giveUp();
}

/** Why a key was not taken, in words for the field. */
function why(refusal) {
  if (refusal.status === 401 || refusal.code === "invalid_key_field") return t("signin.wrong");
  if (refusal.code === "step_up_other_person") return t("stepup.other");
  if (refusal.status === 429) return `${t("signin.locked")} ${t("signin.again", { n: `${refusal.retryAfterSec ?? 60} s` })}`;
  return words(refusal);
}

/** The question itself, below what the dialog holds. */
export function StepUp() {
  const field = useRef(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => field.current.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    const key = field.current.value;
    field.current.value = "";
    setBusy(true);
    setProblem("");
    try {
      const { stepUpToken, expiresAt } = await ask("POST", "/step-up", { key });
      keepStepUp(stepUpToken, expiresAt - serverNow());
      settle(true);
    } catch (refusal) {
      setBusy(false);
      setProblem(why(refusal));
      field.current?.focus();
      if (refusal.status === 401) ask("GET", "/me").catch(() => {}); // perhaps it is the session that is over
    }
  };
  return html`
    <form class="step-up" aria-labelledby="step-up-title" onSubmit=${submit}>
      <h3 id="step-up-title">${lock()}${t("stepup.title")}</h3>
      <p id="step-up-what">${t("stepup.what")}</p>
      <label for="step-up-key">${t("signin.key")}</label>
      <div class="step-up-row">
        <input id="step-up-key" ref=${field} type="password" autocomplete="current-password" autocapitalize="off" spellcheck=${false}
          aria-describedby="step-up-what step-up-answer" aria-invalid=${Boolean(problem)} class=${problem ? "field-bad" : ""} />
        <span class="foot-acts">
          <button type="submit" class="fill" aria-busy=${busy} onKeyDown=${onePressPerKey}>${t("stepup.go")}</button>
          <button type="button" class="button" onClick=${giveUp}>${t("cancel")}</button>
        </span>
      </div>
      <p class="refusal" id="step-up-answer" role="alert">${problem && html`${alarm()}<span>${problem}</span>`}</p>
    </form>
  `;
}
