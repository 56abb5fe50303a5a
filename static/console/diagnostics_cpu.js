/** Rows of Diagnostics: the CPU, the spare capacity, and the knocks at sites (BUD-099). */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { number } from "./format.js";
import { Row } from "./diagnostics_parts.js";

/** A part of one as a percentage. */
const percent = (part) => `${number(Math.round(part * 1000) / 10)} %`;

const shown = (value) => (value === null ? "–" : number(value));

/** Figures of the CPU in their order: member of the report, its words, how it is written. */
const FIGURES = [
  ["usable", "diag.cpu.usable", number],
  ["self", "diag.cpu.self", percent],
  ["host", "diag.cpu.host", percent],
  ["steal", "diag.cpu.steal", percent],
  ["throttled", "diag.cpu.throttled", percent],
  ["pressure", "diag.cpu.pressure", percent],
  ["loopLagP99Ms", "diag.cpu.lag", number],
];

/** True while an incident of this code is there. */
const has = (health, code) => health.incidents.some((one) => one.code === code);

/** What cannot be read is left out: it is no zero. */
function Cpu({ cpu }) {
  const known = FIGURES.filter(([name]) => cpu[name] !== null);
  const text = known.map(([name, words, write]) => t(words, { n: write(cpu[name]) })).join(" · ");
  return html`<${Row} name=${t("diag.cpu")} look=${cpu.contention} scope="own" note=${cpu.contention && t("diag.cpu.note", { who: cpu.who ?? "–" })}>${text || "–"}<//>`;
}

function Capacity({ health }) {
  const { capacity } = health;
  const instances = t("diag.capacity.instances", { n: shown(capacity.instances), most: number(capacity.instancesDeclared) });
  const declared = { n: shown(capacity.cpusUsable), most: shown(capacity.cpusDeclared) };
  const cpus = t(capacity.cpusDeclared === null ? "diag.capacity.free" : "diag.capacity.cpus", declared);
  const look = has(health, "fleet_below_min") || has(health, "cpus_below_min");
  return html`<${Row} name=${t("diag.capacity")} look=${look} note=${capacity.reason && t("diag.capacity.reason", { text: capacity.reason })}>${instances} · ${cpus}<//>`;
}

/** The leader alone knocks: how many sites there are, and of how many it knows nothing now. */
const Knocks = ({ mesh }) => html`<${Row} name=${t("diag.knocks")} scope="fleet">${t("diag.knocks.value", { n: number(mesh.targets), none: number(mesh.noData) })}<//>`;

/** What this deployment runs on. An instance of the release before tells nothing of it. */
export function Machine({ health }) {
  return html`
    ${health.mesh && html`<${Knocks} mesh=${health.mesh} />`}
    ${health.cpu && html`<${Cpu} cpu=${health.cpu} />`}
    ${health.capacity && html`<${Capacity} health=${health} />`}
  `;
}
