/** The acts of a card. What the next press undoes acts at once; bypass asks first, because people walk in (CON-101). */
import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { html } from "./html.js";
import { rich, t } from "./i18n.js";
import { ask } from "./api.js";
import { number } from "./format.js";
import { onePressPerKey } from "./keyboard.js";
import { openPanel } from "./panels.js";
import { expectOwn, putRoom, roomOf } from "./store.js";
import { announce, refused } from "./toasts.js";
import { Confirm } from "./dialogs.js";
import { openRoomForm } from "./room_form.js";
import { Swap } from "./swap.js";

/** Ask the server for another state; the card shows it once the server said so. Rejects with the refusal. */
async function setState(id, state) {
  expectOwn(id, "state", state);
  const answer = await ask("POST", `/rooms/${encodeURIComponent(id)}/state`, { state });
  putRoom(answer.room);
  announce(t(`done.${state}`, { name: answer.room.name }));
}

/** How many wait, as live text of a dialog. */
function BypassWords({ id }) {
  const room = roomOf(id).value;
  return html`${rich("bypass.body", { n: html`<b>${number(room?.waiting)}</b>` })}`;
}

function askBypass(id) {
  openPanel(Confirm, {
    roomId: id,
    title: t("bypass.title", { name: roomOf(id).peek().name }),
    body: html`<${BypassWords} id=${id} />`,
    keep: t("cancel"),
    act: t("bypass.act"),
    run: () => setState(id, "bypass"),
  });
}

/** How many a flush lets in, and the places there are for them (CON-103). */
function FlushWords({ id }) {
  const room = roomOf(id).value;
  const [waiting, cap] = [room?.waiting ?? 0, room?.maxConcurrent ?? null];
  const places = cap === null ? t("flush.nocap") : rich("flush.cap", { cap: html`<b>${number(cap)}</b>`, free: html`<b>${number(Math.max(0, cap - (room.occupancy ?? 0)))}</b>` });
  return html`${rich("flush.body", { n: html`<b>${number(waiting)}</b>` })} ${places}`;
}

/** How many a purge drops (CON-104). */
function PurgeWords({ id }) {
  const room = roomOf(id).value;
  return html`${rich("purge.body", { n: html`<b>${number(room?.waiting)}</b>`, p: html`<b>${number(room?.preQueue)}</b>` })}`;
}

/** What is done to a whole line, in the words of each; neither can be undone, so both ask. */
const SWEEPS = {
  flush: { Words: FlushWords, title: "flush.title", act: "flush.act", done: "flush.done", count: ({ flushed }) => flushed },
  purge: { Words: PurgeWords, title: "purge.title", act: "purge.act", done: "purge.done", count: ({ purged }) => purged.waiting + purged.preQueue, bad: true },
};

function askSweep(id, path) {
  const { name } = roomOf(id).peek();
  const { Words, title, act, done, count, bad } = SWEEPS[path];
  openPanel(Confirm, {
    roomId: id,
    title: t(title, { name }),
    body: html`<${Words} id=${id} />`,
    keep: t("cancel"),
    act: t(act),
    bad,
    run: async () => {
      const answer = await ask("POST", `/rooms/${encodeURIComponent(id)}/${path}`, {});
      announce(t(done, { name, n: number(count(answer)) }));
    },
  });
}

export function Acts({ id, room }) {
  const busy = useMemo(() => signal(""), [id]);
  const go = async (state) => {
    if (busy.value) return;
    busy.value = state;
    try {
      await setState(id, state);
    } catch (refusal) {
      if (refusal.status !== 401) refused(t("state.failed", { name: room.name }), refusal, t("state.still", { state: (roomOf(id).peek() ?? room).state.toUpperCase() }));
    } finally {
      busy.value = "";
    }
  };
  const [paused, bypassed] = [room.state === "paused", room.state === "bypass"];
  const shared = { type: "button", disabled: Boolean(room.recovering), title: room.recovering ? t("card.recovering") : undefined, onKeyDown: onePressPerKey };
  return html`
    <div class="acts" role="group" aria-label=${t("acts", { name: room.name })}>
      <button ...${shared} class="button ${paused ? "next" : ""}" aria-busy=${busy.value !== "" && busy.value !== "bypass"} onClick=${() => go(paused ? "active" : "paused")}>
        <${Swap} words=${[t("pause"), t("resume")]} shown=${paused ? t("resume") : t("pause")} />
      </button>
      <button ...${shared} class="button ${bypassed ? "next" : ""}" aria-haspopup=${bypassed ? undefined : "dialog"} onClick=${() => (bypassed ? go("active") : askBypass(id))}>
        <${Swap} words=${[t("bypass"), t("queueon")]} shown=${bypassed ? t("queueon") : t("bypass")} />
      </button>
      <button ...${shared} class="button" aria-haspopup="dialog" onClick=${() => askSweep(id, "flush")}>${t("flush")}</button>
      <button ...${shared} class="button" aria-haspopup="dialog" onClick=${() => askSweep(id, "purge")}>${t("purge")}</button>
      <button type="button" class="button acts-edit" aria-haspopup="dialog" aria-label=${t("edit.of", { name: room.name })} onClick=${() => openRoomForm(roomOf(id).peek())}>${t("edit")}</button>
    </div>
  `;
}
