/** The fields of a room that this build obeys: their place in the form, bounds, defaults, and what text becomes. */
import { local } from "./local_time.js";
import { serverNow } from "./store.js";

const RESERVED_PREFIXES = ["dk_", "meta_", "notify_", "email_"];
const RESERVED_IDS = [
  "console", "theme", "lang", "admin_key", "autotune", "autotune_cfg", "wait_samples", "hidden_series", "selected_room", "alerts",
  "offline_attempts", "origin_down_attempts",
];
const MOST_ENTRIES = 50;

/** How far ahead doors can be scheduled (ENG-170). */
const AHEAD_MS = 366 * 86_400_000;

/** A mistake at a field: key of its words and what they speak of. */
const wrong = (key, values = {}) => ({ error: { key, values } });

function parseId(text) {
  if (text === "") return wrong("form.needed");
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(text)) return wrong("form.id.form");
  const prefix = RESERVED_PREFIXES.find((start) => text.startsWith(start));
  if (prefix) return wrong("form.id.prefix", { prefix });
  return RESERVED_IDS.includes(text) ? wrong("form.id.reserved", { id: text }) : { value: text };
}

function parseName(text) {
  const name = text.trim();
  return name.length > 80 ? wrong("form.long", { n: 80 }) : { value: name };
}

function parseUrl(text) {
  const address = text.trim();
  if (address === "") return wrong("form.needed");
  let url;
  try {
    url = new URL(address);
  } catch {
    return wrong("form.url");
  }
  const plain = /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.hash && address.length <= 2048;
  return plain ? { value: address } : wrong("form.url");
}

