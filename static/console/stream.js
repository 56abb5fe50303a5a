/** The event stream: a fresh one-use ticket for every connection, frames in order, reopened after every break. */
import { ask, eventsAddress } from "./api.js";
import { applyFrame, markOld, serverNow } from "./store.js";

const FIRST_MS = 1000;
const LONGEST_MS = 20_000;

/** Figures without a frame for this long are old (CON-050); a stream silent for twice that is given up. */
const OLD_MS = 6000;

let source = null;
let timer = null;
let watch = null;
let delay = FIRST_MS;
let lastFrame = 0;
let opened = 0;
let lastTime = null;
let onEnd = () => {};

/** Open the stream; `whenRevoked` is called when the server ended this credential (CON-020). */
export function startStream(whenRevoked) {
  stopStream();
  onEnd = whenRevoked;
  delay = FIRST_MS;
  lastFrame = performance.now();
  watch = setInterval(lookAtAge, 1000);
  open();
}

/** Close the stream and stop trying. */
export function stopStream() {
  clearInterval(watch);
  clearTimeout(timer);
  source?.close();
  watch = source = null;
  lastTime = null;
}

async function open() {
  const mine = watch;
  try {
    const { ticket } = await ask("POST", "/sse-ticket");
    if (mine === watch && watch !== null) listen(new EventSource(eventsAddress(ticket)));
  } catch (refusal) {
    if (mine === watch && watch !== null && refusal.status !== 401) again(delay);
  }
}

function listen(stream) {
  source = stream;
  opened = performance.now();
  let started = false;
  stream.addEventListener("stats", (event) => {
    const frame = JSON.parse(event.data);
    lastFrame = performance.now();
    lastTime = frame.ts;
    started = applyFrame(frame, started);
    delay = FIRST_MS;
    if (!started) again(0);
  });
  stream.addEventListener("revoked", () => onEnd());
  stream.addEventListener("error", () => source === stream && again(delay));
}

/** Close and come back after `ms` and up to half as much again, so that a fleet of consoles does not come at once. */
function again(ms) {
  source?.close();
  source = null;
  clearTimeout(timer);
  timer = setTimeout(open, ms * (1 + crypto.getRandomValues(new Uint8Array(1))[0] / 512));
  delay = Math.min(LONGEST_MS, Math.max(FIRST_MS, ms) * 2);
}

function lookAtAge() {
  const age = performance.now() - lastFrame;
  if (age > OLD_MS) markOld(lastTime ?? serverNow());
  if (source && Math.min(age, performance.now() - opened) > 2 * OLD_MS) again(0);
}
