/** The Reports sheet: what rooms did by the hour or the day, for a span and a room to choose (CON-198 … CON-201). */
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { ask, saveFile } from "./api.js";
import { number } from "./format.js";
import { moment, Problem } from "./listing.js";
import { Panel } from "./dialogs.js";
import { order, roomOf, serverNow } from "./store.js";
import { words } from "./toasts.js";
import { alarm } from "./icons.js";

/** Columns of the file, in its order (ADM-277). */
const COLUMNS = [
  "roomId", "bucket", "start", "startIso", "joins", "passes", "netUnserved", "peakDepth", "avgDepth", "peakActive", "waitP50Sec", "waitP90Sec",
  "waitMaxSec", "waitAvgSec", "measuredWaits", "blocked", "warned", "samples", "partial", "coveredSec", "missingSec",
];

/** Counts that are lower bounds where part of the time was not measured (OBS-167). */
const AT_LEAST = ["joins", "passes", "measuredWaits", "blocked", "warned"];

const TEXTS = ["roomId", "bucket", "startIso"];

/** Rows shown at once; more come by pressing a button, so that a month of many rooms does not stop the page. */
const PIECE = 200;

const DAY_MS = 86_400_000;
const SPANS = { day: 1, week: 7, month: 30, quarter: 90 };

/** Begin of the operator's day, of the one after it for `days` 1. */
function midnight(date, days) {
  const day = new Date(`${date}T00:00`);
  day.setDate(day.getDate() + days);
  return day.getTime();
}

/** Query of a choice; null while it is not a whole one. `days`: chosen days, both included. */
function asked({ bucket, roomId, span, from, to }) {
  const query = new URLSearchParams({ bucket });
  if (roomId) query.set("roomId", roomId);
  if (span !== "days") query.set("from", serverNow() - SPANS[span] * DAY_MS);
  else if (!from || !to || from > to) return null;
  else query.set("from", midnight(from, 0));
  if (span === "days") query.set("to", midnight(to, 1));
  return query;
}

/** The report of a choice: `{rows, problem, again}`. Rows of another choice, or of before a failure, are not shown (CON-201). */
function useReport(choice) {
  const [found, setFound] = useState({ rows: null, problem: "" });
  const latest = useRef(null);
  const read = async () => {
    const query = asked(choice);
    latest.current = query;
    setFound({ rows: null, problem: "" });
    if (query === null) return;
    try {
      const { rows } = await ask("GET", `/reports?${query}`);
      if (latest.current === query) setFound({ rows, problem: "" });
    } catch (refusal) {
      if (latest.current === query) setFound({ rows: null, problem: words(refusal) });
    }
  };
  useEffect(() => void read(), [choice]);
  return { ...found, again: read };
}

/** Share of the row's time that was measured, rounded down: what is not whole is never 100 %. */
const covered = ({ coveredSec, missingSec }) => Math.floor((100 * coveredSec) / Math.max(1, coveredSec + missingSec));

function cell(row, name) {
  const value = row[name];
  if (name === "start") return moment(value);
  if (name === "roomId" && row.partial) return html`<span class="report-partial">${alarm()}<span class="unseen">⚠</span></span>${value}`;
  if (name === "partial") return value ? html`<span class="report-partial">${t("report.partial", { n: covered(row) })}</span>` : t("report.whole");
  if (TEXTS.includes(name)) return value;
  return `${number(value)}${row.partial && AT_LEAST.includes(name) ? "+" : ""}`;
}

const kindOf = (name) => (TEXTS.includes(name) ? "text mono" : "");

