/** A field that tries an address against rules, before anything is saved: the door's own verdict (CON-133). */
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { rich, t } from "./i18n.js";
import { ask } from "./api.js";
import { words } from "./toasts.js";
import { alarm, check, ring } from "./icons.js";

const path = (id) => `/rooms/${encodeURIComponent(id)}/rules/test`;

/** The server's judgement of `url` by the room's rules, or by `rules` that are not saved. Rejects with the refusal. */
export const judge = (id, url, rules) => ask("POST", path(id), rules === undefined ? { url } : { url, rules });

/** Which rule wins, by its place in the list. */
function Winner({ winner }) {
  if (!winner) return html`${t("try.none")}`;
  return html`${rich("try.winner", { n: winner.index + 1, action: winner.action, pattern: html`<code>${winner.pattern}</code>` })}`;
}

/** Warnings of an answer that are about the tried page alone; those about the rules stand with the rules. */
const ofPage = (warnings) => warnings.filter(({ code }) => code === "page_origin_not_returnable");

function Verdict({ answer }) {
  return html`
    <div class="verdict">
      <p>${answer.covered ? check() : ring()}<span><b>${t(answer.covered ? "try.covered" : "try.open")}</b> <${Winner} winner=${answer.winner} /></span></p>
      ${ofPage(answer.warnings).map((one) => html`<p class="text-warn">${alarm()}<span>${one.message}</span></p>`)}
    </div>
  `;
}

/** `rules`: unsaved ones, undefined for the room's own; null while they hold a mistake. A verdict goes with the rules it was made by. */
export function TryUrl({ id, rules }) {
  const name = useId(); // the form may lie over the sheet, each with a field of this kind
  const [url, setUrl] = useState("");
  const [said, setSaid] = useState(null);
  const basis = JSON.stringify(rules);
  const latest = useRef(null);
  const forget = () => {
    latest.current = null; // an answer under way is about another address, or other rules
    setSaid(null);
  };
  useLayoutEffect(forget, [basis]); // not later: the next press may have asked by then
  const run = async () => {
    const mine = (latest.current = {});
    const found = await judge(id, url.trim(), rules).then((answer) => ({ answer }), (refusal) => ({ problem: words(refusal) }));
    if (latest.current === mine) setSaid(found);
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (rules !== null) run();
  };
  return html`
    <div class="try">
      <label for=${name}>${t("try")}</label>
      <span class="field-row">
        <input id=${name} class="mono" type="text" inputmode="url" autocomplete="off" autocapitalize="off" spellcheck=${false} maxlength="2048" value=${url} placeholder="https://" aria-describedby="${name}-note" onKeyDown=${onKeyDown} onInput=${(event) => (setUrl(event.currentTarget.value), forget())} />
        <button type="button" class="button" disabled=${rules === null} onClick=${run}>${t("try.go")}</button>
      </span>
      <p class="note" id="${name}-note">${t(rules === undefined ? "try.saved" : rules === null ? "try.mistake" : "try.unsaved")}</p>
      <div role="status">${said?.answer && html`<${Verdict} answer=${said.answer} />`}${said?.problem && html`<p class="verdict text-bad">${alarm()}<span>${said.problem}</span></p>`}</div>
    </div>
  `;
}
