/** The Visitors sheet: eject the holder of a ticket. Arm, then confirm, on the spot (CON-108, CON-109, CON-113). */
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { ask } from "./api.js";
import { number } from "./format.js";
import { onePressPerKey } from "./keyboard.js";
import { roomOf } from "./store.js";
import { announce, words } from "./toasts.js";
import { alarm, cross } from "./icons.js";
import { Panel } from "./dialogs.js";

/** How long a button stays armed. */
const ARMED_SEC = 30;

/** A second press sooner than this is the same press (double click, bouncing key). */
const GUARD_MS = 400;

const IDLE = { phase: "idle", ticket: null };

/** Seconds until an armed button disarms itself, then `disarm`. */
function useDisarm(act, disarm) {
  const [left, setLeft] = useState(ARMED_SEC);
  useEffect(() => {
    if (act.phase !== "armed") return undefined;
    setLeft(ARMED_SEC);
    const timer = setInterval(() => setLeft(ARMED_SEC - Math.floor((performance.now() - act.at) / 1000)), 250);
    return () => clearInterval(timer);
  }, [act]);
  useEffect(() => {
    if (left <= 0) disarm();
  }, [left]);
  return left;
}

function Foot({ act, left, press, keep, ready }) {
  const armed = act.phase === "armed";
  const busy = act.phase === "busy";
  const name = busy ? t("eject.busy") : armed ? t("eject.confirm") : t("eject");
  return html`
    <footer class="panel-foot ${armed ? "foot-armed" : ""}">
      <p>${armed && html`<b>${t("eject.question", { n: act.ticket })}</b> ${t("eject.what")}`}</p>
      <div class="foot-acts">
        <button type="button" class="button ${armed ? "" : "absent"}" onClick=${keep}>${t("keep")}</button>
        <span class="foot-act">
          <button type="button" class=${armed ? "fill-bad arm" : "button arm"} data-armed=${armed ? "" : undefined} disabled=${busy || !ready} aria-busy=${busy} onKeyDown=${onePressPerKey} onClick=${press}>${name}</button>
          <span class="foot-left" aria-hidden="true">${armed ? t("eject.disarms", { n: left }) : ""}</span>
        </span>
      </div>
    </footer>
  `;
}

function Result({ act }) {
  if (act.phase === "done") {
    return html`<p class="result"><span class="tag-bad">${cross()} ejected</span><span>${t("eject.done", { n: act.ticket, was: act.was })}</span></p>`;
  }
  if (act.phase === "failed") return html`<p class="result text-bad" role="alert">${alarm()}<span>${act.why}</span></p>`;
  return html`<p class="result"></p>`;
}

export function Visitors({ panelId, roomId }) {
  const room = roomOf(roomId).value;
  const [text, setText] = useState("");
  const [act, setAct] = useState(IDLE);
  const field = useRef(null);
  const ticket = /^\d{1,10}$/.test(text.trim()) ? Number(text.trim()) : 0;
  const left = useDisarm(act, () => setAct(IDLE));
  const eject = async () => {
    setAct({ phase: "busy", ticket: act.ticket });
    try {
      const { was } = await ask("POST", `/rooms/${encodeURIComponent(roomId)}/eject`, { ticket: act.ticket });
      setAct({ phase: "done", ticket: act.ticket, was });
      announce(t("eject.done", { n: act.ticket, was }));
    } catch (refusal) {
      setAct({ phase: "failed", ticket: act.ticket, why: refusal.code === "no_ticket" ? t("eject.none", { n: act.ticket }) : words(refusal) });
    }
  };
  const press = () => {
    if (act.phase !== "armed") setAct({ phase: "armed", ticket, at: performance.now() });
    else if (performance.now() - act.at >= GUARD_MS) eject();
  };
  const keep = () => (setAct(IDLE), field.current?.focus());
  const mayClose = () => act.phase !== "armed" || keep();
  return html`
    <${Panel} panelId=${panelId} kind="sheet" title=${t("visitors")} sub=${room?.name} roomId=${roomId} mayClose=${mayClose}>
      ${() => html`
        <div class="panel-body">
          <label for="ticket">${t("ticket")}</label>
          <input id="ticket" class="mono" ref=${field} type="text" inputmode="numeric" autocomplete="off" autofocus value=${text} aria-describedby="ticket-note"
            onInput=${(event) => (setText(event.currentTarget.value), setAct(IDLE))} />
          <p class="note" id="ticket-note">${t("ticket.note", { n: number(room?.lastTicket) })}</p>
          <${Result} act=${act} />
        </div>
        <${Foot} act=${act} left=${left} press=${press} keep=${keep} ready=${ticket > 0} />
      `}
    <//>
  `;
}
