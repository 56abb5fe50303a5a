/** Choices that outlive a reload. Works with storage blocked or full: the choice then holds until the reload (CON-241). */
import { signal } from "@preact/signals";

const LANGUAGES = ["en", "th"];
const THEMES = ["system", "light", "dark"];

/** Keys that older consoles left behind; taken out on load (CON-240). */
const LEFT_BEHIND = ["qm_autotune", "qm_autotune_cfg", "qm_wait_samples", "qm_admin_key"];

function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function write(key, value) {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    /* Blocked or full: nothing more can be done, and nothing else depends on it. */
  }
}

/** A stored value of another language shows English and is left as it is: the waiting page shares the key (CON-237). */
function firstLanguage() {
  const stored = read("qm_lang");
  if (stored) return LANGUAGES.includes(stored) ? stored : "en";
  const wanted = (navigator.languages ?? [navigator.language]).map((tag) => tag.slice(0, 2).toLowerCase());
  return wanted.find((tag) => LANGUAGES.includes(tag)) ?? "en";
}

/** `en` or `th`; changed by `setLanguage` of i18n.js, once the words are there. */
export const language = signal(firstLanguage());

/** `system`, `light` or `dark`. */
export const theme = signal(THEMES.includes(read("qm_theme")) ? read("qm_theme") : "system");

/** Whether this browser shows desktop notifications of alerts (CON-165). */
export const alertsOn = signal(read("qm_alerts") === "1");

export function keepAlerts(isOn) {
  alertsOn.value = isOn;
  write("qm_alerts", isOn ? "1" : null);
}

/** Room of the chart as it was chosen last; it may be gone (CON-116). */
export const selectedRoom = signal(read("qm_selected_room"));

export function keepSelectedRoom(id) {
  selectedRoom.value = id;
  write("qm_selected_room", id);
}

/** Names of the chart's series that are switched off (CON-125). */
export const hiddenSeries = signal(new Set((read("qm_hidden_series") ?? "").split(",").filter(Boolean)));

/** Switch a series of the chart on or off. */
export function toggleSeries(name) {
  const hidden = new Set(hiddenSeries.value);
  if (!hidden.delete(name)) hidden.add(name);
  hiddenSeries.value = hidden;
  write("qm_hidden_series", hidden.size > 0 ? [...hidden].join(",") : null);
}

export function keepLanguage(tag) {
  language.value = tag;
  write("qm_lang", tag);
}

/** Go to the next of system, light, dark, at once and without a reload. */
export function nextTheme() {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length];
  write("qm_theme", theme.value === "system" ? null : theme.value);
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
}

/** What was seen of the first steps, by name → when; `null` where they were never begun, `away` once dismissed (CON-233). */
export const firstSteps = signal(readSteps());

function readSteps() {
  try {
    const kept = JSON.parse(read("qm:first_steps"));
    return kept && typeof kept === "object" ? kept : null;
  } catch {
    return null;
  }
}

export function keepFirstSteps(steps) {
  firstSteps.value = steps;
  write("qm:first_steps", JSON.stringify(steps));
}

/** Take out what older consoles left; returns the key one of them may have stored, to be used once (CON-018). */
export function takeLeftBehind() {
  const key = read("qm_admin_key");
  LEFT_BEHIND.forEach((name) => write(name, null));
  return key;
}
