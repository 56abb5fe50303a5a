/** The fields of a room that this build obeys: their place in the form, bounds, defaults, and what text becomes. */

const RESERVED_PREFIXES = ["dk_", "meta_", "notify_", "email_"];
const RESERVED_IDS = [
  "console", "theme", "lang", "admin_key", "autotune", "autotune_cfg", "wait_samples", "hidden_series", "selected_room", "alerts",
  "offline_attempts", "origin_down_attempts",
];
const MOST_ENTRIES = 50;

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

const SEC = { unit: "sec", kind: "number" };

/** Name → how it is shown (`kind`, `unit`), its default, and `parse`: raw → `{value}` or `{error}`. */
export const FIELDS = {
  id: { kind: "mono", first: "", parse: parseId },
  name: { kind: "text", first: "", parse: parseName },
  targetUrl: { kind: "mono", first: "", parse: parseUrl },
  proxyOrigin: { kind: "inline", first: null, parse: parseInner },
  onBackendDown: { kind: "choice", options: [["closed", "f.onBackendDown.closed"], ["open", "f.onBackendDown.open"]], first: "closed", parse: (value) => ({ value }) },
  rate: { kind: "number", unit: "/min", first: 60, sent: "ratePerMinute", parse: whole(0, 100_000) },
  maxConcurrent: { kind: "number", unit: "onsite", first: null, parse: whole(1, 1_000_000, true) },
  passedTtlSec: { ...SEC, first: 600, parse: whole(1, 86_400) },
  sessionTtlSec: { ...SEC, first: 1800, parse: whole(1, 86_400) },
  sessionMaxSec: { ...SEC, first: 14_400, parse: whole(1, 604_800) },
  presenceSec: { ...SEC, first: 30, parse: whole(1, 3600) },
  queueMaxPerIp: { kind: "number", unit: "places", first: 16, parse: whole(1, 1_000_000, true) },
  sessionMaxPerIp: { kind: "number", unit: "slots", first: null, parse: whole(1, 1_000_000, true) },
  rules: { kind: "rules", first: [], parse: parseRules },
  returnOrigins: { kind: "lines", first: [], parse: parseOrigins },
  tagOrigins: { kind: "tag", first: null, parse: parseTagOrigins },
};

/** Sections in the form's order, each with its rows of fields. */
export const SECTIONS = [
  { name: "site", fields: ["id", "name", "targetUrl", "proxyOrigin", "onBackendDown"] },
  { name: "pace", fields: ["rate", "maxConcurrent"] },
  { name: "clocks", fields: ["passedTtlSec", "sessionTtlSec", "sessionMaxSec", "presenceSec"] },
  { name: "fairness", fields: ["queueMaxPerIp", "sessionMaxPerIp"] },
  { name: "targeting", fields: ["rules"] },
  { name: "origins", fields: ["returnOrigins", "tagOrigins"] },
];

/** What a first room cannot do without (CON-232). */
export const FEW = ["id", "targetUrl", "rate"];

/** A value of the server as what stands in the field. */
export function toRaw(name, value) {
  const { kind } = FIELDS[name];
  if (kind === "rules") return (value ?? []).map(({ id, action, pattern, note }) => ({ id, action, pattern, note: note ?? "" }));
  if (kind === "lines") return (value ?? []).join("\n");
  if (kind === "inline") return { on: value !== null, text: value ?? "" };
  if (kind === "tag") return { same: value === null || value === undefined, text: (value ?? []).join("\n") };
  return value === null || value === undefined ? "" : String(value);
}
