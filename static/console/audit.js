/** The audit trail in the Access sheet: who did what, newest first, by room, person, action and time (CON-207, CON-208). */
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { ask, saveFile } from "./api.js";
import { timeOfDay } from "./format.js";
import { moment, Problem } from "./listing.js";
import { order, roomOf } from "./store.js";
import { words } from "./toasts.js";
import { cross } from "./icons.js";

const PIECE = 50;

const HOUR_MS = 3_600_000;
const SPANS = { "": 0, hour: HOUR_MS, day: 24 * HOUR_MS, week: 168 * HOUR_MS };

/** Actions of this release (ADM-250). */
const ACTIONS = [
  "room.create", "room.update", "room.inline", "room.state", "room.rate", "room.schedule", "room.flush", "room.purge", "room.delete", "visitor.eject",
  "operator.create", "operator.update", "operator.revoke", "operator.purge", "monitor_token.mint", "monitor_token.reveal", "monitor_token.revoke",
  "monitor_token.revoke_all", "session.create", "session.delete", "auth.lockout", "alerts.test", "server.start", "server.stop", "server.shutdown",
  "threshold.open", "threshold.close", "autotune.rate", "room.draw",
];

/** Names and values of the query; a span is counted back from now, by the server's own times. */
function asked({ roomId, actor, action, span }) {
  const wanted = { roomId, actor, action, from: span && String(Date.now() - SPANS[span]) };
  return new URLSearchParams(Object.entries(wanted).filter(([, value]) => value));
}

/** Entries of a filter, a piece at a time. An answer to an earlier filter is dropped. */
function useTrail(filter) {
  const [found, setFound] = useState({ entries: null, next: null, problem: "" });
  const latest = useRef(null);
  const read = async (before) => {
    const query = asked(filter);
    query.set("limit", PIECE);
    if (before) query.set("before", before);
    latest.current = query;
    try {
      const { entries, next } = await ask("GET", `/audit?${query}`);
      if (latest.current === query) setFound((known) => ({ entries: before ? [...known.entries, ...entries] : entries, next, problem: "" }));
    } catch (refusal) {
      if (latest.current === query) setFound((known) => ({ ...known, problem: words(refusal) }));
    }
  };
  useEffect(() => void read(null), [filter]);
  return { ...found, again: () => read(null), older: () => read(found.next) };
}

const today = (ms) => new Date(ms).toDateString() === new Date().toDateString();

function Entry({ entry }) {
  return html`
    <tr>
      <td class="mono"><time datetime=${new Date(entry.ts).toISOString()}>${today(entry.ts) ? timeOfDay(entry.ts) : moment(entry.ts)}</time></td>
      <td class=${entry.actorKind === "system" ? "trail-system" : "trail-who"}>${entry.actor}</td>
      <td class="mono">${entry.action}</td>
      <td class="mono">${entry.roomId ?? "–"}</td>
      <td>${!entry.ok && html`<span class="tag-bad">${cross()}${t("audit.refused")}</span> `}${entry.detail}</td>
    </tr>
  `;
}

function Choice({ label, value, onChange, options }) {
  return html`
    <select value=${value} aria-label=${label} onChange=${(event) => onChange(event.currentTarget.value)}>
      ${options.map(([key, text]) => html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`)}
    </select>
  `;
}

/** The trail as a file. A refusal, such as that others' exports come first, is told beside it. */
function SaveTrail({ filter }) {
  const [saving, setSaving] = useState({ busy: false, problem: "" });
  const save = async () => {
    const query = asked(filter);
    query.set("format", "csv");
    setSaving({ busy: true, problem: "" });
    try {
      await saveFile(`/audit?${query}`, "qm-audit.csv");
      setSaving({ busy: false, problem: "" });
    } catch (refusal) {
      setSaving({ busy: false, problem: words(refusal) });
    }
  };
  return html`
    <button type="button" class="button quiet" disabled=${saving.busy} aria-busy=${saving.busy} onClick=${save}>${t("audit.csv")}</button>
    <${Problem} text=${saving.problem} again=${save} />
  `;
}

/** `people`: the operators of the list above, by whom the trail can be asked. */
export function AuditTrail({ people }) {
  const [filter, setFilter] = useState({ roomId: "", actor: "", action: "", span: "" });
  const { entries, next, problem, again, older } = useTrail(filter);
  const choose = (name) => (value) => setFilter({ ...filter, [name]: value });
  const rooms = (order.value ?? []).map((id) => [id, roomOf(id).value?.name ?? id]);
  const persons = people.map((person) => [person.id, person.name]);
  return html`
    <section class="trail" aria-labelledby="trail-title">
      <div class="trail-head">
        <h3 id="trail-title">${t("audit")}</h3>
        <${Choice} label=${t("audit.room")} value=${filter.roomId} onChange=${choose("roomId")} options=${[["", t("totals")], ...rooms]} />
        <${Choice} label=${t("audit.who")} value=${filter.actor} onChange=${choose("actor")} options=${[["", t("audit.anyone")], ...persons, ["ADMIN_KEY", "ADMIN_KEY"], ["system", "system"]]} />
        <${Choice} label=${t("audit.action")} value=${filter.action} onChange=${choose("action")} options=${[["", t("audit.anything")], ...ACTIONS.map((action) => [action, action])]} />
        <${Choice} label=${t("audit.time")} value=${filter.span} onChange=${choose("span")} options=${[["", t("audit.ever")], ["hour", t("audit.hour")], ["day", t("audit.day")], ["week", t("audit.week")]]} />
        <${SaveTrail} filter=${filter} />
      </div>
      <${Problem} text=${problem} again=${again} />
      ${entries?.length === 0 && html`<p class="entries-none">${t("audit.none")}</p>`}
      ${entries?.length > 0 && html`
        <div class="trail-frame" tabindex="0" role="group" aria-labelledby="trail-title">
          <table>
            <thead><tr><th scope="col">${t("audit.when")}</th><th scope="col">${t("audit.who")}</th><th scope="col">${t("audit.action")}</th><th scope="col">${t("audit.room")}</th><th scope="col">${t("audit.detail")}</th></tr></thead>
            <tbody>${entries.map((entry) => html`<${Entry} key=${entry.id} entry=${entry} />`)}</tbody>
          </table>
        </div>
      `}
      ${next && html`<button type="button" class="button" onClick=${older}>${t("audit.older")}</button>`}
    </section>
  `;
}
