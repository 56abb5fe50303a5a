// What a Worker meets at Cloudflare, in one process: the edge that gives it requests, the site behind it, and a queue
// that answers what a test wants. argv: path of the Worker. Prints its three ports as JSON.
//
// A request to the edge may carry: x-test-env (JSON: the Worker's settings), x-test-ip, x-test-isolate (a name: the Worker
// is loaded anew for each), x-test-scheme. `POST /control` of the queue: {answer} to be given to checks, {take: true} for
// what was seen since.
import http from "node:http";
import { once } from "node:events";
import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

const path = pathToFileURL(process.argv[2]).href;
const seen = { site: [], checks: [], points: [], log: [] };
let answer = { status: 200, body: { action: "pass", reason: "bypass" } };

console.warn = console.error = (...words) => seen.log.push(words.join(" "));
const outside = globalThis.fetch;
globalThis.fetch = async (resource, init) => {
  const request = new Request(resource, init);
  const url = new URL(request.url);
  if (url.hostname === "shop.example") return toSite(request, url);
  if (url.hostname === "fuzz.test") return fuzzed(request, init);
  return outside(resource, init);
};

async function listening(serve) {
  const server = http.createServer(serve);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

async function text(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts).toString();
}

// The site

const site = await listening(async (request, reply) => {
  if (request.url === "/stream") {
    await once(request, "readable");
    seen.site.push({ method: request.method, url: request.url, headers: request.headers, body: "begun" });
  }
  const body = await text(request);
  seen.site.push({ method: request.method, url: request.url, headers: request.headers, body });
  if (request.headers["upgrade"]) return reply.writeHead(426).end();
  if (request.url === "/moved") return reply.writeHead(302, { location: "/elsewhere" }).end();
  if (request.url === "/same") return reply.writeHead(304, { etag: '"x"' }).end();
  reply.writeHead(request.url === "/missing" ? 404 : 200, [
    ["Content-Type", "text/html"], ["X-Site", "yes"], ["Set-Cookie", "a=1"], ["Set-Cookie", "b=2"],
  ].flat());
  reply.end("the site");
});

async function toSite(request, url) {
  if (isFuzzing) { reached += 1; return new Response("the site"); }
  const asked = http.request({
    port: site.address().port, method: request.method, path: url.pathname + url.search,
    headers: Object.fromEntries(request.headers),
  });
  if (request.body) Readable.fromWeb(request.body).pipe(asked); else asked.end();
  const [got] = await once(asked, "response");
  const headers = new Headers();
  for (let i = 0; i < got.rawHeaders.length; i += 2) headers.append(got.rawHeaders[i], got.rawHeaders[i + 1]);
  const none = [204, 304].includes(got.statusCode);
  if (none) got.resume();
  return new Response(none ? null : Readable.toWeb(got), { status: got.statusCode, headers });
}

// The queue

const queue = await listening(async (request, reply) => {
  if (request.url === "/control") {
    const wanted = JSON.parse(await text(request));
    if (wanted.answer) answer = wanted.answer;
    if (wanted.fuzz) return reply.end(JSON.stringify(await fuzz(wanted.fuzz)));
    reply.end(JSON.stringify(seen));
    if (wanted.take) for (const list of Object.values(seen)) list.length = 0;
    return;
  }
  seen.checks.push({ method: request.method, url: request.url, headers: request.headers });
  const { status, body, headers, silent, trickle, hangUp } = answer;
  if (silent) return;
  if (hangUp) return request.socket.destroy();
  reply.writeHead(status, { "content-type": "application/json", ...headers });
  const content = typeof body === "string" ? body : JSON.stringify(body);
  if (!trickle) return reply.end(content);
  reply.write(content.slice(0, 3));
  const timer = setInterval(() => reply.write(" "), 50);
  reply.on("close", () => clearInterval(timer));
});

// The edge

