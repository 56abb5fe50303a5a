/** The URLs sheet: which pages a room protects, what each rule has met, and what is wrong with them (CON-130 … CON-135). */
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { number } from "./format.js";
import { moment } from "./listing.js";
import { may } from "./session.js";
import { roomOf } from "./store.js";
import { alarm } from "./icons.js";
import { Panel } from "./dialogs.js";
import { openRoomForm } from "./room_form.js";
import { judge, TryUrl } from "./try_url.js";

/** How many checks at the door a rule has decided, and when last; one that never did is set off (CON-131). */
function Met({ rule }) {
  if (rule.hits === null || rule.hits === undefined) return html`<span class="rule-met">–</span>`;
  if (rule.hits === 0) return html`<span class="rule-met rule-never">${alarm()}${t("urls.never")}</span>`;
  return html`<span class="rule-met">${t("urls.met", { n: number(rule.hits), time: moment(rule.lastMatchedAt) })}</span>`;
}

function Rules({ rules }) {
  if (rules.length === 0) return html`<p class="box-body">${t("urls.none")}</p>`;
  return html`
    <ol class="urls">${rules.map((rule, place) => html`
      <li key=${rule.id}><b class="urls-place">${place + 1}</b><span class="tag" lang="en">${rule.action}</span><code>${rule.pattern}</code><${Met} rule=${rule} />${rule.note && html`<p class="note">${rule.note}</p>`}</li>
    `)}</ol>
  `;
}

/** What the server says about the saved rules: asked when the panel opens, and again when the settings changed. */
function useWarnings(room) {
  const [warnings, setWarnings] = useState([]);
  useEffect(() => {
    let isLast = true;
    const show = (found) => isLast && setWarnings(found);
    if (room && room.rules.length > 0) judge(room.id, room.targetUrl).then((answer) => show(answer.warnings), () => show([]));
    else show([]);
    return () => (isLast = false);
  }, [room?.etag]);
  return warnings.filter(({ code }) => code === "rule_origin_not_returnable");
}

/** Rules that name origins nobody is sent back to, and checks that say no page (CON-134). */
function Warned({ room }) {
  const texts = useWarnings(room).map(({ message }) => message);
  if (room.checksWithoutUrl > 0) texts.push(t("urls.nourl", { n: number(room.checksWithoutUrl) }));
  if (texts.length === 0) return null;
  return html`<ul class="warnings">${texts.map((text) => html`<li>${alarm()}<span>${text}</span></li>`)}</ul>`;
}

export function Targeting({ panelId, roomId }) {
  const room = roomOf(roomId).value;
  return html`
    <${Panel} panelId=${panelId} kind="sheet" title=${t("urls.title")} sub=${room?.name} roomId=${roomId}>
      ${() => room && html`
        <div class="panel-body"><${Rules} rules=${room.rules ?? []} /><${Warned} room=${room} /><${TryUrl} id=${roomId} /></div>
        <footer class="panel-foot"><p>${t("urls.what")}</p>
          ${may("write") && html`<div class="foot-acts"><button type="button" class="button" aria-haspopup="dialog" onClick=${() => openRoomForm(roomOf(roomId).peek(), "targeting")}>${t("urls.edit")}</button></div>`}</footer>
      `}
    <//>
  `;
}
