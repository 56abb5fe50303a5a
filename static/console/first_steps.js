/** The list after the first room: what is left to do; each entry is ticked off when its fact is seen (CON-233). */
import { useEffect } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { ask } from "./api.js";
import { moment } from "./listing.js";
import { docs } from "./menu.js";
import { openPanel, panels } from "./panels.js";
import { firstSteps, keepFirstSteps } from "./prefs.js";
import { may } from "./session.js";
import { order, roomOf, serverNow } from "./store.js";
import { inTurn } from "./turns.js";
import { check, cross, ring } from "./icons.js";
import { Access } from "./access.js";
import { Diagnostics } from "./diagnostics.js";
import { Install } from "./install.js";
import { lineOf } from "./room_links.js";

/** How often the server is asked for facts that frames do not tell (CON-245). */
const EVERY_MS = 30_000;

const NAMES = ["tag", "page", "key", "monitor", "hook", "diagnostics"];

/** Called where there are no rooms yet: the list will follow the first one. */
export function beginFirstSteps() {
  if (firstSteps.peek() === null) keepFirstSteps({});
}

/** Note that the fact of `name` was seen. */
function tick(name) {
  const steps = firstSteps.peek();
  if (steps && !steps[name]) keepFirstSteps({ ...steps, [name]: serverNow() });
}

const missing = (...names) => names.some((name) => !firstSteps.peek()?.[name]);

/** Whether a check from the room's own site has arrived; an inline room needs no tag. */
async function isInstalled(room) {
  if (room.mode === "inline") return true;
  const { lastCheckAt } = await ask("GET", `/rooms/${encodeURIComponent(room.id)}/install-check?${new URLSearchParams({ url: room.targetUrl })}`);
  return lastCheckAt !== null;
}

/** Look for a fact that is still missing; one that cannot be read now is looked for again later. */
async function look(find) {
  try {
    await find();
  } catch {
    /* A 401 has led to the sign-in page already; anything else shows in the strip and in Diagnostics. */
  }
}

async function lookForTag(room) {
  if (missing("tag") && (await isInstalled(room))) tick("tag");
}

async function lookForAccess() {
  if (!missing("key", "hook")) return;
  const { access, alerting } = await ask("GET", "/health");
  if (access?.operators > 0) tick("key");
  if (alerting?.configured) tick("hook");
}

/** Ask when the list appears, when a panel was closed, and now and then. */
function useFacts(room) {
  const open = panels.value;
  useEffect(() => {
    if (open.some(({ component }) => component === Diagnostics)) tick("diagnostics");
    else [() => lookForTag(room), lookForAccess].forEach(look);
  }, [open.length, room.id]);
  useEffect(() => {
    const ends = [() => lookForTag(room), lookForAccess].map((find) => inTurn(() => look(find), EVERY_MS).end);
    return () => ends.forEach((end) => end());
  }, [room.id]);
  const isJoined = order.value.some((id) => roomOf(id).value?.lastTicket > 0);
  useEffect(() => void (isJoined && tick("page")), [isJoined]);
}

/** Where an entry is done. */
function Where({ name, room }) {
  const opens = (word, act) => html`<button type="button" class="quiet" aria-label=${t("steps.go", { where: word, what: t(`steps.${name}`) })} onClick=${act}>${word}</button>`;
  if (name === "tag") return opens(t("install"), () => openPanel(Install, { roomId: room.id }));
  if (name === "page") return html`<a class="quiet" target="_blank" rel="noopener" href=${lineOf(room.id, room)} onClick=${() => tick("page")}>${t("steps.open")}</a>`;
  if (name === "key") return may("audit") && opens(t("access"), () => openPanel(Access));
  if (name === "monitor") return html`<a class="quiet" target="_blank" rel="noopener" href=${docs()}>${t("menu.docs")}</a>${opens(t("steps.done"), () => tick("monitor"))}`;
  return may("diagnostics") && opens(t("diag"), () => openPanel(Diagnostics));
}

function Step({ name, seen, room }) {
  return html`
    <li class=${seen ? "step-done" : ""}>${seen ? check() : ring()}<span>${t(`steps.${name}`)}<span class="unseen"> ${t(seen ? "steps.is.done" : "steps.is.open")}</span></span>
      ${seen ? html`<span class="step-seen">${t("steps.seen", { time: moment(seen) })}</span>` : html`<span class="step-where"><${Where} name=${name} room=${room} /></span>`}</li>
  `;
}

function List({ room, steps }) {
  useFacts(room);
  return html`
    <section class="steps" aria-labelledby="steps-title">
      <header><h2 id="steps-title">${t("steps")}</h2>
        <button type="button" class="button quiet square" aria-label=${t("steps.dismiss")} onClick=${() => keepFirstSteps({ ...steps, away: true })}>${cross()}</button></header>
      <ul>${NAMES.map((name) => html`<${Step} key=${name} name=${name} seen=${steps[name]} room=${room} />`)}</ul>
    </section>
  `;
}

/** Below the cards, until everything is ticked off or the list was dismissed. */
export function FirstSteps() {
  const steps = firstSteps.value;
  const room = roomOf(order.value[0]).value;
  if (!steps || steps.away || !room || !may("write") || NAMES.every((name) => steps[name])) return null;
  return html`<${List} room=${room} steps=${steps} />`;
}