function Rows({ rows }) {
  const [most, setMost] = useState(PIECE);
  return html`
    <div class="wide-table" tabindex="0" role="group" aria-label=${t("reports")}>
      <table class="figures-table report-table">
        <thead><tr>${COLUMNS.map((name) => html`<th scope="col" class=${kindOf(name)} key=${name} lang="en">${name}</th>`)}</tr></thead>
        <tbody>${rows.slice(0, most).map((row) => html`
          <tr key=${`${row.roomId} ${row.start}`} class=${row.partial ? "row-partial" : ""}>${COLUMNS.map((name) => html`<td class=${kindOf(name)} key=${name}>${cell(row, name)}</td>`)}</tr>
        `)}</tbody>
      </table>
    </div>
    ${rows.length > most && html`<button type="button" class="button" onClick=${() => setMost(most + PIECE)}>${t("report.more", { n: number(rows.length - most) })}</button>`}
  `;
}

function Choice({ label, value, options, onChange }) {
  return html`
    <label class="report-select">${label}<select value=${value} onChange=${(event) => onChange(event.currentTarget.value)}>
      ${options.map(([key, text]) => html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`)}
    </select></label>
  `;
}

function Day({ label, value, onChange }) {
  return html`<label>${label}<input type="date" value=${value} onChange=${(event) => onChange(event.currentTarget.value)} /></label>`;
}

/** The report as a file: all rows, also where they are too many to be shown. */
function Save({ choice }) {
  const [saving, setSaving] = useState({ busy: false, problem: "" });
  const save = async () => {
    const query = asked(choice);
    query.set("format", "csv");
    setSaving({ busy: true, problem: "" });
    try {
      await saveFile(`/reports?${query}`, `qm-report-${choice.bucket}.csv`);
      setSaving({ busy: false, problem: "" });
    } catch (refusal) {
      setSaving({ busy: false, problem: words(refusal) });
    }
  };
  return html`
    <button type="button" class="button" disabled=${saving.busy || asked(choice) === null} aria-busy=${saving.busy} onClick=${save}>${t("audit.csv")}</button>
    <${Problem} text=${saving.problem} again=${save} />
  `;
}

function Chosen({ choice, setChoice }) {
  const choose = (name) => (value) => setChoice({ ...choice, [name]: value });
  const rooms = (order.value ?? []).map((id) => [id, roomOf(id).value?.name ?? id]);
  const spans = [["day", t("report.day")], ["week", t("report.week")], ["month", t("report.month")], ["quarter", t("report.quarter")], ["days", t("report.days")]];
  return html`
    <div class="report-choice">
      <${Choice} label=${t("audit.room")} value=${choice.roomId} options=${[["", t("totals")], ...rooms]} onChange=${choose("roomId")} />
      <${Choice} label=${t("report.by")} value=${choice.bucket} options=${[["hour", t("report.byhour")], ["day", t("report.byday")]]} onChange=${choose("bucket")} />
      <${Choice} label=${t("report.span")} value=${choice.span} options=${spans} onChange=${choose("span")} />
      ${choice.span === "days" && html`<${Day} label=${t("report.from")} value=${choice.from} onChange=${choose("from")} /><${Day} label=${t("report.to")} value=${choice.to} onChange=${choose("to")} />`}
      <${Save} choice=${choice} />
    </div>
  `;
}

export function Reports({ panelId }) {
  const [choice, setChoice] = useState({ bucket: "hour", roomId: "", span: "day", from: "", to: "" });
  const { rows, problem, again } = useReport(choice);
  return html`
    <${Panel} panelId=${panelId} kind="sheet sheet-wide" title=${t("reports")}>
      ${() => html`
        <div class="panel-body">
          <${Chosen} choice=${choice} setChoice=${setChoice} />
          <ul class="report-notes"><li>${t("report.note.estimates")}</li><li>${t("report.note.waits")}</li><li>${t("report.note.unserved")}</li><li>${t("report.note.partial")}</li></ul>
          <${Problem} text=${problem} again=${again} />
          ${rows?.length === 0 && html`<p class="entries-none">${t("report.none")}</p>`}
          ${rows?.length > 0 && html`<${Rows} rows=${rows} />`}
        </div>
      `}
    <//>
  `;
}
