/** Moments as a field of local time takes them, and the operator's zone. Pure. */

/** Epoch ms as `2026-09-01T09:00`, with seconds only where they are not 0; empty for none. */
export function local(ms) {
  if (ms === null || ms === undefined) return "";
  const text = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString();
  return text.slice(0, ms % 60_000 ? 19 : 16);
}

/** `2026-09-01 02:00 UTC` of a field of local time; empty while it holds no time. */
export function utcOf(text) {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? "" : `${new Date(ms).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** The operator's zone by name, such as `Asia/Bangkok`. */
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;
