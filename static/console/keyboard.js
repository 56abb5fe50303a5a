/** Moving through the page without a pointer: skip links, focus traps, menus, keys held down. */

/** Put the focus on the list of rooms. */
export function focusRooms(event) {
  event?.preventDefault();
  document.getElementById("rooms")?.focus();
}

/** Id of a room's card heading, which takes the focus when the card is jumped to. */
export const headingId = (roomId) => `room-${roomId}`;

/** Put the focus on a room's card. */
export const focusRoom = (roomId) => document.getElementById(headingId(roomId))?.focus();

/** From the card of the link to the next one in the live order, from the last one to the chart (CON-211). */
export function skipPast(event) {
  event.preventDefault();
  const next = event.currentTarget.closest("article").nextElementSibling;
  (next?.querySelector("h2") ?? document.getElementById("chart-title") ?? document.getElementById("rooms-end"))?.focus();
}

const STOPS = "a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), textarea:not(:disabled), summary, [tabindex='0']";

const visible = (element) => element.getClientRects().length > 0 && !element.closest("[inert]");

/** Keep Tab inside `root` (CON-216); the page behind is inert by the dialog itself. */
export function trapTab(event, root) {
  if (event.key !== "Tab") return;
  const stops = [...root.querySelectorAll(STOPS)].filter(visible);
  const edge = event.shiftKey ? stops[0] : stops.at(-1);
  if (stops.length === 0 || document.activeElement !== edge) return;
  event.preventDefault();
  (event.shiftKey ? stops.at(-1) : stops[0]).focus();
}

/** Move through a menu's entries: arrows wrap, Home and End jump (CON-213). Returns true when the key was one of them. */
export function moveInMenu(event, menu) {
  const entries = [...menu.querySelectorAll("[role='menuitem']")];
  const place = entries.indexOf(document.activeElement);
  const targets = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: -1 };
  if (!(event.key in targets)) return false;
  event.preventDefault();
  entries.at(targets[event.key] % entries.length).focus();
  return true;
}

/** For a button's keydown: a key held down does not press again (CON-113). */
export function onePressPerKey(event) {
  if (event.repeat && (event.key === "Enter" || event.key === " ")) event.preventDefault();
}

/** True while something is being typed, dragged or chosen, so that nothing may move (CON-046). */
export function isInUse() {
  const focused = document.activeElement;
  const inControl = focused?.matches("input, textarea, select, [role='menuitem'], [data-armed]");
  return Boolean(inControl) || document.querySelector("dialog[open]") !== null || String(getSelection()) !== "";
}
