/** The sign-in page: one field, the server's answer under it, and where a key comes from. */
import { useEffect, useRef, useState } from "preact/hooks";
import { isOnSite } from "./api.js";
import { hostOf } from "./format.js";
import { html } from "./html.js";
import { rich, setLanguage, t } from "./i18n.js";
import { language, nextTheme, theme } from "./prefs.js";
import { signIn, unreachable } from "./session.js";
import { alarm, halfDisc, lock, mark } from "./icons.js";

/** Seconds left of a lockout, counting down to 0. */
function useCountdown() {
  const [left, setLeft] = useState(0);
  useEffect(() => {
    if (left <= 0) return undefined;
    const timer = setTimeout(() => setLeft(left - 1), 1000);
    return () => clearTimeout(timer);
  }, [left]);
  return [left, setLeft];
}

function Answer({ problem, left }) {
  if (left > 0) {
    return html`<p class="answer" id="answer">${lock()}<span>${t("signin.locked")} <br />${rich("signin.again", { n: html`<b>${left} s</b>` })}</span></p>`;
  }
  if (unreachable.value) return html`<p class="answer" id="answer" role="alert">${halfDisc()}<span>${t("signin.unreachable")}</span></p>`;
  if (problem) return html`<p class="answer answer-bad" id="answer" role="alert">${alarm()}<span>${problem}</span></p>`;
  return html`<p class="answer" id="answer"></p>`;
}

function Sources() {
  const key = html`<code>ADMIN_KEY</code>`;
  return html`
    <section class="sources">
      <h2>${t("signin.where")}</h2>
      <ul>
        <li>${rich("signin.deployment", { key })}</li>
        <li>${t("signin.issued")}</li>
        <li>${rich("signin.startline", { key })}</li>
      </ul>
    </section>
  `;
}

/** On a customer's host: who else may see what is typed here, and where the console has a host of its own (CON-253). */
function Company() {
  if (!isOnSite) return null;
  const elsewhere = document.querySelector("meta[name='qm-console']")?.content;
  return html`
    <p class="caution">${alarm()}<span>${t(navigator.serviceWorker?.controller ? "signin.watched" : "signin.shared")}
      ${elsewhere && html` <a href=${elsewhere}>${t("signin.elsewhere", { host: hostOf(elsewhere) })}</a>`}</span></p>
  `;
}

/** Language and theme at the foot, also before anybody signed in. */
function Choices() {
  const tongue = (tag, name) => html`
    <button type="button" class="quiet" lang=${tag} aria-pressed=${language.value === tag} onClick=${() => setLanguage(tag).catch(() => {})}>${name}</button>
  `;
  return html`
    <footer class="choices">
      ${tongue("en", "English")} ${tongue("th", "ไทย")}
      <span class="choices-line"></span>
      <button type="button" class="quiet" onClick=${nextTheme}>${t("signin.theme", { name: t(`theme.${theme.value}`).toLowerCase() })}</button>
    </footer>
  `;
}

export function SignIn() {
  const field = useRef(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [left, setLeft] = useCountdown();
  const submit = async (event) => {
    event.preventDefault();
    const key = field.current.value;
    if (busy || left > 0) return;
    setBusy(true);
    setProblem("");
    field.current.value = "";
    try {
      await signIn(key);
    } catch (refusal) {
      setBusy(false);
      if (refusal.status === 429) setLeft(refusal.retryAfterSec ?? 60);
      else setProblem(refusal.status === 401 || refusal.code === "invalid_key_field" ? t("signin.wrong") : refusal.message || t("signin.noanswer"));
      field.current?.focus();
    }
  };
  return html`
    <div class="signin">
      <form onSubmit=${submit}>
        <p class="brand">${mark()}<span>Queue Manager</span></p>
        <h1>${t("signin.title")}</h1>
        <${Company} />
        <label for="key">${t("signin.key")}</label>
        <input id="key" ref=${field} type="password" autocomplete="current-password" autocapitalize="off" spellcheck=${false}
          autofocus aria-describedby="answer" aria-invalid=${Boolean(problem)} class=${problem ? "field-bad" : ""} />
        <${Answer} problem=${problem} left=${left} />
        <button type="submit" class="fill wide" disabled=${left > 0} aria-busy=${busy}>${t("signin.go")}</button>
        <${Sources} />
      </form>
      <${Choices} />
    </div>
  `;
}
