/** The Visitors sheet: one visitor by ticket number or Ref, kept fresh, and what can be done to him (CON-136 … CON-148). */
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { number } from "./format.js";
import { may } from "./session.js";
import { useSeconds } from "./seconds.js";
import { roomOf } from "./store.js";
import { announce } from "./toasts.js";
import { alarm, clockFace, cross, diamond, disc, halfDisc, minusRing, onward, ring } from "./icons.js";
import { Panel } from "./dialogs.js";
import { EjectFoot, useEject } from "./eject.js";
import { moment } from "./listing.js";
import { useLookUp } from "./look_up.js";
import { canEject, dashed, facts, STATES, steps } from "./visitor_facts.js";

const SHAPES = { prequeued: clockFace, waiting: ring, passed: onward, active: disc, expired: minusRing, ejected: cross, previous_generation: halfDisc, unknown: diamond };

function State({ state }) {
  const { word, tone } = STATES[state] ?? STATES.unknown;
  return html`<span class="badge visit-state visit-${tone}" lang="en">${(SHAPES[state] ?? diamond)()}${word}</span>`;
}

/** Ticket, ref and state above whatever is known. */
function Head({ answer }) {
  return html`
    <header class="visit-head">
      <dl><div><dt>${t("visit.ticket")}</dt><dd>${number(answer.ticket)}</dd></div><div><dt>${t("visit.ref")}</dt><dd class="mono">${dashed(answer.ref)}</dd></div></dl>
      <${State} state=${answer.state} />
    </header>
  `;
}

function Visit({ answer }) {
  const now = useSeconds();
  return html`
    <article class="visit">
      <${Head} answer=${answer} />
      <dl class="trip">${steps(answer, now).map(({ mark, name, value, large }) => html`<div class="trip-${mark} ${large ? "trip-large" : ""}"><dt>${t(name)}</dt><dd>${value}</dd></div>`)}</dl>
      <dl class="visit-facts">${facts(answer, now).map(([name, value]) => html`<div><dt>${t(name)}</dt><dd>${value}</dd></div>`)}</dl>
      ${answer.recordDropped && html`<p class="visit-note">${t("visit.dropped")}</p>`}
    </article>
  `;
}

/** Somebody of a room that is no more; never today's holder of the number (CON-144). */
function Earlier({ answer }) {
  const { ticket, generation, candidates } = answer;
  const words = candidates ? t("visit.earlier.some", { g: generation, n: candidates.map((one) => number(one.ticket)).join(", ") }) : t("visit.earlier", { g: generation, n: number(ticket) });
  return html`<article class="visit"><${Head} answer=${answer} /><p class="visit-note">${words}</p></article>`;
}

/** A candidate by his ticket; who has none yet, by when he came. */
const called = ({ ticket, joinedAt }) => (ticket === null ? t("visit.choose.place", { time: moment(joinedAt) }) : t("visit.choose", { n: number(ticket) }));

/** Several tickets have the Ref: the operator chooses, the page guesses nothing (CON-143). */
function Candidates({ answer, pick }) {
  return html`
    <section class="visit" aria-label=${t("visit.several")}>
      <p class="visit-note">${t("visit.several")}</p>
      <ul class="candidates">${answer.candidates.map((one) => html`<li><button type="button" class="button" onClick=${() => pick(one)}>${called(one)}</button><${State} state=${one.state} /></li>`)}</ul>
    </section>
  `;
}

function Nobody({ asked, searched }) {
  return html`<article class="visit"><p class="visit-note"><b>${t("visit.nobody", { q: asked })}</b> ${t("visit.searched", { g: number(searched?.generations), n: number(searched?.ticketsPerGeneration) })}</p></article>`;
}

function Found({ answer, asked, pick }) {
  if (!answer) return null;
  if (answer.state === "previous_generation") return html`<${Earlier} answer=${answer} />`;
  if (answer.candidates) return html`<${Candidates} answer=${answer} pick=${pick} />`;
  if (answer.state === "unknown") return html`<${Nobody} asked=${asked} searched=${answer.searched} />`;
  return html`<${Visit} answer=${answer} />`;
}

/** Field and button in one row; Enter looks up (CON-219). */
function Question({ field, room, look }) {
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    look(text.trim());
  };
  return html`
    <form onSubmit=${submit}>
      <label for="ticket">${t("ticket")}</label>
      <span class="field-row">
        <input id="ticket" class="mono" ref=${field} type="text" autocomplete="off" autocapitalize="off" spellcheck=${false} maxlength="32" autofocus value=${text} aria-describedby="ticket-note" onInput=${(event) => setText(event.currentTarget.value)} />
        <button type="submit" class="button">${t("ticket.look")}</button>
      </span>
      <p class="note" id="ticket-note">${t("ticket.note", { n: number(room?.lastTicket) })}</p>
    </form>
  `;
}

export function Visitors({ panelId, roomId }) {
  const room = roomOf(roomId).value;
  const field = useRef(null);
  const { answer, asked, problem, look, pick, again } = useLookUp(roomId);
  const act = useEject({ roomId, ticket: answer?.ticket, state: answer?.state, after: again });
  const found = answer && `${answer.ticket ?? answer.ref ?? asked} ${answer.candidates ? t("visit.several") : STATES[answer.state]?.word}`;
  useEffect(() => void (found && announce(found)), [found]);
  const keep = () => (act.keep(), field.current?.focus());
  const ask = (text) => (act.keep(), look(text));
  const mayClose = () => act.phase !== "armed" || keep();
  return html`
    <${Panel} panelId=${panelId} kind="sheet" title=${t("visitors")} sub=${room?.name} roomId=${roomId} mayClose=${mayClose}>
      ${() => html`
        <div class="panel-body">
          <${Question} field=${field} room=${room} look=${ask} />
          <p class="visit-problem" role="alert">${problem && html`${alarm()}<span>${problem}</span>`}</p>
          <div class=${problem ? "visit-old" : ""}><${Found} answer=${answer} asked=${asked} pick=${pick} /></div>
        </div>
        ${may("write") && html`<${EjectFoot} act=${act} ticket=${answer?.ticket} ready=${canEject(answer)} keep=${keep} />`}
      `}
    <//>
  `;
}
