/** Who is signed in, and what that credential may do. Rights come from the server's answer alone (CON-016). */
import { batch, signal } from "@preact/signals";
import { ask, countSignIn, whenUnauthorized } from "./api.js";
import { panels } from "./panels.js";
import { forgetRooms } from "./store.js";
import { forgetStepUp } from "./step_up.js";
import { startStream, stopStream } from "./stream.js";

/** How often the page asks again while the server cannot check credentials (CON-013). */
const AGAIN_MS = 5000;

/** `undefined` until the server answered, `null` signed out, else the answer of GET /api/admin/me. */
export const me = signal(undefined);

/** True while the server cannot check credentials. */
export const unreachable = signal(false);

/** Whether the present credential may do `act` (`write`, `deleteRoom`, …). */
export const may = (act) => me.value?.can?.[act] === true;

const identity = (person) => (person ? `${person.kind}:${person.operatorId ?? person.name}` : "");

/** Who had the open forms; another person does not inherit them (CON-021). */
let formsOf = "";

function enter(person) {
  countSignIn();
  batch(() => {
    if (identity(person) !== formsOf) panels.value = [];
    formsOf = identity(person);
    unreachable.value = false;
    me.value = person;
  });
  startStream(leave);
}

/** Show the sign-in page; what was typed in open forms is kept. */
function leave() {
  stopStream();
  forgetStepUp();
  batch(() => {
    forgetRooms();
    me.value = null;
  });
}

/** Find out whether this browser has a session; asks again by itself while nobody can tell. */
export async function resume() {
  whenUnauthorized(leave);
  try {
    enter(await ask("GET", "/me"));
  } catch (refusal) {
    if (refusal.status === 401 || me.peek()) return; // or somebody has signed in meanwhile
    batch(() => {
      unreachable.value = true;
      me.value ??= null;
    });
    setTimeout(() => me.peek() || resume(), AGAIN_MS);
  }
}

/** Sign in with `key`, which is sent once and kept nowhere; rejects with the server's refusal. */
export async function signIn(key) {
  await ask("POST", "/session", { key });
  enter(await ask("GET", "/me"));
}

/** End the session on the server, then show the sign-in page. */
export async function signOut() {
  await ask("DELETE", "/session");
  panels.value = [];
  formsOf = "";
  leave();
}
