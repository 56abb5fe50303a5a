/** A button's word that changes: its place is as wide as the widest of the words, in every language. */
import { html } from "./html.js";

/** Shows `shown`, which is one of `words`. */
export function Swap({ words, shown }) {
  return html`<span class="swap">${words.map((word) => html`<span class=${word === shown ? "" : "swap-off"} data-word=${word} aria-hidden=${word !== shown}>${word}</span>`)}</span>`;
}
