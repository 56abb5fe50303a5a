/** What whoever holds a monitor link sees when it opens nothing: over, or not to be checked just now (CON-024). */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { unreachable } from "./session.js";
import { alarm, halfDisc, mark } from "./icons.js";

export function LinkOver() {
  const words = unreachable.value ? html`${halfDisc()}<span>${t("link.unreachable")}</span>` : html`${alarm()}<span>${t("link.over")}</span>`;
  return html`
    <div class="signin">
      <section class="plate">
        <p class="brand">${mark()}<span>Queue Manager</span></p>
        <p class="answer" role="alert">${words}</p>
      </section>
    </div>
  `;
}
