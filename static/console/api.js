/** The admin API as this page speaks it: same origin, session cookie, CSRF header on every write (ADM-076). */
import { linkToken } from "./link.js";

/** Whether this page stands below /__qm on a customer's host, and shares its origin with the scripts of the site (INL-059). */
export const isOnSite = location.pathname.startsWith("/__qm/");

const BASE = `${isOnSite ? "/__qm" : ""}/api/admin`;

/** Longest time a used control may stay under way (CON-045). */
const TIMEOUT_MS = 10_000;

/** How long a file that was saved stays in memory: until the browser has written it. */
const KEEP_FILE_MS = 60_000;

/** A refusal of the server, or no answer at all (`status` 0, code `no_answer`). */
class ApiError extends Error {
  constructor(status, body) {
    super(body.error ?? "");
    this.status = status;
    this.code = body.code ?? "no_answer";
    this.fields = body.fields ?? [];
    this.retryAfterSec = body.retryAfterSec ?? null;
  }
}

let onUnauthorized = () => {};

/** Name the function that is called when a request other than a sign-in gets 401 (CON-021). */
export function whenUnauthorized(act) {
  onUnauthorized = act;
}

/** How often somebody signed in on this page. */
let signIns = 0;

/** Tell that somebody has signed in: a 401 to what was asked before is not his. */
export function countSignIn() {
  signIns += 1;
}

let onStepUp = async () => false;

/** Name the function that is called when an act needs the key once more; it resolves with whether there is a token now. */
export function whenStepUp(act) {
  onStepUp = act;
}

/** Token of the last step-up: in memory, in this tab, until it ends (WHK-114). */
let stepUp = "";
let stepUpEnds = null;

/** Send `token` with every write for `ms`. */
export function keepStepUp(token, ms) {
  clearTimeout(stepUpEnds);
  stepUp = token;
  stepUpEnds = setTimeout(() => (stepUp = ""), ms);
}

/** What a refusal says; one in no JSON, as of a proxy before the server, says nothing. */
async function said(answer) {
  try {
    return await answer.json();
  } catch {
    return {};
  }
}

/** A monitor link's token is sent as Bearer and no cookie beside it; a session needs the CSRF header on every write. */
function credential(method) {
  const headers = method === "GET" ? {} : { "Content-Type": "application/json", "X-QM-CSRF": "1" };
  if (stepUp && method !== "GET") headers["X-QM-Step-Up-Token"] = stepUp;
  if (!linkToken) return { headers, credentials: "same-origin" };
  return { headers: { ...headers, Authorization: `Bearer ${linkToken}` }, credentials: "omit" };
}

/** Ask `path` below /api/admin, again once a key was given where one is needed; resolves with the answer's JSON, rejects with an ApiError. */
export async function ask(method, path, payload) {
  const since = signIns;
  let answer;
  let found;
  try {
    answer = await fetch(BASE + path, {
      method,
      ...credential(method),
      body: payload === undefined ? undefined : JSON.stringify(payload),
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (answer.ok) found = await answer.json(); // it may break off, or the time be over, after the first bytes: that is no answer
  } catch {
    throw new ApiError(0, {});
  }
  if (answer.ok) return found;
  const refusal = await refused(answer, path, since);
  if (refusal.code === "step_up_required" && (await onStepUp())) return ask(method, path, payload);
  throw refusal;
}

/** The refusal in `answer`. Of a question from before the last sign-in it says nothing about who is signed in now. */
async function refused(answer, path, since) {
  const body = await said(answer);
  const seconds = Number(answer.headers.get("Retry-After"));
  if (seconds > 0) body.retryAfterSec ??= seconds;
  if (answer.status === 401 && since === signIns && path !== "/session" && path !== "/step-up") onUnauthorized();
  return new ApiError(answer.status, body);
}

/**
 * Let the browser save the file at `path` below /api/admin as `name`; rejects with an ApiError.
 * It may be long in the making, so only the server ends the wait. A plain link would say nothing of a refusal.
 */
export async function saveFile(path, name) {
  const since = signIns;
  let file;
  try {
    const answer = await fetch(BASE + path, { ...credential("GET"), cache: "no-store" });
    if (!answer.ok) throw await refused(answer, path, since);
    file = await answer.blob();
  } catch (error) {
    throw error instanceof ApiError ? error : new ApiError(0, {});
  }
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEEP_FILE_MS);
}

/** Address of the event stream for a one-use ticket (ADM-084). */
export const eventsAddress = (ticket) => `${BASE}/events?ticket=${encodeURIComponent(ticket)}`;
