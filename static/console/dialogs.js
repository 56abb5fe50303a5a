/** Dialogs and sheets. The browser's own modal dialog makes the page behind inert and gives the focus back. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { rich, t } from "./i18n.js";
import { focusRoom, focusRooms, onePressPerKey, trapTab } from "./keyboard.js";
import { dropPanel, panels } from "./panels.js";
import { neighbourOf, order, roomOf } from "./store.js";
import { words } from "./toasts.js";
import { alarm, cross } from "./icons.js";
import { giveUp, isAsking, StepUp } from "./step_up.js";

/** Every open panel, the newest on top. */
export function PanelHost() {
  return panels.value.map(({ id, component: Panel, props }) => html`<${Panel} key=${id} panelId=${id} ...${props} />`);
}

/** The focus when the button that opened a panel is gone: the card in that place, or the list (CON-215). */
function keepFocus(roomId) {
  if (document.activeElement && document.activeElement !== document.body) return;
  const next = neighbourOf(roomId);
  if (next) focusRoom(next);
  else focusRooms();
}

/** A room was deleted under its open panel: say so, and close on the next key (CON-054). */
function Gone({ close }) {
  /* Not a plain effect, which runs after the next painting: a key pressed before that would be lost. */
  useLayoutEffect(() => {
    addEventListener("keydown", close, { once: true });
    return () => removeEventListener("keydown", close);
  }, []);
  return html`<p class="gone" role="alert">${alarm()} ${t("room.gone")}</p>`;
}

/**
 * Frame of a panel, which holds the question for the key when an act begun in it needs one. `kind` begins with `box` (its content brings the heading), `form` or `sheet`; `mayClose` is asked before Escape, × or a press outside closes;
 * `children` is a function of `close`, which always closes.
 */
export function Panel({ panelId, kind, title, sub, roomId, mayClose = () => true, label, children }) {
  const box = useRef(null);
  const pressedOutside = useRef(false);
  const close = () => box.current?.close();
  const asking = isAsking(panelId);
  const leave = () => (asking ? giveUp() : mayClose(close) && close());
  /* Not a plain effect, which runs after the next painting: on a slow computer the page behind would take presses meant for the dialog. */
  useLayoutEffect(() => box.current.showModal(), []);
  const closed = () => {
    dropPanel(panelId);
    queueMicrotask(() => keepFocus(roomId));
  };
  const onKeyDown = (event) => {
    trapTab(event, box.current);
    if (event.key !== "Escape") return;
    /* Left to the browser, a second Escape would close without asking. */
    event.preventDefault();
    leave();
  };
  const gone = roomId !== undefined && order.value !== null && roomOf(roomId).value === null;
  return html`
    <dialog class=${kind} ref=${box} aria-label=${label ?? title} onClose=${closed}
      onCancel=${(event) => (event.preventDefault(), leave())}
      onKeyDown=${onKeyDown}
      onPointerDown=${(event) => (pressedOutside.current = event.target === box.current)}
      onClick=${(event) => event.target === box.current && pressedOutside.current && leave()}>
      <div class="panel">
        <div class="panel-whole" inert=${asking}>
        ${!kind.startsWith("box") && html`
          <header class="panel-head"><h2>${title}</h2>${sub && html`<p>${sub}</p>`}
            <button type="button" class="button quiet panel-close" aria-label=${t("close")} onClick=${leave}>${cross()}<kbd>Esc</kbd></button></header>
        `}
        ${gone ? html`<${Gone} close=${close} />` : children(close)}
        </div>
        ${asking && html`<${StepUp} />`}
      </div>
    </dialog>
  `;
}

/** What the server answered to the act of a dialog; two lines are kept for it. */
export const Refusal = ({ text }) => html`<p class="refusal" role="alert">${text && html`${alarm()}<span>${text}</span>`}</p>`;

/**
 * The act of a dialog: pressed once at a time, then the dialog closes; a refusal stays in it. `run` rejects with one. While it
 * is `busy` the dialog must stay: closing it would look as if nothing was done, and leave nowhere to say that it was refused.
 */
export function useAct(run, after) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const start = async (close) => {
    if (busy) return;
    setBusy(true);
    setProblem("");
    try {
      await run();
      close();
      after();
    } catch (refusal) {
      setProblem(words(refusal));
      setBusy(false);
    }
  };
  return { busy, problem, start };
}

/**
 * A question: the harmless button first and focused, the act under a verb. `run` does it and rejects with a refusal;
 * `typed` is a text that must be typed before the act can be pressed; `bad` where people or settings are dropped.
 */
export function Confirm({ panelId, roomId, title, body, keep, act, run, bad = false, typed = null, after = () => {} }) {
  const { busy, problem, start } = useAct(run, after);
  const [text, setText] = useState("");
  return html`
    <${Panel} panelId=${panelId} kind="box" title=${title} roomId=${busy ? undefined : roomId} mayClose=${() => !busy}>
      ${(close) => html`
        <form onSubmit=${(event) => (event.preventDefault(), (typed === null || text === typed) && start(close))}>
          <h2>${title}</h2>
          <p class="box-body">${body}</p>
          ${typed !== null && html`
            <label class="box-typed"><span>${rich("delete.type", { id: html`<code>${typed}</code>` })}</span><input type="text" autocomplete="off" autocapitalize="off" spellcheck=${false} onInput=${(event) => setText(event.currentTarget.value)} /></label>
          `}
          <${Refusal} text=${problem} />
          <div class="box-foot">
            <button type="button" class="button" autofocus onClick=${() => busy || close()}>${keep}</button>
            <button type="submit" class=${bad ? "fill-bad" : "fill"} aria-busy=${busy} disabled=${typed !== null && text !== typed} onKeyDown=${onePressPerKey}>${act}</button>
          </div>
        </form>
      `}
    <//>
  `;
}

/** Things the server says about an accepted change; must be dismissed (CON-188). */
export function Warnings({ panelId, warnings }) {
  return html`
    <${Panel} panelId=${panelId} kind="box wide-box" title=${t("warnings.title")} mayClose=${() => false}>
      ${(close) => html`
        <h2>${t("warnings.title")}</h2>
        <ul class="warnings">${warnings.map((warning) => html`<li>${alarm()}<span>${warning.message}</span></li>`)}</ul>
        <div class="box-foot"><button type="button" class="fill" autofocus onClick=${close}>${t("warnings.ok")}</button></div>
      `}
    <//>
  `;
}

/** An address to copy by hand, where the browser refuses the clipboard. */
export function LinkShown({ panelId, title, address }) {
  const field = useRef(null);
  useLayoutEffect(() => field.current.select(), []);
  return html`
    <${Panel} panelId=${panelId} kind="box" title=${title}>
      ${(close) => html`
        <h2>${title}</h2>
        <p class="box-body">${t("link.byhand")}</p>
        <input class="mono" ref=${field} readonly value=${address} aria-label=${title} />
        <div class="box-foot"><button type="button" class="button" onClick=${close}>${t("close")}</button></div>
      `}
    <//>
  `;
}
