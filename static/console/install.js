/** The Install sheet: the tag ready to copy, and what this server knows of a page that should have it (CON-149 … CON-151). */
import { useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { rich, t } from "./i18n.js";
import { ask } from "./api.js";
import { number } from "./format.js";
import { moment } from "./listing.js";
import { may } from "./session.js";
import { publicBase, putRoom, roomOf } from "./store.js";
import { announce, words } from "./toasts.js";
import { alarm, check, ring } from "./icons.js";
import { Panel } from "./dialogs.js";

/** The line of the tag; an id has no character that markup would read. */
const tagOf = (id) => `<script src="${publicBase()}/qm.js" data-room="${id}"></script>`;

/** Ready to copy; where the browser refuses the clipboard the text is selected instead. */
function Tag({ id }) {
  const field = useRef(null);
  const [copied, setCopied] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(tagOf(id));
      setCopied(t("link.copied"));
      announce(t("link.copied"));
    } catch {
      field.current.select();
      setCopied(t("link.byhand"));
    }
  };
  return html`
    <label for="tag-line">${t("install.tag")}</label>
    <textarea id="tag-line" class="mono tag-line" rows="3" readonly spellcheck=${false} ref=${field} value=${tagOf(id)} onFocus=${(event) => event.currentTarget.select()}></textarea>
    <p class="tag-copy"><button type="button" class="button" onClick=${copy}>${t("share.copy")}</button><span class="note">${copied || t("install.tag.help")}</span></p>
  `;
}

const checkPath = (id, { url, origin }) => `/rooms/${encodeURIComponent(id)}/install-check?${new URLSearchParams(origin ? { url, origin } : { url })}`;

/** One sentence of the result: good, or something to look at. */
const Fact = ({ good, children }) => html`<li class=${good === false ? "text-warn" : ""}>${good === false ? alarm() : good ? check() : ring()}<span>${children}</span></li>`;

/** How many pages run without the queue because their checks are refused (CON-150). */
function refusedWords(n) {
  if (n === 0) return t("install.refused.none");
  return n === 1 ? t("install.refused.one") : t("install.refused", { n: number(n) });
}

/** The result in words (CON-150). */
function Facts({ answer }) {
  const { origin, tagAllowed, returnAllowed, covered, rule, lastCheckAt, tagVersion, refusedChecks } = answer;
  const last = lastCheckAt === null ? t("install.last.never") : t("install.last", { time: moment(lastCheckAt), version: tagVersion ?? "–" });
  return html`
    <ul class="install-facts">
      <${Fact} good=${tagAllowed}>${rich(tagAllowed ? "install.may" : "install.maynot", { origin: html`<code>${origin}</code>` })}<//>
      <${Fact} good=${returnAllowed}>${t(returnAllowed ? "install.back" : "install.notback")}<//>
      <${Fact} good=${covered}>${covered ? (rule ? t("install.covered.rule", { rule }) : t("install.covered")) : t("install.notcovered")}<//>
      <${Fact} good=${lastCheckAt === null ? null : true}>${last}<//>
      <${Fact} good=${refusedChecks === 0}>${refusedWords(refusedChecks)}<//>
    </ul>
  `;
}

/** Findings that the sentences above do not tell already. */
const TOLD = ["tag_origin_missing", "page_not_covered", "page_origin_not_returnable", "no_check_seen"];

function Findings({ findings }) {
  const further = findings.filter(({ code }) => !TOLD.includes(code));
  return further.length > 0 && html`<ul class="warnings">${further.map(({ text }) => html`<li>${alarm()}<span>${text}</span></li>`)}</ul>`;
}

/** The one change that is offered; it never widens where visitors may be sent (CON-151). */
function Fix({ origin, busy, fix }) {
  return html`
    <div class="caution">${alarm()}<span>${rich("install.fix.what", { origin: html`<code>${origin}</code>` })}</span>
      <button type="button" class="button" aria-busy=${busy} onClick=${fix}>${t("install.fix")}</button></div>
  `;
}

/** The last question and its answer; `fix` asks again first, so that it writes the list as it is now. */
function useCheck(roomId) {
  const [said, setSaid] = useState({ asked: null, answer: null, problem: "" });
  const [busy, setBusy] = useState(false);
  const latest = useRef(null);
  const attempt = async (act) => {
    const mine = (latest.current = {});
    const show = (more) => latest.current === mine && setSaid((before) => ({ ...before, ...more }));
    setBusy(true);
    try {
      await act(show);
    } catch (refusal) {
      show({ problem: words(refusal) });
    } finally {
      if (latest.current === mine) setBusy(false);
    }
  };
  const read = async (asked, show) => {
    const answer = await ask("GET", checkPath(roomId, asked));
    show({ asked, answer, problem: "" });
    return answer;
  };
  const look = (asked) => attempt((show) => (show({ asked, answer: null, problem: "" }), read(asked, show)));
  const fix = () =>
    busy ||
    attempt(async (show) => {
      const { fix: now } = await read(said.asked, show);
      if (!now) return;
      const { room } = await ask("POST", "/rooms", { id: roomId, tagOrigins: now.tagOrigins });
      putRoom(room);
      announce(t("install.fixed"));
      await read(said.asked, show);
    });
  return { ...said, busy, look, fix };
}

function Checker({ room }) {
  const [url, setUrl] = useState("");
  const [origin, setOrigin] = useState("");
  const { answer, problem, busy, look, fix } = useCheck(room.id);
  const submit = (event) => {
    event.preventDefault();
    look({ url: url.trim(), origin: origin.trim() });
  };
  const field = (id, value, set, hint) => html`<input id=${id} class="mono" type="text" inputmode="url" autocomplete="off" autocapitalize="off" spellcheck=${false} maxlength="2048" value=${value} placeholder=${hint} onInput=${(event) => set(event.currentTarget.value)} />`;
  return html`
    <form class="below" onSubmit=${submit}>
      <h3>${t("install.check")}</h3>
      <label for="page-url">${t("install.url")}</label>${field("page-url", url, setUrl, room.targetUrl)}
      <label for="page-origin" class="below">${t("install.origin")}</label>${field("page-origin", origin, setOrigin, t("install.origin.hint"))}
      <p class="note">${t("install.what")}</p>
      <p class="below"><button type="submit" class="button" aria-busy=${busy}>${t("install.go")}</button></p>
    </form>
    <div role="status" class="below">
      ${problem && html`<p class="verdict text-bad">${alarm()}<span>${problem}</span></p>`}
      ${answer && html`<${Facts} answer=${answer} /><${Findings} findings=${answer.findings} />${answer.fix && may("write") && html`<${Fix} origin=${answer.origin} busy=${busy} fix=${fix} />`}`}
    </div>
  `;
}

export function Install({ panelId, roomId }) {
  const room = roomOf(roomId).value;
  return html`
    <${Panel} panelId=${panelId} kind="sheet" title=${t("install.title")} sub=${room?.name} roomId=${roomId}>
      ${() => room && html`<div class="panel-body">${room.mode === "inline" && html`<p class="box-body">${t("install.inline")}</p>`}<${Tag} id=${roomId} /><${Checker} room=${room} /></div>`}
    <//>
  `;
}
