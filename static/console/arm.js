/** Arm, then confirm, on the spot: for acts on one person or link, whose button asks in its own place (CON-108, CON-109, CON-112). */
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { onePressPerKey } from "./keyboard.js";
import { words } from "./toasts.js";

/** How long a button stays armed. */
const ARMED_SEC = 30;

/** A second press sooner than this is the same press (double click, bouncing key). */
const GUARD_MS = 400;

const IDLE = { phase: "idle", key: "" };

/** Seconds until an armed button disarms itself, then `disarm`. */
function useDisarm(act, disarm) {
  const [left, setLeft] = useState(ARMED_SEC);
  useEffect(() => {
    if (act.phase !== "armed") return undefined;
    setLeft(ARMED_SEC);
    const timer = setInterval(() => setLeft(ARMED_SEC - Math.floor((performance.now() - act.at) / 1000)), 250);
    return () => clearInterval(timer);
  }, [act]);
  useEffect(() => {
    if (left <= 0) disarm();
  }, [left]);
  return left;
}

/**
 * An act that is armed for `key` alone: whom it is done to, and in which state he is. `run` does it and rejects with a
 * refusal. `{phase, left, press, keep, why}`; phases are `idle`, `armed`, `busy`, `failed`.
 */
export function useArm(key, run, say = words) {
  const [act, setAct] = useState(IDLE);
  const keep = () => setAct((now) => (now.phase === "armed" ? IDLE : now));
  const left = useDisarm(act, keep);
  const phase = act.key === key || act.phase === "busy" ? act.phase : "idle";
  /* It may run only after the next press, which then armed for this very key. */
  useEffect(() => setAct((now) => (now.phase === "busy" || now.key === key ? now : IDLE)), [key]);
  const start = async () => {
    setAct({ phase: "busy", key });
    try {
      await run();
      setAct(IDLE);
    } catch (refusal) {
      setAct({ phase: "failed", key, why: say(refusal) });
    }
  };
  /* By the times of the presses: on a slow computer both may wait, and be told of far apart. */
  const press = ({ timeStamp }) => {
    if (phase === "busy") return;
    if (phase !== "armed") setAct({ phase: "armed", key, at: timeStamp });
    else if (timeStamp - act.at >= GUARD_MS) start();
  };
  return { phase, left, press, keep, why: act.why };
}

/** The two buttons and the seconds left, the same elements in the same places through all phases. `names` are the words of the button at rest, armed and busy. */
export function ArmButtons({ act, names, ready = true, label, keep = act.keep }) {
  const [armed, busy] = [act.phase === "armed", act.phase === "busy"];
  const [rest, confirm, doing] = names;
  return html`
    <div class="foot-acts">
      <button type="button" class="button ${armed ? "" : "absent"}" onClick=${keep}>${t("keep")}</button>
      <span class="foot-act">
        <button type="button" class=${armed ? "fill-bad arm" : "button arm"} data-armed=${armed ? "" : undefined} aria-label=${label && !armed ? label : undefined} disabled=${busy || !ready} aria-busy=${busy} onKeyDown=${onePressPerKey} onClick=${act.press}>${busy ? doing : armed ? confirm : rest}</button>
        <span class="foot-left" aria-hidden="true">${armed ? t("eject.disarms", { n: act.left }) : ""}</span>
      </span>
    </div>
  `;
}
