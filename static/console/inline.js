/** Inline rooms as the form, the dialogs and the card speak of them. */
import { order, roomOf } from "./store.js";

/** Name of the host that an address names, without its port; empty if it is none. */
function hostName(address) {
  try {
    return new URL(address).hostname;
  } catch {
    return "";
  }
}

const isInline = (room) => Boolean(room?.proxyOrigin);

/** The host that loses its last inline room if `room` becomes `{targetUrl, proxyOrigin}`; empty if none does. */
export function hostLeft(room, targetUrl = "", proxyOrigin = null) {
  const host = isInline(room) ? hostName(room.targetUrl) : "";
  if (!host || (proxyOrigin && hostName(targetUrl) === host)) return "";
  const others = (order.peek() ?? []).filter((id) => id !== room.id).map((id) => roomOf(id).peek());
  return others.some((other) => isInline(other) && hostName(other.targetUrl) === host) ? "" : host;
}

/** Whether this very page is open on `host`. */
export const isHere = (host) => host !== "" && host === location.hostname;

/** Where the console is after a change took the host of this page away: go there, and say that one has gone (CON-185). */
export function moveOn(warnings = []) {
  const left = warnings.find(({ code }) => code === "inline_host_left");
  if (left?.console) location.assign(left.console);
  return Boolean(left?.console);
}

/** Whether visitors of an inline room get error pages in the place of its site just now. */
export const isFailing = (room) => room.mode === "inline" && room.site?.status === "failing";
