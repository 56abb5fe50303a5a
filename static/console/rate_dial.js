/** The rate control: a slider for the hand, a field for exact values, one hint line that is always there. */
import { useEffect, useMemo, useRef } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { number } from "./format.js";
import { isFailing } from "./inline.js";
import { markOf } from "./store.js";
import { RateControl } from "./rate_control.js";

/** What the hint line says, the most urgent first; `tone` is a colour's name. */
function hint(control, room) {
  const mark = markOf(room.id).value;
  if (control.invalid.value) return { text: t("rate.invalid"), tone: "bad" };
  if (control.sending.value !== null) return { text: t("rate.sending", { n: number(control.next.value ?? control.sending.value) }) };
  if (control.refusal.value) return { text: t("rate.refused", { why: control.refusal.value }), tone: "bad" };
  if (control.draft.value !== null && control.draft.value !== room.rate) return { text: t("rate.was", { n: number(room.rate) }) };
  if (mark) return { text: mark.by ? `${mark.text} · ${mark.by}` : mark.text };
  if (isFailing(room)) return { text: t("rate.helpless") };
  if (room.rate === 0 && room.state === "active") return { text: t("rate.zero"), tone: "warn" };
  return { text: "" };
}

/** Passes a minute as a place on the track; absent where the room lets nobody in by its state. */
function Passes({ room, range }) {
  const shown = room.state === "active" && room.rate > 0 && !room.recovering && room.passedLastMinute !== null;
  const place = Math.min(1, (room.passedLastMinute ?? 0) / range);
  return shown && html`<svg class="dial-mark" viewBox="0 0 8 6" aria-hidden="true" style=${{ "--place": place }}><path d="M4 0 8 6H0z" /></svg>`;
}

export function RateDial({ id, room }) {
  const control = useMemo(() => new RateControl(id), [id]);
  const root = useRef(null);
  useEffect(() => () => control.stop(), [control]);
  const value = control.value(room);
  const range = control.range(room, root.current?.contains(document.activeElement) ?? false);
  const said = hint(control, room);
  const still = room.state !== "active" ? "dial-still" : "";
  return html`
    <div class="dial ${still}" ref=${root}>
      <label class="dial-name" for="rate-${id}">${t("rate")}</label>
      <div class="dial-row">
        <span class="dial-track" style=${{ "--place": Math.min(1, value / range) }}>
          <input type="range" min="0" max=${range} step="1" value=${value} disabled=${Boolean(room.recovering)} class=${control.draft.value !== null ? "dial-held" : ""}
            aria-label=${t("rate.slider", { name: room.name })} aria-valuetext=${t("rate.spoken", { n: value })} aria-describedby="hint-${id}"
            onInput=${(event) => control.drag(Number(event.currentTarget.value))} onChange=${() => control.letGo()}
            onKeyDown=${(event) => control.key(event, value, range)} onBlur=${() => control.letGo()} />
          <${Passes} room=${room} range=${range} />
        </span>
        <input id="rate-${id}" class="dial-field ${control.invalid.value ? "field-bad" : ""}" type="text" inputmode="numeric" autocomplete="off" disabled=${Boolean(room.recovering)}
          value=${control.typed.value ?? String(value)} aria-label=${t("rate.field", { name: room.name })} aria-invalid=${control.invalid.value} aria-describedby="hint-${id}"
          onInput=${(event) => control.type(event.currentTarget.value)} onKeyDown=${(event) => control.fieldKey(event)} onBlur=${() => control.enter()} />
        <span class="dial-unit" aria-hidden="true">${control.sending.value === null ? "/min" : "…"}</span>
      </div>
      <p class="dial-hint ${said.tone ? `text-${said.tone}` : ""}" id="hint-${id}">${said.text}</p>
    </div>
  `;
}

/** The rate for those who may only read. */
export function RateNumber({ room }) {
  return html`<dl class="rate-number"><div class="figure"><dt>${t("rate")}</dt><dd class="figure-m">${number(room.rate)} <small>/min</small></dd></div></dl>`;
}
