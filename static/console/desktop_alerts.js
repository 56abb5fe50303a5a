/** Desktop notifications of this tab, by the server's own alerts (CON-161 … CON-166, OBS-137). */
import { useEffect, useId, useRef } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { ask } from "./api.js";
import { alertsOn, keepAlerts } from "./prefs.js";
import { focusRoom } from "./keyboard.js";
import { roomOf } from "./store.js";
import { toast } from "./toasts.js";
import { inTurn, TURN_MS } from "./turns.js";

/** Alerts that are worth a look at once: traffic starts to surge, a site is down, nobody is let through. */
const EVENTS = ["surge", "target_down", "origin_down", "outflow_stalled"];

const keyOf = (alert) => `${alert.event} ${alert.roomId}`;

const permission = () => globalThis.Notification?.permission ?? "denied";

function tell(alert) {
  const shown = new Notification(roomOf(alert.roomId).value?.name ?? "Queue Manager", { body: alert.message, tag: keyOf(alert) });
  shown.onclick = () => {
    window.focus();
    focusRoom(alert.roomId);
    shown.close();
  };
}

/** Tell of each alert once when it starts; of one that fired already when the tab began to look, never. */
function useTelling(isOn) {
  const known = useRef(null);
  useEffect(() => {
    known.current = null;
    if (!isOn) return undefined;
    const look = async () => {
      const { firing } = await ask("GET", "/alerts");
      const wanted = firing.filter((alert) => EVENTS.includes(alert.event));
      const before = known.current;
      known.current = new Set(wanted.map(keyOf));
      if (before) wanted.filter((alert) => !before.has(keyOf(alert))).forEach(tell);
    };
    let isLooking = false;
    const attempt = async () => {
      if (isLooking) return;
      isLooking = true;
      await look().catch(() => {}); // what is not known now is known at the next look
      isLooking = false;
    };
    attempt();
    return inTurn(attempt, TURN_MS, { whileHidden: true }).end;
  }, [isOn]);
}

/** The button: asks for the browser's permission at the first press, never before. */
export function DesktopAlerts() {
  const id = useId();
  const isOn = alertsOn.value && permission() === "granted";
  useTelling(isOn);
  const press = async () => {
    if (isOn) return keepAlerts(false);
    if (permission() === "default") await Notification.requestPermission();
    if (permission() === "granted") return keepAlerts(true);
    return toast(t("desktop.denied"), t("desktop.allow"));
  };
  return html`
    <span class="tip-host">
      <button type="button" class="button" aria-pressed=${isOn} aria-describedby=${id} onClick=${press}>${t(isOn ? "desktop.on" : "desktop.off")}</button>
      <span class="tip" role="tooltip" id=${id}>${t("desktop.what")}</span>
    </span>
  `;
}
