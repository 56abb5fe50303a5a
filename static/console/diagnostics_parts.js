/** What the rows of Diagnostics are made of. */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { roomOf } from "./store.js";
import { alarm } from "./icons.js";

const SCOPES = { own: "diag.own", fleet: "diag.fleet" };

/** Name of a room that may be gone. */
export const nameOf = (id) => roomOf(id).value?.name ?? id;

/** One row: a mark where something needs a look, its name, its value; `note` explains, `scope` says whose figure it is, by `id` it can be jumped to. */
export function Row({ id, name, look = false, note, scope, children }) {
  return html`
    <div class="diag-row" id=${id} tabindex=${id && "-1"}>
      <dt>${look && alarm()}<span>${name}</span></dt>
      <dd>${children}${scope && html` <span class="diag-scope">${t(SCOPES[scope])}</span>`}${note && html`<p class="note">${note}</p>`}</dd>
    </div>
  `;
}

/** Texts one below the other, or `none`. */
export const Lines = ({ texts, none = null }) => (texts.length === 0 ? none : html`<ul>${texts.map((text) => html`<li>${text}</li>`)}</ul>`);
