/** Numbers and times as people read them. Pure, but for the language that decides the clock's form. */
import { language } from "./prefs.js";

const NUMBER = new Intl.NumberFormat("en-US");

/** Unknown figures are `–`, never 0 (CON-250); never shortened to 12.4k. */
export const number = (value) => (value === null || value === undefined ? "–" : NUMBER.format(value));

/** Length of a wait, short and never cut (CON-064, CON-065): 40s, 3m, 1h20m, 109h. */
export function wait(sec) {
  if (sec < 59.5) return `${Math.ceil(sec)}s`;
  const minutes = Math.round(sec / 60);
  if (minutes < 60) return `${Math.max(1, minutes)}m`;
  if (minutes >= 600) return `${NUMBER.format(Math.round(sec / 3600))}h`;
  const rest = minutes % 60;
  return `${Math.floor(minutes / 60)}h${rest ? `${rest}m` : ""}`;
}

/** Length of time to the second while that matters: `4m 12s`, `3h 5m`, `2d 3h`. */
export function span(sec) {
  const [days, hours, minutes] = [Math.floor(sec / 86_400), Math.floor(sec / 3600) % 24, Math.floor(sec / 60) % 60];
  if (days) return `${days}d ${hours}h`;
  if (hours) return `${hours}h ${minutes}m`;
  return minutes ? `${minutes}m ${sec % 60}s` : `${sec}s`;
}

/** Times in the operator's zone: English by the system's English (12 or 24 hours), Thai in 24 hours. */
function clock(parts) {
  const hours = parts.hour ? { hour: "2-digit", hourCycle: "h23" } : {};
  if (language.value === "th") return new Intl.DateTimeFormat("th-TH-u-nu-latn", { ...parts, ...hours });
  const system = navigator.language || "en-US";
  return new Intl.DateTimeFormat(system.startsWith("en") ? system : "en-US", parts);
}

/** `3:15:48 AM` or `03:15:48`. */
export const timeOfDay = (ms) => clock({ hour: "numeric", minute: "2-digit", second: "2-digit" }).format(ms);

/** `6:04 PM` or `18:04`. */
export const minuteOfDay = (ms) => clock({ hour: "numeric", minute: "2-digit" }).format(ms);

/** `Sep 1` or `1 ก.ย.`. */
export const dayOf = (ms) => clock({ month: "short", day: "numeric" }).format(ms);

/** Host (with port) of an address, or the address itself if it is none. */
export function hostOf(address) {
  try {
    return new URL(address).host;
  } catch {
    return address ?? "";
  }
}
