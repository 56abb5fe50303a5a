/** Rows of Diagnostics: who is there, what is limited, what was refused (CON-168 … CON-171, OBS-042). */
import { html } from "./html.js";
import { t } from "./i18n.js";
import { number } from "./format.js";
import { moment } from "./listing.js";
import { order, roomOf } from "./store.js";
import { Machine } from "./diagnostics_cpu.js";
import { Lines, nameOf, Row } from "./diagnostics_parts.js";

const MIB = 1024 * 1024;

/** A limit; 0 is none. */
const limit = (value) => (value === 0 ? t("diag.nolimit") : number(value));

const mib = (bytes) => (bytes === null ? "–" : `${number(Math.round(bytes / MIB))} MiB`);

/** Who is there, on all instances. */
function People({ rooms }) {
  const known = rooms ?? {};
  const values = { n: number(known.count), waiting: number(known.waiting), pre: number(known.preQueue), active: number(known.active), passes: number(known.passesOutstanding) };
  return html`<${Row} name=${t("diag.rooms")} scope="fleet">${t("diag.rooms.value", values)}<//>`;
}

/** Names of the budgets as the contract has them, and where their limit stands in the report. */
const BUDGETS = { join: "joinPerMin", check: "checkPerMin", status: "statusPerMin", waiting: "waitingPerMin", docs: "waitingPerMin", notify: "notifyPerMin", verify: "verifyPerMin" };

const perMinute = (value) => (value === undefined ? "" : value === 0 ? t("diag.nolimit") : t("diag.perminute", { n: number(value) }));

function Limits({ limits }) {
  const lines = Object.entries(limits.refusedTotal).map(([name, refused]) => {
    return t("diag.limits.value", { name, most: perMinute(limits[BUDGETS[name]]), refused: number(refused), kept: number(limits.addressesKept?.[name] ?? 0) });
  });
  return html`<${Row} name=${t("diag.limits")} scope="own"><${Lines} texts=${lines} /><//>`;
}

/** Checks that show a mistake in somebody's page or settings: to be looked at regularly (OBS-037, CON-169). */
function Mistakes({ checks, counters }) {
  const unknown = checks.unknownRooms.map((one) => `${one.roomId} ${number(one.count)} · ${moment(one.lastAt)}`);
  const blocked = (order.value ?? []).map((id) => roomOf(id).value).filter((room) => room?.blockedReturnUrls > 0);
  const origins = checks.refusedOrigins.map((one) => `${nameOf(one.roomId)}: ${one.origin} ${number(one.count)} · ${moment(one.lastAt)}`);
  return html`
    <${Row} name=${t("diag.unknown")} look=${counters.unknownRoomChecks > 0} scope="fleet" note=${t("diag.unknown.note")}>${number(counters.unknownRoomChecks)}<${Lines} texts=${unknown} /><//>
    <${Row} name=${t("diag.blocked")} look=${counters.blockedReturnUrls > 0} scope="fleet" note=${t("diag.blocked.note")}>
      ${number(counters.blockedReturnUrls)}<${Lines} texts=${blocked.map((room) => `${room.name}: ${number(room.blockedReturnUrls)}`)} /><//>
    <${Row} name=${t("diag.origins")} look=${counters.refusedOriginChecks > 0} scope="fleet" note=${counters.refusedOriginChecks > 0 && t("diag.origins.note")}>${number(counters.refusedOriginChecks)}<${Lines} texts=${origins} /><//>
    <${Row} name=${t("diag.checks")} scope="fleet">${t("diag.checks.value", { keys: number(counters.refusedKeyChecks), limited: number(counters.rateLimitedChecks), url: number(counters.checksWithoutUrl) })}<//>
  `;
}

/** Refused tickets by their cause: a jump means a moved clock or another signing key. */
function Tickets({ tokens }) {
  const causes = Object.entries(tokens.rejected).filter(([, count]) => count > 0);
  const all = causes.reduce((sum, [, count]) => sum + count, 0);
  return html`<${Row} name=${t("diag.tickets")} scope="fleet" note=${all > 0 && t("diag.tickets.note")}>${number(all)}<${Lines} texts=${causes.map(([cause, count]) => `${cause} ${number(count)}`)} /><//>`;
}

/** People, streams and limits of the report. */
export function Crowd({ health }) {
  const { sse, connections } = health;
  return html`
    <${People} rooms=${health.rooms} />
    <${Row} name=${t("diag.sse")} scope="own">${t("diag.sse.value", { visitors: number(sse.visitors), admin: number(sse.admin), each: limit(sse.perIp), most: limit(sse.maxTotal), refused: number(sse.refusedTotal) })}<//>
    <${Row} name=${t("diag.connections")} scope="own">${t("diag.connections.value", { open: number(connections.open), most: limit(connections.max), reserve: number(connections.reserve) })}<//>
    <${Limits} limits=${health.limits} />
  `;
}

/** What was refused. */
export function Refused({ health }) {
  return html`<${Mistakes} checks=${health.checks} counters=${health.counters} /><${Tickets} tokens=${health.tokens} />`;
}

/** Protection, clock, memory, and who has access. */
export function Server({ health }) {
  const { protection, clock, memory, access } = health;
  const jump = clock.lastJumpAt === null ? t("form.none") : `${moment(clock.lastJumpAt)} · ${number(clock.lastJumpMs)} ms`;
  return html`
    <${Row} name=${t("diag.protection")} scope="fleet">${t("diag.protection.value", { mode: protection.mode, warned: number(protection.warned), blocked: number(protection.blocked) })}<//>
    <${Machine} health=${health} />
    <${Row} name=${t("diag.clock")} look=${clock.lastJumpAt !== null} scope="own">${jump}<//>
    <${Row} name=${t("diag.memory")} scope="own">${mib(memory.rssBytes)}${memory.limitBytes !== null && ` / ${mib(memory.limitBytes)}`}<//>
    <${Row} name=${t("access")}>${t("diag.access.value", { n: number(access.operators), links: number(access.monitorLinks), locked: number(access.lockedAddresses ?? 0) })}<//>
  `;
}
