/** Eject, in the foot of the Visitors sheet: armed for one ticket in one state (CON-108, CON-147). */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { ask } from "./api.js";
import { announce, words } from "./toasts.js";
import { alarm } from "./icons.js";
import { ArmButtons, useArm } from "./arm.js";

/** The act on `ticket` of a room, armed only for its present `state`; `after` is called when the server has answered. */
export function useEject({ roomId, ticket, state, after }) {
  const run = async () => {
    try {
      const { was } = await ask("POST", `/rooms/${encodeURIComponent(roomId)}/eject`, { ticket });
      announce(t("eject.done", { n: ticket, was }));
    } finally {
      after();
    }
  };
  const say = (refusal) => (refusal.code === "no_ticket" ? t("eject.none", { n: ticket }) : words(refusal));
  return useArm(`${ticket}/${state}`, run, say);
}

/** What will happen while it is armed, or why it was refused; then the buttons. */
export function EjectFoot({ act, ticket, ready, keep }) {
  const { phase, why } = act;
  return html`
    <footer class="panel-foot ${phase === "armed" ? "foot-armed" : ""}">
      <p role=${phase === "failed" ? "alert" : undefined}>
        ${phase === "armed" && html`<b>${t("eject.question", { n: ticket })}</b> ${t("eject.what")}`}
        ${phase === "failed" && html`<span class="text-bad">${alarm()} ${why}</span>`}
      </p>
      <${ArmButtons} act=${act} names=${[t("eject"), t("eject.confirm"), t("eject.busy")]} ready=${ready} keep=${keep} />
    </footer>
  `;
}
