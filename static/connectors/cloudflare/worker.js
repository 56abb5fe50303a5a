/*! Queue Manager edge gate 1.2.0 */
// A Worker in front of a site: asks the queue before each request reaches it. Settings (wrangler.toml): QM_URL and
// QM_ROOM, the secret QM_API_KEY, and as wanted QM_TIMEOUT_MS, FAIL_MODE (open, closed), QM_SKIP_STATIC, QM_ANALYTICS.
// Everything a visitor sends is bounded before it is passed on, so that nobody can make the queue refuse the question.

const ROOM = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const TOKEN = /^[A-Za-z0-9._~-]{1,1024}$/;
const DOOR_KEY = /^[A-Za-z0-9._~-]{1,128}$/;
const ENDED = ["expired", "ejected", "stale_generation", "session_elsewhere", "bad_token"];
const SENTENCES = {
  new: "You are not in the queue yet",
  waiting: "You are still in the queue",
  scheduled: "The doors are not open yet",
  paused: "The queue is paused",
  expired: "Your turn is over; you are back in the queue",
  ejected: "You are back in the queue",
  stale_generation: "The queue began anew; you are back in it",
  at_capacity: "There is no free place at the moment",
  session_elsewhere: "Your place is used in another browser",
  bad_token: "Your place could not be confirmed",
};
const OWN_FAULTS = [400, 413, 414, 431];
const PAGE_DESTS = ["document", "iframe", "object", "embed", "frame"];

export default {
  async fetch(request, env) {
    const settings = settingsOf(env);
    if (!settings) {
      sayOnce("settings", "QM_URL, QM_ROOM or QM_API_KEY is missing or wrong: nobody is queued");
      return fetch(request);
    }
    let next;
    try {
      next = await decide(request, settings);
    } catch (error) {
      sayOnce("broke", "failed: " + error);
      next = { open: "unreachable" };
    }
    if (next.open) next = notAnswered(request, next.open, settings, env);
    return next.reply || changed(await fetch(next.forward), next.lines);
  },
};

// Settings, or null when the Worker cannot ask anybody.
function settingsOf(env) {
  const base = String((env && env.QM_URL) || "").trim().replace(/\/+$/, "");
  const room = String((env && env.QM_ROOM) || "").trim();
  const key = String((env && env.QM_API_KEY) || "").trim();
  if (!/^https?:\/\/[^\s?#]+$/.test(base) || !ROOM.test(room) || !/^[\x21-\x7e]{1,512}$/.test(key)) return null;
  const timeout = Number(env.QM_TIMEOUT_MS);
  return {
    base, room, key,
    timeoutMs: timeout >= 100 && timeout <= 10000 ? timeout : 2000,
    isClosed: env.FAIL_MODE === "closed",
    skipsStatic: String(env.QM_SKIP_STATIC || "") === "1",
  };
}

// What happens to the request: {reply}, {forward, lines: headers to add to the site's answer}, or {open: reason}.
async function decide(request, settings) {
  if (settings.skipsStatic && isStatic(request)) return { forward: request, lines: [] };
  const { url, token: brought } = split(request.url);
  const kept = cookie(request, "qm_" + settings.room, TOKEN);
  const arrived = TOKEN.test(brought || "") ? brought : "";
  const deadline = Date.now() + settings.timeoutMs;
  let token = arrived || kept;
  let said = await ask(request, url, token, deadline, settings);
  if (said.action === "queue" && arrived && kept && kept !== arrived && !said.isBusy) {
    token = kept; // a link with somebody's token throws nobody out of his own session
    said = await ask(request, url, kept, deadline, settings);
  }
  if (said.open) return said;
  if (said.action === "queue") {
    const over = kept && ENDED.includes(said.reason) ? ["qm_", "qm_dk_"] : [];
    return queued(request, said, over.map((name) => setCookie(request, name + settings.room, "")), settings);
  }
  const isProven = said.reason === "admitted" || said.reason === "session";
  const fresh = TOKEN.test(said.token || "") ? said.token : arrived === token && (isProven || !kept) ? arrived : "";
  const lines = [];
  if (fresh && fresh !== kept) lines.push(setCookie(request, "qm_" + settings.room, fresh));
  if (DOOR_KEY.test(said.doorKey || "")) lines.push(setCookie(request, "qm_dk_" + settings.room, said.doorKey));
  if (brought === null) return { forward: request, lines };
  const isShown = isPage(request) && ["GET", "HEAD"].includes(request.method) && !isUpgrade(request);
  return isShown ? { reply: moved(url, lines) } : { forward: new Request(url, request), lines };
}

// One check: the queue's answer, or {open: reason}. `deadline` covers the whole answer with its body.
async function ask(request, url, token, deadline, settings) {
  const agent = cut(request.headers.get("user-agent") || "");
  let query = "room=" + settings.room + "&ip=" + encodeURIComponent(request.headers.get("cf-connecting-ip") || "") +
    "&agent=" + encodeURIComponent(agent);
  const named = encodeURIComponent(url);
  if (named.length <= 8000) query += "&url=" + named; // else the check counts as covered; never shortened
  if (token) query += "&token=" + token;
  const headers = { authorization: "Bearer " + settings.key, accept: "application/json" };
  const door = cookie(request, "qm_dk_" + settings.room, DOOR_KEY);
  if (door) headers["x-qm-door-key"] = door;
  const stop = new AbortController();
  let isLate = false;
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(() => {
      isLate = true;
      resolve({ open: "timeout" });
      stop.abort();
    }, Math.max(0, deadline - Date.now()));
  });
  const asked = question(settings, query, { headers, redirect: "manual", signal: stop.signal }, url);
  const said = await Promise.race([asked.catch(() => ({ open: isLate ? "timeout" : "unreachable" })), late]);
  clearTimeout(timer);
  return said;
}

