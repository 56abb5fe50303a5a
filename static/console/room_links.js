/** The quiet row of a card: the panels of a room, and the address of its line (CON-098, CON-099). */
import { useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { openPanel } from "./panels.js";
import { may } from "./session.js";
import { publicBase } from "./store.js";
import { announce } from "./toasts.js";
import { LinkShown } from "./dialogs.js";
import { Swap } from "./swap.js";
import { showInChart } from "./chart.js";
import { chosen } from "./chart_store.js";
import { Install } from "./install.js";
import { Schedule } from "./schedule.js";
import { Targeting } from "./targeting.js";
import { Visitors } from "./visitors.js";

/** Where the room's line is: its waiting page on this server, or the site itself that is served inline (CON-099). */
export const lineOf = (id, room) => (room.mode === "inline" ? room.targetUrl : `${publicBase()}/w/${encodeURIComponent(id)}`);

const COPIED_MS = 2000;

function CopyLink({ id, room }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(lineOf(id, room));
    } catch {
      openPanel(LinkShown, { title: t("link.title", { name: room.name }), address: lineOf(id, room) });
      return;
    }
    setCopied(true);
    announce(t("link.copied"));
    setTimeout(() => setCopied(false), COPIED_MS);
  };
  return html`<button type="button" class="quiet" onClick=${copy}><${Swap} words=${[t("link.copy"), t("link.copied")]} shown=${copied ? t("link.copied") : t("link.copy")} /></button>`;
}

/** Those that only look are there for whoever may look at visitors; Schedule changes something (CON-220). */
export function Links({ id, room }) {
  const opens = (word, panel) => html`<button type="button" class="quiet" aria-haspopup="dialog" onClick=${() => openPanel(panel, { roomId: id })}>${word}</button>`;
  return html`
    <div class="links">
      ${may("visitors") && html`${opens(t("visitors"), Visitors)}${opens(t("urls"), Targeting)}${opens(t("install"), Install)}`}
      ${may("write") && opens(t("schedule"), Schedule)}
      <button type="button" class="quiet ${chosen.value === id ? "charted" : ""}" onClick=${() => showInChart(id)}>${t("chart")}</button>
      <${CopyLink} id=${id} room=${room} />
    </div>
  `;
}
