/** Diagnostics → Alerting: what is firing, whom the server tells, what came of it, and a test (CON-172 … CON-175). */
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { ask } from "./api.js";
import { number, wait } from "./format.js";
import { moment, Problem, useAnswer } from "./listing.js";
import { may } from "./session.js";
import { announce, words } from "./toasts.js";
import { Lines, Row } from "./diagnostics_parts.js";

const EVERY_MS = 10_000;

/** `queue_frozen firing · HTTP 200 · 131 ms`, or the error in place of the status. */
const outcome = (one) => `${one.httpStatus === null ? "" : `HTTP ${one.httpStatus}`}${one.httpStatus !== null && one.error ? " · " : ""}${one.error ?? ""} · ${number(one.ms)} ms`;

/** Why no test can be sent, or "" (OBS-159). */
function hindrance(configured) {
  if (!configured) return t("alerting.test.nowhere");
  return may("write") ? "" : t("alerting.test.readonly");
}

/** The button is always there; the result of a test stands below it at once. */
function Test({ configured, load }) {
  const [result, setResult] = useState("");
  const [busy, setBusy] = useState(false);
  const why = hindrance(configured);
  const send = async () => {
    setBusy(true);
    try {
      const { ok, delivery } = await ask("POST", "/alerts", {});
      setResult(`${t(ok ? "alerting.test.sent" : "alerting.test.failed")}: ${outcome(delivery)}`);
    } catch (refusal) {
      setResult(`${t("alerting.test.failed")}: ${words(refusal)}`);
    }
    setBusy(false);
    load();
  };
  useEffect(() => void (result && announce(result)), [result]);
  return html`
    <p class="diag-test"><button type="button" class="button" disabled=${why !== "" || busy} aria-describedby="alert-test-note" onClick=${send}>${t("alerting.test")}</button></p>
    <p class="note" id="alert-test-note">${why || result}</p>
  `;
}

/** Rows of the section; read again every 10 s. */
export function Alerting() {
  const { answer, problem, load } = useAnswer("/alerts");
  useEffect(() => {
    const timer = setInterval(load, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  if (!answer) return html`<${Problem} text=${problem} again=${load} />`;
  const firing = answer.firing.map((one) => `${one.message} · ${t("alerting.since", { time: moment(one.since) })}`);
  const sent = answer.deliveries.map((one) => `${moment(one.ts)} · ${one.event} ${one.status} · ${outcome(one)}`);
  const pace = { every: wait(answer.everyMs / 1000), hold: wait(answer.holdSec), repeat: wait(answer.repeatSec) };
  return html`
    <h3>${t("alerting")}</h3>
    <${Problem} text=${problem} again=${load} />
    <dl class="diag">
      <${Row} name=${t("alerting.firing")} look=${firing.length > 0} scope="fleet" note=${!answer.configured && t("alerting.nobody")}><${Lines} texts=${firing} none=${t("form.none")} /><//>
      <${Row} name=${t("alerting.told")}>${answer.webhookHost ?? "–"}<p class="note">${t("alerting.pace", pace)}</p><//>
      <${Row} name=${t("alerting.sent")} scope="own"><${Lines} texts=${sent} none=${t("form.none")} /><//>
    </dl>
    <${Test} configured=${answer.configured} load=${load} />
    <p class="note">${t("alerting.outside")}</p>
  `;
}
