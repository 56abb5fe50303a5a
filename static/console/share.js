/** The Share monitor sheet: links that let others watch, minted, copied and taken back (CON-152 … CON-160). */
import { useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { rich, t } from "./i18n.js";
import { ask } from "./api.js";
import { number, wait } from "./format.js";
import { moment, Problem, useAnswer } from "./listing.js";
import { openPanel } from "./panels.js";
import { may } from "./session.js";
import { announce, refused } from "./toasts.js";
import { ArmButtons, useArm } from "./arm.js";
import { Confirm, Panel } from "./dialogs.js";

const DAY_SEC = 86_400;

const FACTS = { live: "share.facts", revoked: "share.revoked", expired: "share.expired" };

const life = (sec) => (sec >= DAY_SEC ? t("share.days", { n: Math.round(sec / DAY_SEC) }) : wait(sec));

/** The address in a field whose text can be selected; copied where the browser lets us, else selected (CON-153). */
function Address({ url, byHand }) {
  const select = (field) => field && byHand && field.select();
  return html`
    <div class="entry-address"><input class="mono" ref=${select} readonly value=${url} aria-label=${t("share.address")} onFocus=${(event) => event.currentTarget.select()} />
      <p class="note">${byHand ? t("link.byhand") : t("link.copied")}</p></div>
  `;
}

/** The acts of a link that works; Revoke is asked in the row, for this link alone (CON-112). */
function EntryActs({ name, act, copy }) {
  return html`
    <span class="entry-acts">
      <button type="button" class="button" aria-label=${t("share.copy.of", { name })} onClick=${copy}>${t("share.copy")}</button>
      <${ArmButtons} act=${act} label=${t("share.revoke.of", { name })} names=${[t("share.revoke"), t("share.revoke.confirm"), t("share.revoke.busy")]} />
    </span>
  `;
}

function Entry({ link, shown, copy, revoke }) {
  const isLive = link.state === "live";
  const name = link.label || link.id;
  const act = useArm(`${link.id}/${link.state}`, revoke);
  const armed = act.phase === "armed";
  const facts = { who: link.createdBy, made: moment(link.createdAt), ends: moment(link.expiresAt), used: moment(link.lastUsedAt) };
  const onKeyDown = (event) => {
    if (event.key !== "Escape" || !armed) return;
    event.preventDefault();
    event.stopPropagation();
    act.keep();
  };
  return html`
    <li class="${isLive ? "entry" : "entry entry-over"} ${armed ? "entry-armed" : ""}" onKeyDown=${onKeyDown}>
      <p><b>${name}</b><span>${armed ? t("share.revoke.body") : t(FACTS[link.state], facts)}</span>${act.phase === "failed" && html`<span class="text-bad" role="alert">${act.why}</span>`}</p>
      ${isLive && may("links") && html`<${EntryActs} name=${name} act=${act} copy=${copy} />`}
      ${shown && html`<${Address} ...${shown} />`}
    </li>
  `;
}

/** How many views a Revoke all would close (CON-112). */
const AllWords = ({ n }) => html`${n === 1 ? t("share.all.body.one") : rich("share.all.body", { n: html`<b>${number(n)}</b>` })}`;

/** The links as the server lists them, and what can be done with them: `attempt` shows the link that an act answers; resolves with whether it did. */
function useLinks() {
  const { answer, problem, load } = useAnswer("/monitor-tokens");
  const [shown, setShown] = useState(null);
  const present = async (made) => {
    let byHand = false;
    try {
      await navigator.clipboard.writeText(made.url);
      announce(t("link.copied"));
    } catch {
      byHand = true;
    }
    setShown({ id: made.link.id, url: made.url, byHand });
    await load();
  };
  const attempt = async (act) => {
    try {
      await present(await act());
      return true;
    } catch (refusal) {
      refused(t("share.failed"), refusal);
      load();
      return false;
    }
  };
  const revoke = async (id) => {
    await ask("DELETE", `/monitor-tokens/${id}`);
    announce(t("share.revoke.done"));
    await load();
  };
  const revokeAll = () =>
    openPanel(Confirm, {
      title: t("share.all.title"),
      body: html`<${AllWords} n=${answer.live} />`,
      keep: t("keep"),
      act: t("share.revoke"),
      bad: true,
      run: () => ask("DELETE", "/monitor-tokens"),
      after: load,
    });
  return { answer, problem, load, shown, attempt, revoke, revokeAll };
}

/** Those that work first; without buttons for whoever may only read (CON-206). */
function Links({ answer, problem, load, shown, attempt, revoke }) {
  const links = answer?.links ?? [];
  const order = [...links.filter((link) => link.state === "live"), ...links.filter((link) => link.state !== "live")];
  return html`
    <${Problem} text=${problem} again=${load} />
    ${answer && answer.live === 0 && html`<p class="entries-none">${t("share.none")}</p>`}
    <ul class="entries">${order.map((link) => html`
      <${Entry} key=${link.id} link=${link} shown=${shown?.id === link.id && shown} copy=${() => attempt(() => ask("POST", `/monitor-tokens/${link.id}/reveal`))}
        revoke=${() => revoke(link.id)} />
    `)}</ul>
  `;
}

/** The links as a section of another sheet. */
export function LinksSection() {
  const links = useLinks();
  return html`<section class="trail" aria-labelledby="links-title"><h3 id="links-title">${t("access.links")}</h3><${Links} ...${links} /></section>`;
}

export function Share({ panelId }) {
  const links = useLinks();
  const { answer, attempt, revokeAll } = links;
  const field = useRef(null);
  const [busy, setBusy] = useState(false);
  const mint = async (event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    const typed = field.current.value;
    const label = typed.trim();
    const made = await attempt(() => ask("POST", "/monitor-tokens", label ? { label } : {}));
    if (made && field.current?.value === typed) field.current.value = "";
    setBusy(false);
  };
  return html`
    <${Panel} panelId=${panelId} kind="sheet" title=${t("share")}>
      ${() => html`
        <div class="panel-body">
          <p class="box-body">${t("share.what")}</p>
          <${Links} ...${links} />
        </div>
        <form class="panel-foot entry-form" onSubmit=${mint}>
          <label>${t("share.label")}<input ref=${field} type="text" maxlength="80" autocomplete="off" /></label>
          <button type="submit" class="fill" aria-busy=${busy}>${t("share.mint")}</button>
          ${answer?.live > 0 && html`<button type="button" class="button" onClick=${revokeAll}>${t("share.all")}</button>`}
          <p>${answer && t("share.ends", { n: life(answer.ttlSec) })}</p>
        </form>
      `}
    <//>
  `;
}