/** Where only the server reaches: scheme, host and port (INL-005). */
function parseInner({ on, text }) {
  if (!on) return { value: null };
  const address = text.trim();
  if (address === "") return wrong("form.needed");
  const plain = /^https?:\/\/[^/\s@?#]+\/?$/i.test(address) && address.length <= 512;
  return plain ? { value: address.replace(/\/$/, "") } : wrong("form.inner");
}

const whole = (min, max, empty) => (text) => {
  const plain = text.trim().replaceAll(",", "");
  if (plain === "" && empty) return { value: null };
  const value = Number(plain);
  return /^\d+$/.test(plain) && value >= min && value <= max ? { value } : wrong(empty ? "form.wholeorempty" : "form.whole", { min, max: max.toLocaleString("en-US") });
};

function parseOrigins(text) {
  const lines = text.split("\n").map((one) => one.trim()).filter(Boolean);
  const bad = lines.find((one) => !/^https?:\/\/(\*\.)?[^/\s@*?#]+$/i.test(one));
  if (bad) return wrong("form.origin", { origin: bad });
  return lines.length > MOST_ENTRIES ? wrong("form.many", { n: MOST_ENTRIES }) : { value: lines };
}

const parseTagOrigins = ({ same, text }) => (same ? { value: null } : parseOrigins(text));

function parseRules(rules) {
  const place = rules.findIndex(({ pattern }) => !/^(\/|https?:\/\/[^/]+\/).{0,511}$/.test(pattern.trim()));
  if (place >= 0) return wrong("form.rule", { n: place + 1 });
  return { value: rules.map(({ id, action, pattern, note }) => ({ ...(id ? { id } : {}), action, pattern: pattern.trim(), note })) };
}

/** When the doors open: local time, as the field gives it; `partial` while it holds only a part of one. */
function parseMoment({ text, partial }) {
  if (partial) return wrong("form.moment");
  if (text === "") return { value: null };
  const value = Date.parse(text);
  if (value <= serverNow()) return wrong("form.past");
  return value > serverNow() + AHEAD_MS ? wrong("form.far") : { value };
}

/** The upper end of autotune: needed, and not below the lower one. */
function parseMost(text, raw) {
  if (text.trim() === "") return wrong("form.needed");
  const [most, least] = [whole(1, 100_000)(text), whole(1, 100_000)(raw["autotune.minRate"])];
  return most.value < least.value ? wrong("form.below", { min: least.value }) : most;
}

const asIs = (value) => ({ value });

const isInline = (raw) => raw.proxyOrigin.on;
const isArmed = (raw) => raw["autoActivate.enabled"];
const isTuned = (raw) => raw["autotune.enabled"] === "on";

const member = (of, name, first) => ({ of, read: (room) => room[of]?.[name] ?? first, first });

/** Words of the API for what a room may set besides leaving it to the server, each with the key of what it means. */
const TUNED = [["on", "f.autotune.enabled.on"], ["off", "f.autotune.enabled.off"]];
const MODES = [["off", "f.protection.mode.off"], ["monitor", "f.protection.mode.monitor"], ["enforce", "f.protection.mode.enforce"]];

const SEC = { unit: "sec", kind: "number" };

/**
 * Name → how it is shown (`kind`, `unit`), its default `first`, and `parse`: raw text, and that of all fields → `{value}` or
 * `{error}`. `shown` tells whether it is there at all. A name with a dot is a member of the setting `of`, found by `read`.
 */
export const FIELDS = {
  id: { kind: "mono", first: "", parse: parseId },
  name: { kind: "text", first: "", parse: parseName },
  targetUrl: { kind: "mono", first: "", parse: parseUrl },
  proxyOrigin: { kind: "inline", first: null, parse: parseInner },
  onBackendDown: { kind: "choice", options: [["closed", "f.onBackendDown.closed"], ["open", "f.onBackendDown.open"]], first: "closed", parse: asIs, shown: isInline },
  rate: { kind: "number", unit: "/min", first: 60, sent: "ratePerMinute", parse: whole(0, 100_000) },
  maxConcurrent: { kind: "number", unit: "onsite", first: null, parse: whole(1, 1_000_000, true) },
  passedTtlSec: { ...SEC, first: 600, parse: whole(1, 86_400) },
  sessionTtlSec: { ...SEC, first: 1800, parse: whole(1, 86_400) },
  sessionMaxSec: { ...SEC, first: 14_400, parse: whole(1, 604_800) },
  presenceSec: { ...SEC, first: 30, parse: whole(1, 3600) },
  queueMaxPerIp: { kind: "number", unit: "places", first: 16, parse: whole(1, 1_000_000, true) },
  preQueueMaxPerIp: { kind: "number", unit: "places", first: 16, parse: whole(1, 1_000_000, true) },
  sessionMaxPerIp: { kind: "number", unit: "slots", first: null, parse: whole(1, 1_000_000, true) },
  opensAt: { kind: "moment", first: null, parse: parseMoment },
  "autoActivate.enabled": { ...member("autoActivate", "enabled", false), kind: "switch", parse: asIs },
  "autoActivate.joinsPerMin": { ...member("autoActivate", "joinsPerMin", 120), kind: "number", unit: "/min", parse: whole(1, 1_000_000), shown: isArmed },
  "autoActivate.sustainSec": { ...member("autoActivate", "sustainSec", 60), ...SEC, parse: whole(1, 3600), shown: isArmed },
  "autoActivate.releaseAfterSec": { ...member("autoActivate", "releaseAfterSec", 300), ...SEC, parse: whole(0, 86_400), shown: isArmed },
  "autotune.enabled": {
    of: "autotune", kind: "choice", options: TUNED, first: "server", parse: asIs,
    read: ({ autotune }) => (autotune ? (autotune.enabled ? "on" : "off") : "server"),
    ofServer: (server) => (server.autotune ? "on" : "off"),
  },
  "autotune.minRate": { ...member("autotune", "minRate", 1), kind: "number", unit: "/min", parse: whole(1, 100_000), shown: isTuned },
  "autotune.maxRate": { ...member("autotune", "maxRate", null), kind: "number", unit: "/min", needed: true, parse: parseMost, shown: isTuned },
  "autotune.targetMs": { ...member("autotune", "targetMs", 1000), kind: "number", unit: "ms", parse: whole(50, 30_000), shown: isTuned },
  rules: { kind: "rules", first: [], parse: parseRules },
  returnOrigins: { kind: "lines", first: [], parse: parseOrigins },
  tagOrigins: { kind: "tag", first: null, parse: parseTagOrigins },
  "protection.mode": {
    of: "protection", kind: "choice", options: MODES, first: "server", parse: asIs,
    read: ({ protection }) => protection?.mode ?? "server",
    ofServer: (server) => server.protectionMode,
  },
};

/** Setting of several fields → its value, made of what `held(member)` tells of each; null leaves it to the server. */
export const WHOLES = {
  autoActivate: (held) => ({ enabled: held("enabled"), joinsPerMin: held("joinsPerMin"), sustainSec: held("sustainSec"), releaseAfterSec: held("releaseAfterSec") }),
  autotune: (held) => (held("enabled") === "server" ? null : { enabled: held("enabled") === "on", minRate: held("minRate"), maxRate: held("maxRate"), targetMs: held("targetMs") }),
  protection: (held) => (held("mode") === "server" ? null : { mode: held("mode") }),
};

/** Sections in the form's order, each with its rows of fields. */
export const SECTIONS = [
  { name: "site", fields: ["id", "name", "targetUrl", "proxyOrigin", "onBackendDown"] },
  { name: "pace", fields: ["rate", "maxConcurrent"] },
  { name: "clocks", fields: ["passedTtlSec", "sessionTtlSec", "sessionMaxSec", "presenceSec"] },
  { name: "fairness", fields: ["queueMaxPerIp", "preQueueMaxPerIp", "sessionMaxPerIp"] },
  { name: "doors", fields: ["opensAt"] },
  { name: "threshold", told: "section.threshold.what", fields: ["autoActivate.enabled", "autoActivate.joinsPerMin", "autoActivate.sustainSec", "autoActivate.releaseAfterSec"] },
  { name: "autotune", told: "section.autotune.what", fields: ["autotune.enabled", "autotune.minRate", "autotune.maxRate", "autotune.targetMs"] },
  { name: "targeting", fields: ["rules"] },
  { name: "origins", fields: ["returnOrigins", "tagOrigins"] },
  { name: "protection", fields: ["protection.mode"] },
];

/** What a first room cannot do without (CON-232). */
export const FEW = ["id", "targetUrl", "rate"];

/** Id of a field's element. */
export const idOf = (name) => `f-${name?.replace(".", "-")}`;

/** What a room of the server holds in a field. */
export const readField = (name, room) => FIELDS[name].read?.(room) ?? room[name] ?? null;

/** A value of the server as what stands in the field. */
export function toRaw(name, value) {
  const { kind } = FIELDS[name];
  if (kind === "rules") return (value ?? []).map(({ id, action, pattern, note }) => ({ id, action, pattern, note: note ?? "" }));
  if (kind === "lines") return (value ?? []).join("\n");
  if (kind === "inline") return { on: value !== null, text: value ?? "" };
  if (kind === "tag") return { same: value === null || value === undefined, text: (value ?? []).join("\n") };
  if (kind === "moment") return { text: local(value), partial: false };
  if (kind === "switch") return value;
  return value === null || value === undefined ? "" : String(value);
}
