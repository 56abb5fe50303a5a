/*! Queue Manager browser tag 1.4.0 */
// Asks the queue whether this page may be shown. Every failure but 429 shows the page. Written for old browsers.
(function () {
  "use strict";
  var VERSION = "1.4.0";
  var ENDED = /^(expired|ejected|stale_generation|session_elsewhere|bad_token)$/;
  var ROOM = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
  var HOPS = "qm:hops";
  var memory = {};
  var script = document.currentScript || lastTag();
  if (!script) return;

  var room = script.getAttribute("data-room") || "";
  if (!ROOM.test(room)) {
    say("error", "data-room is missing or no room id; this page is not queued");
    return;
  }
  var base = script.src.replace(/[?#].*$/, "").replace(/\/qm\.js$/, "");
  var timeoutMs = numberOf("data-timeout-ms", 2000, 100, 10000);
  var isManual = script.getAttribute("data-manual") === "1";
  var hides = script.getAttribute("data-hide") !== "0" && !isManual;
  var sheet = null;
  var hideTimer = 0;

  if (typeof Promise !== "function" || typeof fetch !== "function") {
    if (!window.QM) window.QM = { version: VERSION, room: room, check: cannot };
    cannot();
    return;
  }

  var failedUrl = ""; // asked in vain: not asked about again during this page view
  var lastAsk = 0;
  var path = location.pathname;
  var timer = 0;
  var running = null;
  var isLeaving = false;

  var tags = window.QM && window.QM._tags;
  if (!tags) {
    tags = [];
    window.QM = { version: VERSION, room: room, check: checkAll };
    Object.defineProperty(window.QM, "_tags", { value: tags });
  }
  var before = tags.length ? tags[tags.length - 1].first : null;
  var tag = { check: check, first: null };
  var taken = takeToken(); // the first tag cleans the address bar for all
  if (taken) tags.token = taken;
  var arrived = isMine(tags.token) ? tags.token : ""; // it replaces a stored token only once it has passed
  tags.push(tag);

  if (!isManual) {
    if (hides) hide();
    tag.first = whenShown(function () {
      // Tags are asked in document order; once one has queued the visitor the others are silent.
      var start = Date.now();
      return before ? before.then(function (r) { return r.result === "queued" ? r : check(start); }) : check(start);
    });
    listen(window, "pageshow", function (event) {
      if (event.persisted) { failedUrl = ""; recheck(); }
    });
    if (hides) hideTimer = setTimeout(show, timeoutMs);
  }
  listen(document, "visibilitychange", function () { if (isVisible() && timer < 0) recheck(); });
  setInterval(function () {
    if (lastAsk && location.pathname !== path && isVisible() && Date.now() - lastAsk >= 2000) recheck();
  }, 1000);

  function checkAll() {
    var at = 0;
    function next() {
      return tags[at++].check(Date.now()).then(function (r) {
        return r.result === "queued" || at >= tags.length ? r : next();
      });
    }
    return next();
  }

  function recheck() {
    if (!running && pageUrl() !== failedUrl) check(Date.now());
  }

  // Resolves to {result: "pass"|"queued"|"failopen", reason}; never rejects. `start`: when the waiting began.
  function check(start) {
    if (running) return running;
    clearTimeout(timer);
    timer = 0;
    path = location.pathname;
    lastAsk = Date.now();
    var stored = read("qm_" + room);
    var token = arrived || stored;
    running = ask(token, start).then(function (answer) {
      if (answer.action === "queue" && arrived && stored && stored !== arrived && !answer.busy) {
        arrived = "";
        token = stored;
        return ask(stored, start);
      }
      return answer;
    }).then(function (answer) { return act(answer, token, stored); }, function (error) {
      return failOpen((error && error.qm) || "unreachable");
    });
    var mine = running;
    mine.then(function () {
      running = null;
      if (!isLeaving) show();
    });
    return mine;
  }

  function ask(token, start) {
    var url = pageUrl();
    var body = { tag: VERSION };
    var door = read("qm_dk_" + room);
    if (token) body.token = token;
    if (door) body.doorKey = door;
    if (url.length <= 4096) body.url = url;
    var stop = typeof AbortController === "function" ? new AbortController() : null;
    return new Promise(function (resolve, reject) {
      setTimeout(function () {
        reject({ qm: "timeout" });
        if (stop) stop.abort();
      }, Math.max(0, start + timeoutMs - Date.now()));
      fetch(base + "/api/check?room=" + room, {
        method: "POST",
        body: JSON.stringify(body),
        headers: { "Content-Type": "text/plain" }, // no preflight
        credentials: "include",
        cache: "no-store",
        signal: stop ? stop.signal : undefined
      }).then(function (response) {
        if (response.status === 429) return { action: "queue", reason: "rate_limited", location: waitingPage(), busy: true };
        if (!response.ok) throw { qm: "http-" + response.status };
        return response.json().then(null, function () { throw { qm: "invalid-response" }; });
      }).then(function (answer) {
        if (!isUsable(answer)) throw { qm: "invalid-response" };
        resolve(answer);
      }).then(null, reject);
    });
  }

  function act(answer, token, stored) {
    if (answer.action === "pass") {
      var isProven = answer.reason === "admitted" || answer.reason === "session";
      if (typeof answer.token === "string" && answer.token) write("qm_" + room, answer.token);
      else if (token && (isProven || !stored)) write("qm_" + room, token);
      if (isProven) arrived = "";
      if (typeof answer.doorKey === "string" && answer.doorKey) write("qm_dk_" + room, answer.doorKey);
      failedUrl = "";
      later(answer.recheckSec);
      return done("pass", answer.reason);
    }
    var hops = departures();
    if (hops.length >= 5) return failOpen("loop"); // sent in circles, so the page opens
    arrived = "";
    if (ENDED.test(answer.reason)) { erase("qm_" + room); erase("qm_dk_" + room); }
    if (tell("qm:queued", { room: room, reason: answer.reason, location: answer.location }, true)) {
      try { sessionStorage.setItem(HOPS, JSON.stringify(hops.concat([Date.now()]))); } catch (e) { }
      if (hides) { // nothing is shown while the browser leaves
        clearTimeout(hideTimer);
        setTimeout(show, 10000);
      }
      isLeaving = true;
      location.replace(answer.location);
    } else {
      later(30);
    }
    return { result: "queued", reason: answer.reason };
  }

  function failOpen(reason) {
    failedUrl = pageUrl();
    say("warn", "fail-open: " + reason);
    return done("failopen", reason);
  }

  function done(result, reason) {
    tell("qm:" + result, { room: room, reason: reason }, false);
    return { result: result, reason: reason };
  }

  function isUsable(answer) {
    if (!answer || typeof answer !== "object") return false;
    return answer.action === "pass" || (answer.action === "queue" && /^https?:\/\//.test(answer.location));
  }

  function later(seconds) {
    if (!(seconds > 0)) return;
    timer = setTimeout(function () {
      if (isVisible()) recheck();
      else timer = -1; // as soon as it is seen again
    }, seconds * 1000);
  }

  // Times at which this tab left for the waiting page within the last minute.
  function departures() {
    try {
      return JSON.parse(sessionStorage.getItem(HOPS) || "[]").filter(function (at) { return Date.now() - at < 60000; });
    } catch (e) { return []; }
  }

  // Addresses

  function takeToken() {
    var clean = split(location.href);
    if (clean.token === null) return "";
    try { history.replaceState(history.state, "", clean.url); } catch (e) { }
    return clean.token;
  }

  function isMine(token) {
    if (!token) return false;
    try {
      return JSON.parse(atob(token.split(".")[0].replace(/-/g, "+").replace(/_/g, "/"))).room === room;
    } catch (e) { return true; }
  }

  // An address without its qm_token parameters, every other character as it was.
  function split(href) {
    var hashAt = href.indexOf("#");
    var hash = hashAt < 0 ? "" : href.slice(hashAt);
    var rest = hashAt < 0 ? href : href.slice(0, hashAt);
    var queryAt = rest.indexOf("?");
    var found = null;
    if (queryAt < 0) return { url: href, token: null };
    var kept = rest.slice(queryAt + 1).split("&").filter(function (part) {
      var pair = part.split("=");
      if (decode(pair[0]) !== "qm_token") return true;
      if (found === null) found = decode(pair.slice(1).join("="));
      return false;
    });
    if (found === null) return { url: href, token: null };
    return { url: rest.slice(0, queryAt) + (kept.length ? "?" + kept.join("&") : "") + hash, token: found };
  }

  function pageUrl() {
    return split(location.href).url;
  }

  function waitingPage() {
    var url = pageUrl();
    if (url.length > 2000) url = location.origin + location.pathname;
    return base + "/w/" + room + "?qm_return=" + encodeURIComponent(url);
  }

  function decode(text) {
    try { return decodeURIComponent(text.replace(/\+/g, " ")); } catch (e) { return text; }
  }

  // Storage: localStorage, else sessionStorage, else this page view

  function read(key) {
    return eachStore(function (store) { return store.getItem(key); }) || memory[key] || "";
  }

  function write(key, value) {
    memory[key] = value;
    eachStore(function (store) { store.setItem(key, value); return true; });
  }

  function erase(key) {
    delete memory[key];
    eachStore(function (store) { store.removeItem(key); return false; });
  }

  // The first true answer of a store; a store that throws is passed over.
  function eachStore(use) {
    var names = ["localStorage", "sessionStorage"];
    for (var i = 0; i < names.length; i++) {
      try {
        var answer = use(window[names[i]]);
        if (answer) return answer;
      } catch (e) { }
    }
    return null;
  }

  // The page

  function hide() {
    try {
      sheet = new CSSStyleSheet(); // allowed under any style-src
      sheet.replaceSync("html{visibility:hidden!important}");
      document.adoptedStyleSheets = Array.prototype.slice.call(document.adoptedStyleSheets).concat([sheet]);
    } catch (e) {
      sheet = null;
      document.documentElement.style.visibility = "hidden";
    }
  }

  function show() {
    if (!hides) return;
    hides = false;
    if (!sheet) document.documentElement.style.visibility = "";
    else document.adoptedStyleSheets = Array.prototype.filter.call(document.adoptedStyleSheets, function (each) {
      return each !== sheet;
    });
  }

  function whenShown(start) {
    if (!document.prerendering) return start();
    return new Promise(function (resolve) {
      listen(document, "prerenderingchange", function () { resolve(start()); });
    });
  }

  function isVisible() {
    return document.visibilityState !== "hidden";
  }

  // False when a listener prevented the default.
  function tell(name, detail, cancelable) {
    try {
      return document.dispatchEvent(new CustomEvent(name, { detail: detail, cancelable: cancelable }));
    } catch (e) { return true; }
  }

  // Without fetch or Promise the page is shown, whoever asks.
  function cannot() {
    var answer = failOpen("unreachable");
    return { then: function (use) { use(answer); } };
  }

  function listen(target, name, handler) {
    if (target.addEventListener) target.addEventListener(name, handler);
  }

  function numberOf(name, normal, low, high) {
    var text = script.getAttribute(name);
    if (text === null) return normal;
    var value = Number(text);
    var used = value === value ? Math.min(high, Math.max(low, value)) : normal;
    if (used !== value) say("warn", name + '="' + text + '" is not usable; ' + used + " is used");
    return used;
  }

  function lastTag() {
    var all = document.querySelectorAll('script[data-room][src*="/qm.js"]');
    return all[all.length - 1];
  }

  function say(level, text) {
    if (window.console && console[level]) console[level]("[queue-manager] " + text);
  }
})();