async function question(settings, query, init, url) {
  const never = { cacheTtlByStatus: { "100-599": -1 } }; // an answer is for one visitor
  const response = await fetch(settings.base + "/api/check?" + query, { ...init, cf: never });
  if (!response.ok && response.body) response.body.cancel().catch(() => {}); // unread, it holds a connection
  if (response.status === 429) {
    sayOnce("429", "the queue sheds load (429): visitors go to the waiting page (CHECK_LIMIT_PER_MIN)");
    return { action: "queue", reason: "waiting", location: waitingPage(settings, url), isBusy: true };
  }
  if (!response.ok) {
    const whose = OWN_FAULTS.includes(response.status) ? "a mistake of this connector: " : "";
    sayOnce(response.status, whose + "the queue answers " + response.status);
    return { open: "http-" + response.status };
  }
  const text = await response.text();
  try {
    const said = JSON.parse(text);
    if (said.action === "pass" || (said.action === "queue" && /^https?:\/\//.test(said.location))) return said;
  } catch (error) { /* no JSON */ }
  return { open: "invalid-response" };
}

// The queue did not decide.
function notAnswered(request, reason, settings, env) {
  if (settings.isClosed) return { reply: closed(request, reason) };
  sayOnce("open " + reason, "visitors are sent on unqueued: " + reason);
  try {
    env.QM_ANALYTICS.writeDataPoint({ blobs: [settings.room, reason], doubles: [1], indexes: [settings.room] });
  } catch (error) { /* not bound, or full: nothing is counted */ }
  return { forward: request, lines: [["X-QM-Failover", reason]] };
}

function moved(url, lines) {
  return new Response(null, { status: 302, headers: [["Location", url], ["Cache-Control", "no-store"], ...lines] });
}

function queued(request, { location, reason }, lines, settings) {
  if (isPage(request) && !isUpgrade(request)) return { reply: moved(location, lines) };
  const error = SENTENCES[reason] || SENTENCES.waiting;
  const body = { error, code: "queued", roomId: settings.room, reason, reload: true };
  return { reply: json(body, [["X-QM-Queued", "1"], ["Retry-After", "5"], ["Cache-Control", "no-store"], ...lines]) };
}

// Where it would fail open, and must not.
function closed(request, reason) {
  const headers = [["X-QM-Failover", reason], ["Retry-After", "15"], ["Cache-Control", "no-store"]];
  if (!isPage(request) || isUpgrade(request)) {
    return json({ error: "The queue cannot be reached", code: "queue_unreachable" }, headers);
  }
  const page = '<!doctype html><html lang="en"><meta charset="utf-8">' +
    '<meta name="viewport" content="width=device-width">' +
    '<meta name="robots" content="noindex"><meta http-equiv="refresh" content="15"><title>One moment</title>' +
    "<style>:root{color-scheme:light dark}body{max-width:40rem;margin:0 auto;padding:88px 24px;" +
    "font:1.125rem/1.6 system-ui,sans-serif}</style><h1>One moment</h1>" +
    "<p>This page cannot be shown right now. It tries again by itself in 15 seconds.</p>";
  return new Response(page, { status: 503, headers: [["Content-Type", "text/html; charset=utf-8"], ...headers] });
}

function json(body, headers) {
  const all = [["Content-Type", "application/json"], ...headers];
  return new Response(JSON.stringify(body), { status: 503, headers: all });
}

// The site's answer with `lines` added; itself when there is nothing to add.
function changed(response, lines) {
  if (!lines.length) return response;
  const made = response.webSocket
    ? new Response(null, { status: 101, webSocket: response.webSocket, headers: response.headers })
    : new Response(response.body, response);
  for (const [name, value] of lines) made.headers.append(name, value);
  return made;
}

// Reading a request

// Will the browser show the answer?
function isPage(request) {
  const mode = request.headers.get("sec-fetch-mode");
  const dest = request.headers.get("sec-fetch-dest");
  if (mode === "navigate" || PAGE_DESTS.includes(dest)) return true;
  return mode === null && dest === null && /text\/html/i.test(request.headers.get("accept") || "");
}

function isUpgrade(request) {
  return /(^|,)\s*websocket\s*(,|$)/i.test(request.headers.get("upgrade") || "");
}

const MEDIA = new RegExp("\\.(" + ("js mjs cjs css map png jpg jpeg gif webp avif svg ico bmp apng woff woff2 ttf " +
  "otf eot mp3 m4a aac ogg oga opus wav flac mp4 m4v webm mov ogv").split(" ").join("|") + ")$", "i");
const PLAIN = /^(\/[A-Za-z0-9._~!$&'()*+,=:@-]+)+$/;
const SCRIPT = /\.(php|phtml|aspx?|ashx|jspx?|do|cgi|pl|cfm)\//i;
const OTHER_PATH = ["x-original-url", "x-rewrite-url", "x-original-uri", "x-forwarded-uri", "x-forwarded-path",
  "x-request-uri", "x-envoy-original-path", "x-http-method-override", "x-http-method", "x-method-override"];

// A media file that no app takes for anything else.
function isStatic(request) {
  const path = new URL(request.url).pathname;
  if (!["GET", "HEAD"].includes(request.method) || !MEDIA.test(path)) return false;
  if (!PLAIN.test(path) || SCRIPT.test(path)) return false;
  if (/\/\.{1,2}(\/|$)/.test(path) || PAGE_DESTS.includes(request.headers.get("sec-fetch-dest"))) return false;
  for (const name of request.headers.keys()) if (OTHER_PATH.includes(name.replace(/_/g, "-"))) return false;
  return true;
}

// The first cookie of a name, or "" where there is none of that form.
function cookie(request, name, form) {
  for (const part of (request.headers.get("cookie") || "").split(";")) {
    const at = part.indexOf("=");
    if (at > 0 && part.slice(0, at).trim() === name) {
      const value = part.slice(at + 1).trim();
      return form.test(value) ? value : "";
    }
  }
  return "";
}

// A line that sets a cookie of the site's own host; an empty value ends it.
function setCookie(request, name, value) {
  const end = value ? "" : "; Max-Age=0";
  const secure = request.url.startsWith("https:") ? "; Secure" : "";
  return ["Set-Cookie", name + "=" + value + "; Path=/" + end + "; HttpOnly; SameSite=Lax" + secure];
}

// An address without its qm_token parameters, every other character as it was; `token`: the first one, or null.
function split(href) {
  const at = href.indexOf("?");
  let token = null;
  if (at < 0) return { url: href, token };
  const kept = href.slice(at + 1).split("&").filter((part) => {
    const equals = part.indexOf("=");
    if (decode(equals < 0 ? part : part.slice(0, equals)) !== "qm_token") return true;
    if (token === null) token = equals < 0 ? "" : decode(part.slice(equals + 1));
    return false;
  });
  return { url: token === null ? href : href.slice(0, at) + (kept.length ? "?" + kept.join("&") : ""), token };
}

function decode(text) {
  try {
    return decodeURIComponent(text.replace(/\+/g, " "));
  } catch (error) {
    return text;
  }
}

function waitingPage(settings, url) {
  const back = url.length > 2000 ? url.replace(/\?.*$/, "").slice(0, 2000) : url;
  return settings.base + "/w/" + settings.room + "?qm_return=" + encodeURIComponent(back);
}

// A User-Agent of a size that always fits; half characters and control characters would be refused or throw.
function cut(agent) {
  let text = agent.slice(0, 512).replace(/[\ud800-\udfff\x00-\x1f\x7f]/g, "");
  while (encodeURIComponent(text).length > 2000) text = text.slice(0, Math.floor(text.length * 0.9));
  return text;
}

const told = new Set();

// One line of the log an isolate and matter.
function sayOnce(matter, text) {
  if (told.has(matter)) return;
  told.add(matter);
  console.warn("[queue-manager] " + text);
}
