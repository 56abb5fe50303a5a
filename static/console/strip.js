/** Strips below the totals. They push the cards down, so they come and go only while no control is in use. */
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.js";
import { rich, t } from "./i18n.js";
import { minuteOfDay, timeOfDay } from "./format.js";
import { isInUse } from "./keyboard.js";
import { me } from "./session.js";
import { live, serverNow } from "./store.js";
import { clockFace, slashRing } from "./icons.js";

/** How long before its end a session is announced (CON-025). */
const NOTICE_MS = 600_000;

/** `value` as it was when nothing was in use; looked at every second. */
function useCalm(value) {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = setInterval(() => isInUse() || setShown(value()), 1000);
    return () => clearInterval(timer);
  }, []);
  return shown;
}

const isOld = () => !live.peek().on && live.peek().since !== null;
const isEnding = () => me.peek()?.expiresAt != null && me.peek().expiresAt - serverNow() < NOTICE_MS;

export function Strip() {
  const old = useCalm(isOld);
  const ending = useCalm(isEnding);
  const since = live.value.since;
  return html`
    ${old && since !== null && html`
      <p class="strip strip-warn" role="status">${slashRing()}<span><b>${t("strip.notlive", { time: timeOfDay(since) })}</b> ${t("strip.old")}</span></p>
    `}
    ${ending && me.value && html`
      <p class="strip" role="status">${clockFace()}<span>${rich("strip.ends", { time: html`<b>${minuteOfDay(me.value.expiresAt)}</b>` })}</span></p>
    `}
  `;
}