const edge = await listening(async (request, reply) => {
  const headers = new Headers();
  for (let i = 0; i < request.rawHeaders.length; i += 2) {
    const name = request.rawHeaders[i].toLowerCase();
    if (!name.startsWith("x-test-") && !["host", "connection", "content-length"].includes(name)) {
      headers.append(name, request.rawHeaders[i + 1]);
    }
  }
  headers.set("cf-connecting-ip", request.headers["x-test-ip"] || "203.0.113.9");
  const worker = await import(path + "?" + (request.headers["x-test-isolate"] || ""));
  const env = JSON.parse(request.headers["x-test-env"] || "{}");
  if (env.QM_ANALYTICS) env.QM_ANALYTICS = dataset(env.QM_ANALYTICS);
  const hasBody = !["GET", "HEAD"].includes(request.method);
  const given = new Request((request.headers["x-test-scheme"] || "https") + "://shop.example" + request.url, {
    method: request.method, headers, redirect: "manual", ...(hasBody ? { body: Readable.toWeb(request), duplex: "half" } : {}),
  });
  const made = await worker.default.fetch(given, env, {});
  const lines = [...made.headers].filter(([name]) => name !== "transfer-encoding").flat();
  reply.writeHead(made.status, lines);
  if (made.body) Readable.fromWeb(made.body).pipe(reply); else reply.end();
});

function dataset(kind) {
  return { writeDataPoint(point) {
    if (kind === "broken") throw new Error("quota");
    seen.points.push(point);
  } };
}

// Strangers who try everything

let isFuzzing = false, reached = 0, largest = 0, refused = {}, target = "";

// A queue that never lets anybody in, and refuses what does not fit it as the real one does.
async function fuzzed(request, init) {
  const url = new URL(request.url);
  let size = url.pathname.length + url.search.length;
  for (const [name, value] of request.headers) size += name.length + value.length + 4;
  largest = Math.max(largest, size);
  if (target) return outside(target + url.pathname + url.search, init);
  const fits = size < 12000 && url.searchParams.has("agent") && url.searchParams.get("ip");
  if (!fits) refused[400] = (refused[400] || 0) + 1;
  const body = { action: "queue", reason: "new", location: "https://queue.example/w/shop" };
  return new Response(JSON.stringify(body), { status: fits ? 200 : 400 });
}

async function fuzz({ count, url, key }) {
  [isFuzzing, reached, largest, refused, target] = [true, 0, 0, {}, url || ""];
  const worker = await import(path + "?fuzz");
  const env = { QM_URL: "http://fuzz.test", QM_ROOM: "shop", QM_API_KEY: key || "k".repeat(40), QM_TIMEOUT_MS: "10000" };
  const statuses = {};
  const pick = (list) => list[Math.floor(Math.random() * list.length)];
  const made_of = new Map(); // a few of each kind: making them takes longer than all the rest
  const long = (size, set) => {
    const key = size + set[0];
    const few = made_of.get(key) || made_of.set(key, Array.from({ length: 40 }, () =>
      Array.from({ length: size }, () => pick(set)).join(""))).get(key);
    return pick(few);
  };
  const junk = [..."az09%&=?;/\\+ ~<>\"'`{}|^", "%zz", "%ff%fe", "%00", "é", "\u20ac", "\ud83d\ude00", "qm_token="];
  const latin = Array.from({ length: 224 }, (_, n) => String.fromCharCode(n + 32)).filter((c) => c !== "\x7f");
  for (let n = 0; n < count; n += 1) {
    const headers = new Headers({ "cf-connecting-ip": pick(["203.0.113.9", "2001:db8::1"]) });
    if (n % 5) headers.set("user-agent", long(pick([1, 20, 600, 5000]), latin));
    const cookies = Array.from({ length: pick([0, 1, 3, 200]) }, (_, i) => pick([
      "qm_shop=%", "qm_shop=" + long(30, latin), "qm_dk_shop=" + long(200, latin), "qm_shop", "=", "a" + i + "=b", "qm_shop=a.b",
      "qm_shop=" + "x".repeat(i ? 20 : 3000),
    ]));
    if (cookies.length) headers.set("cookie", cookies.join("; "));
    if (n % 3) headers.set("accept", pick(["text/html", "*/*", long(50, latin)]));
    if (n % 4 === 0) headers.set("sec-fetch-dest", pick(["document", "empty", long(9, latin)]));
    if (n % 50 === 0) headers.set("upgrade", "websocket");
    const place = n % 100 ? long(pick([1, 10, 300]), junk) : "?q=" + "é".repeat(30000);
    const request = new Request("https://shop.example/" + place, { method: pick(["GET", "POST", "HEAD"]), headers });
    const made = await worker.default.fetch(request, env, {});
    const mark = made.status + (made.headers.get("x-qm-failover") ? " " + made.headers.get("x-qm-failover") : "");
    statuses[mark] = (statuses[mark] || 0) + 1;
  }
  isFuzzing = false;
  return { reached, largest, refused, statuses };
}

console.log(JSON.stringify([edge, site, queue].map((server) => server.address().port)));
process.stdin.resume().on("end", () => process.exit(0)); // ends with the test that started it
