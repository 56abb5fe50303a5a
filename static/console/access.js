/** The Access sheet: who has a key of his own, who watches by a link, and what was done (CON-202 … CON-209). */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { ask } from "./api.js";
import { moment, Problem, useAnswer } from "./listing.js";
import { openPanel } from "./panels.js";
import { may, me } from "./session.js";
import { announce, refused, toast } from "./toasts.js";
import { Confirm, Panel } from "./dialogs.js";
import { AuditTrail } from "./audit.js";
import { Rename } from "./rename.js";
import { LinksSection } from "./share.js";

const ROLES = ["viewer", "operator", "owner"];

/** A new key, once; it closes by its own button only (CON-203). */
function KeyShown({ panelId, name, value }) {
  const field = useRef(null);
  const [copied, setCopied] = useState(false);
  useLayoutEffect(() => field.current.select(), []);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(value); // plain http has no clipboard at all
    } catch {
      field.current.select();
      return;
    }
    setCopied(true);
    announce(t("link.copied"));
  };
  return html`
    <${Panel} panelId=${panelId} kind="box wide-box" title=${t("access.key.title", { name })} mayClose=${() => false}>
      ${(close) => html`
        <h2>${t("access.key.title", { name })}</h2>
        <p class="box-body">${t("access.key.once")}</p>
        <div class="entry-address"><input class="mono" ref=${field} readonly value=${value} aria-label=${t("access.key.title", { name })} /></div>
        <div class="box-foot">
          <button type="button" class="button" onClick=${copy}>${copied ? t("link.copied") : t("share.copy")}</button>
          <button type="button" class="fill" onClick=${close}>${t("access.key.done")}</button>
        </div>
      `}
    <//>
  `;
}

const RoleChoice = ({ value, label, onChange }) => html`
  <select value=${value} aria-label=${label} onChange=${(event) => onChange(event.currentTarget.value)}>
    ${ROLES.map((role) => html`<option value=${role} selected=${role === value}>${role}</option>`)}
  </select>
`;

function Person({ person, load }) {
  const facts = { role: person.role, who: person.createdBy, made: moment(person.createdAt), used: moment(person.lastUsedAt), n: person.liveLinks, at: moment(person.revokedAt) };
  const path = `/operators/${person.id}`;
  const change = (role) => ask("POST", path, { role }).catch((refusal) => refused(t("access.failed", { name: person.name }), refusal)).then(load);
  const end = (purge) =>
    openPanel(Confirm, {
      title: t(purge ? "access.remove.title" : "access.revoke.title", { name: person.name }),
      body: purge ? t("access.remove.body") : t("access.revoke.body", { n: person.liveLinks }),
      keep: t("keep"),
      act: t(purge ? "access.remove" : "share.revoke"),
      bad: true,
      run: async () => {
        const { linksRevoked } = await ask("DELETE", purge ? `${path}?purge=1` : path);
        toast(t("access.ended", { name: person.name }), t("access.closed", { n: linksRevoked }));
      },
      after: load,
    });
  const isOver = person.revokedAt !== null;
  return html`
    <li class=${isOver ? "entry entry-over" : "entry"}>
      <p><b>${person.name}</b><span>${t(isOver ? "access.over" : "access.facts", facts)}</span></p>
      ${may("operators") && html`<span class="entry-acts">
        ${!isOver && html`<${RoleChoice} value=${person.role} label=${t("access.role.of", { name: person.name })} onChange=${change} />`}
        ${!isOver && html`<button type="button" class="button" aria-label=${t("access.rename.of", { name: person.name })} onClick=${() => openPanel(Rename, { person, after: load })}>${t("access.rename")}</button>`}
        <button type="button" class="button" aria-label=${t(isOver ? "access.remove.of" : "share.revoke.of", { name: person.name })} onClick=${() => end(isOver)}>${t(isOver ? "access.remove" : "share.revoke")}</button>
      </span>`}
    </li>
  `;
}

function Issue({ load }) {
  const field = useRef(null);
  const [role, setRole] = useState("operator");
  const [busy, setBusy] = useState(false);
  const issue = async (event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    const name = field.current.value;
    try {
      const { key, operator } = await ask("POST", "/operators", { name, role });
      if (field.current?.value === name) field.current.value = "";
      openPanel(KeyShown, { name: operator.name, value: key });
    } catch (refusal) {
      refused(t("access.failed", { name }), refusal);
    }
    setBusy(false);
    load();
  };
  return html`
    <form class="panel-foot entry-form" onSubmit=${issue}>
      <label>${t("access.name")}<input ref=${field} type="text" required maxlength="80" autocomplete="off" /></label>
      <${RoleChoice} value=${role} label=${t("access.role")} onChange=${setRole} />
      <button type="submit" class="fill" aria-busy=${busy}>${t("access.issue")}</button>
    </form>
  `;
}

export function Access({ panelId }) {
  const { answer, problem, load } = useAnswer("/operators");
  const people = answer?.operators ?? [];
  const over = people.filter((person) => person.revokedAt !== null);
  return html`
    <${Panel} panelId=${panelId} kind="sheet sheet-wide" title=${t("access")}>
      ${() => html`
        <div class="panel-body">
          <p class="box-body">${t("access.what")}${me.value?.kind === "admin_key" && html` ${t("access.shared")}`}</p>
          <${Problem} text=${problem} again=${load} />
          <ul class="entries">${people.filter((person) => person.revokedAt === null).map((person) => html`<${Person} key=${person.id} person=${person} load=${load} />`)}</ul>
          ${over.length > 0 && html`<details class="entries-over"><summary>${t("access.revoked", { n: over.length })}</summary>
            <ul class="entries">${over.map((person) => html`<${Person} key=${person.id} person=${person} load=${load} />`)}</ul></details>`}
          <${LinksSection} />
          <${AuditTrail} people=${people} />
        </div>
        ${may("operators") && html`<${Issue} load=${load} />`}
      `}
    <//>
  `;
}
