/** A figure or badge with an explanation, shown on hover and on focus, and read out (CON-227). */
import { useId, useState } from "preact/hooks";
import { html } from "./html.js";

/** `tip` is the explanation; `spoken` replaces signs such as ∞ in speech. Escape puts the explanation away. */
export function Tip({ tip, spoken, class: name = "", onClick, children }) {
  const id = useId();
  const [away, setAway] = useState(false);
  const onKeyDown = (event) => event.key === "Escape" && setAway(true);
  return html`
    <span class="tip-host ${away ? "tip-away" : ""}" onPointerEnter=${() => setAway(false)} onFocusOut=${() => setAway(false)}>
      <button type="button" class="explained ${name}" aria-label=${spoken} aria-describedby=${id} onClick=${onClick} onKeyDown=${onKeyDown}>${children}</button>
      <span class="tip" role="tooltip" id=${id}>${tip}</span>
    </span>
  `;
}
