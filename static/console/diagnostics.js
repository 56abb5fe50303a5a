/** The Diagnostics sheet: the health report in readable form, read again every 10 s (CON-167, INL-181). */
import { useEffect } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { number, wait } from "./format.js";
import { moment, Problem, useAnswer } from "./listing.js";
import { Alerting } from "./alerting.js";
import { Crowd, Refused, Server } from "./diagnostics_counts.js";
import { Lines, nameOf, Row } from "./diagnostics_parts.js";
import { Panel } from "./dialogs.js";

const EVERY_MS = 10_000;

const STATUSES = { ok: "diag.ok", degraded: "diag.degraded", shutting_down: "diag.stopping" };

/** What is known of the hosts while Valkey was never reached (INL-194). */
const INDEXES = { postgres: "diag.index.postgres", none: "diag.index.none" };

function Status({ health }) {
  const ready = health.ready ? t("diag.ready") : `${t("diag.notready")}: ${health.reasons.map((one) => one.text).join("; ")}`;
  return html`<${Row} name=${t("diag.status")} look=${!health.ready} scope="own">${t(STATUSES[health.status])} · ${ready}<//>`;
}

/** Every warning once, with notices that raise no badge behind, and what else could be closed (CON-168). */
function Warnings({ health }) {
  const notices = health.configWarnings.map((one) => one.message).filter((text) => !health.warnings.includes(text));
  const found = [...health.warnings, ...notices];
  return html`
    <${Row} id="diag-warnings" name=${t("diag.warnings")} look=${health.warnings.length > 0}><${Lines} texts=${found} none=${t("form.none")} /><//>
    ${health.hardening.length > 0 && html`<${Row} name=${t("diag.hardening")}><${Lines} texts=${health.hardening} /><//>`}
  `;
}

/** Whose forwarding headers are believed, and who sends some though nobody declared him (CFG-115, CFG-118, CFG-123). */
function Proxy({ proxy, exempt }) {
  const known = proxy.trustProxy > 0 || proxy.trustProxyIps.length > 0;
  const hops = t("diag.proxy.hops", { n: proxy.trustProxy, at: proxy.trustProxyIps.join(", ") || "–" });
  const found = proxy.undeclaredPeers.join(", ");
  const front = (found || exempt > 0) && (found ? t("diag.proxy.front", { at: found, line: proxy.suggestion }) : t("diag.proxy.exempt"));
  return html`
    <${Row} name=${t("diag.proxy")} look=${!proxy.ok || exempt > 0} scope="own" note=${front}>${known ? hops : t("diag.proxy.none")}${proxy.incomplete && " · INCOMPLETE"}<//>
  `;
}

function Version({ health }) {
  const count = health.fleet.instances;
  const fleet = t(count === 1 ? "instances.one" : "instances", { n: count });
  return html`<${Row} name=${t("diag.version")}>${health.version} · ${t("diag.up", { n: wait(health.uptimeSec) })} · ${moment(health.startedAt)} · ${health.instance} · ${fleet}${health.fleet.partial && " · partial"}<//>`;
}

/** Files that pass by their ending, and all that was asked about: how well the rules of the gate fit this site. */
function InlineRooms({ inline }) {
  const all = inline.gatedTotal + inline.bypassedTotal;
  const share = all ? Math.round((1000 * inline.gatedTotal) / all) / 10 : 0;
  const text = t("diag.inline.value", { gated: number(inline.gatedTotal), bypassed: number(inline.bypassedTotal), share });
  const hosts = inline.hosts.join(", ");
  return html`
    <${Row} name=${t("diag.inline")} look=${inline.indexFrom in INDEXES} scope="fleet" note=${t(INDEXES[inline.indexFrom] ?? "diag.inline.note")}>${text}${hosts && html`<p class="mono">${hosts}</p>`}<//>
  `;
}

/** What visitors met at the sites; who hung up himself is no error of a site (INL-177). */
function OriginErrors({ inline }) {
  const byRoom = Object.entries(inline.originErrors).map(([id, classes]) => {
    const met = Object.entries(classes).filter(([, count]) => count > 0);
    return `${nameOf(id)}: ${met.map(([kind, count]) => `${kind} ${number(count)}`).join(", ")}`;
  });
  return html`
    <${Row} name=${t("diag.origin")} look=${inline.originErrorsTotal > 0} scope="fleet" note=${inline.originErrorsTotal > 0 && t("diag.origin.note")}>
      ${number(inline.originErrorsTotal)}<${Lines} texts=${byRoom} none="" />
      <p>${t("diag.aborts", { n: number(inline.clientAbortsTotal) })}</p><//>
  `;
}

function Rows({ health }) {
  const { storage, backend, inline } = health;
  const incidents = health.incidents.map((one) => one.text);
  return html`
    <dl class="diag">
      <${Status} health=${health} />
      <${Row} name=${t("diag.incidents")} look=${incidents.length > 0}><${Lines} texts=${incidents} none=${t("form.none")} /><//>
      <${Warnings} health=${health} />
      <${Version} health=${health} />
      <${Crowd} health=${health} />
      <${Row} name=${t("diag.storage")} look=${!storage.ok}>${t(storage.ok ? "diag.good" : "diag.bad")}${storage.lastError && ` · ${storage.lastError}`}<//>
      <${Row} name="Valkey" look=${backend.valkey !== "up"}>${backend.valkey}<//>
      <${Proxy} proxy=${health.proxy} exempt=${health.waitingPage.exemptAddresses} />
      <${Refused} health=${health} />
      ${inline && html`<${InlineRooms} inline=${inline} /><${OriginErrors} inline=${inline} />`}
      <${Server} health=${health} />
    </dl>
  `;
}

/** `at` is the id of a row to begin with. */
export function Diagnostics({ panelId, at }) {
  const { answer, problem, load } = useAnswer("/health");
  useEffect(() => void (at && answer && document.getElementById(at).focus()), [at, answer === null]);
  useEffect(() => {
    const timer = setInterval(load, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return html`
    <${Panel} panelId=${panelId} kind="sheet sheet-full" title=${t("diag")}>
      ${() => html`<div class="panel-body"><${Problem} text=${problem} again=${load} />${answer && html`<${Rows} health=${answer} />`}<${Alerting} /></div>`}
    <//>
  `;
}
