/** Toasts at the bottom right, and the polite region that reads out results (CON-226). */
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { alarm, cross, halfDisc } from "./icons.js";

const STAY_MS = 8000;
const MOST = 3;

const toasts = signal([]);
const spoken = signal("");
let next = 1;

/** Read `text` out without showing anything. */
export function announce(text) {
  spoken.value = text;
}

function show(entry) {
  toasts.value = [{ id: next++, ...entry }, ...toasts.value].slice(0, MOST);
  announce(`${entry.fact} ${entry.line ?? ""}`);
}

/** Something happened: `fact` in bold, one `line`, at most one `action` (`{label, run}`). */
export const toast = (fact, line, action) => show({ fact, line, action });

/** What the server said, or that it said nothing, or that it waits for a key which was not given. */
export const words = (refusal) => (refusal.code === "step_up_required" ? t("stepup.needed") : refusal.message || t("noanswer"));

/** An act was refused: stays until closed. */
export const refused = (fact, refusal, rest = "", action = null) =>
  show({ fact, line: `${words(refusal)} ${rest}`.trim(), action, stays: true });

function drop(id) {
  toasts.value = toasts.value.filter((entry) => entry.id !== id);
}

/** Others go after 8 s, but never while somebody points at or stands in them. */
function useAway(entry, box) {
  useEffect(() => {
    if (entry.stays) return undefined;
    const timer = setInterval(() => box.current.matches(":hover, :focus-within") || drop(entry.id), STAY_MS);
    return () => clearInterval(timer);
  }, [entry.id]);
}

function Toast({ entry }) {
  const box = useRef(null);
  useAway(entry, box);
  const act = () => {
    drop(entry.id);
    entry.action.run();
  };
  return html`
    <div class="toast ${entry.stays ? "toast-bad" : ""}" ref=${box}>
      ${entry.stays ? alarm() : halfDisc()}
      <p><b>${entry.fact}</b><span>${entry.line}</span></p>
      ${entry.action && html`<button type="button" class="button" onClick=${act}>${entry.action.label}</button>`}
      <button type="button" class="button quiet square" aria-label=${t("close")} onClick=${() => drop(entry.id)}>${cross()}</button>
    </div>
  `;
}

export function Toasts() {
  return html`
    <div class="toasts">${toasts.value.map((entry) => html`<${Toast} key=${entry.id} entry=${entry} />`)}</div>
    <p class="unseen" role="status">${spoken.value}</p>
  `;
}
