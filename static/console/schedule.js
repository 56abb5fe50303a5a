/** The Schedule sheet: when the doors open, and how many places of the pre-queue one address may take (CON-095, CON-096). */
import { useState } from "preact/hooks";
import { html } from "./html.js";
import { rich, t } from "./i18n.js";
import { ask } from "./api.js";
import { dayOf, minuteOfDay, number } from "./format.js";
import { isScheduled } from "./doors.js";
import { local, utcOf, zone } from "./local_time.js";
import { openPanel } from "./panels.js";
import { putRoom, roomOf } from "./store.js";
import { announce } from "./toasts.js";
import { Confirm, Panel, Refusal, useAct, Warnings } from "./dialogs.js";

const path = (id) => `/rooms/${encodeURIComponent(id)}/schedule`;

/** How many stand before the doors, as live text of a dialog. */
export function DropWords({ id }) {
  const room = roomOf(id).value;
  return html`${rich("drop.body", { n: html`<b>${number(room?.preQueue)}</b>` })}`;
}

/** Opening the doors draws the line at once and cannot be taken back, so it asks (CON-106). */
function askCancel(id, closePanel) {
  const { name } = roomOf(id).peek();
  openPanel(Confirm, {
    roomId: id,
    title: t("drop.title", { name }),
    body: html`<${DropWords} id=${id} />`,
    keep: t("drop.keep"),
    act: t("drop.act"),
    run: async () => {
      const answer = await ask("POST", path(id), { opensAt: null });
      putRoom(answer.room);
      announce(t("drop.done", { name, n: number(answer.drawn ?? 0) }));
    },
    after: closePanel,
  });
}

/** What the two fields hold, and of it only what differs from what they held at first. */
function useSchedule(room) {
  const [first] = useState({ time: local(room?.opensAt), cap: room?.preQueueMaxPerIp === null ? "" : String(room?.preQueueMaxPerIp ?? "") });
  const [time, setTime] = useState(first.time);
  const [cap, setCap] = useState(first.cap);
  const plain = cap.trim();
  const changes = {
    ...(time && time !== first.time ? { opensAt: Date.parse(time) } : {}),
    ...(cap !== first.cap ? { preQueueMaxPerIp: plain === "" ? null : /^\d+$/.test(plain) ? Number(plain) : plain } : {}),
  };
  return { time, setTime, cap, setCap, changes };
}

/** What is set now, in the operator's time. */
export function Present({ room }) {
  if (!room || room.opensAt === null || room.opensAt === undefined) return html`<p class="box-body">${t("schedule.none")}</p>`;
  const time = html`<b>${dayOf(room.opensAt)}, ${minuteOfDay(room.opensAt)}</b>`;
  return html`<p class="box-body">${rich(isScheduled(room) ? "schedule.set" : "schedule.over", { time, n: html`<b>${number(room.preQueue)}</b>` })}</p>`;
}

/** `busy` while they are being sent: what was typed then would be gone with the sheet. */
function Fields({ time, setTime, cap, setCap, busy }) {
  return html`
    <label for="opens-at">${t("schedule.time", { zone: zone() })}</label>
    <input id="opens-at" type="datetime-local" readonly=${busy} value=${time} aria-describedby="opens-at-note" onInput=${(event) => setTime(event.currentTarget.value)} />
    <p class="note" id="opens-at-note">${utcOf(time) ? html`<b class="mono utc" lang="en">${utcOf(time)}</b>` : t("schedule.time.empty")}</p>
    <label for="prequeue-cap" class="below">${t("schedule.cap")}</label>
    <input id="prequeue-cap" type="text" inputmode="numeric" autocomplete="off" readonly=${busy} value=${cap} placeholder=${t("form.none")} aria-describedby="prequeue-cap-note" onInput=${(event) => setCap(event.currentTarget.value)} />
    <p class="note" id="prequeue-cap-note">${t("schedule.cap.help")}</p>
  `;
}

export function Schedule({ panelId, roomId }) {
  const room = roomOf(roomId).value;
  const fields = useSchedule(room);
  const set = async () => {
    const { room: now, warnings = [] } = await ask("POST", path(roomId), fields.changes);
    putRoom(now);
    announce(t("schedule.done", { name: now.name }));
    if (warnings.length > 0) openPanel(Warnings, { warnings });
  };
  const { busy, problem, start } = useAct(set, () => {});
  return html`
    <${Panel} panelId=${panelId} kind="sheet" title=${t("schedule")} sub=${room?.name} roomId=${roomId} mayClose=${() => !busy}>
      ${(close) => html`
        <form class="panel" onSubmit=${(event) => (event.preventDefault(), start(close))}>
          <div class="panel-body"><${Present} room=${room} /><div class="below"><${Fields} ...${fields} busy=${busy} /></div><${Refusal} text=${problem} /></div>
          <footer class="panel-foot">
            <p>${t("schedule.what")}</p>
            <div class="foot-acts">
              ${room && isScheduled(room) && room.opensAt !== null && html`<button type="button" class="button" aria-haspopup="dialog" onClick=${() => askCancel(roomId, close)}>${t("schedule.cancel")}</button>`}
              <button type="submit" class="fill" aria-busy=${busy}>${t("schedule.go")}</button>
            </div>
          </footer>
        </form>
      `}
    <//>
  `;
}
