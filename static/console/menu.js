/** The Console menu: opens over the page and pushes nothing aside (CON-030). */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { setLanguage, t } from "./i18n.js";
import { language, nextTheme, theme } from "./prefs.js";
import { linkToken } from "./link.js";
import { may, signOut } from "./session.js";
import { refused, toast } from "./toasts.js";
import { chevron } from "./icons.js";
import { moveInMenu } from "./keyboard.js";
import { openPanel } from "./panels.js";
import { Access } from "./access.js";
import { Reports } from "./reports.js";
import { Who } from "./header.js";

const LANGUAGE_NAMES = { en: "English", th: "ไทย" };

function otherLanguage() {
  setLanguage(language.value === "en" ? "th" : "en").catch(() => toast(t("language.failed"), t("noanswer")));
}

const leave = () => signOut().catch((refusal) => refused(t("signout.failed"), refusal));

/** The guides in the language of the console, below /__qm on a customer's host (CON-031). */
export const docs = () => `${location.pathname.startsWith("/__qm/") ? "/__qm" : ""}/docs${language.value === "th" ? "/th" : ""}`;

function Entries() {
  const entry = (text, act, value) => html`
    <li role="none"><button type="button" role="menuitem" tabindex="-1" onClick=${act}><span>${text}</span><span class="menu-value">${value}</span></button></li>
  `;
  return html`
    ${may("reports") && entry(t("reports"), () => openPanel(Reports))}
    ${may("audit") && entry(t("access"), () => openPanel(Access))}
    ${!linkToken && html`<li role="none"><a role="menuitem" tabindex="-1" target="_blank" rel="noopener" href=${docs()}>${t("menu.docs")}</a></li>`}
    ${entry(t("menu.language"), otherLanguage, LANGUAGE_NAMES[language.value])}
    ${entry(t("menu.theme"), nextTheme, t(`theme.${theme.value}`))}
    ${!linkToken && html`<li role="none" class="menu-line"></li>`}
    ${!linkToken && entry(t("menu.signout"), leave)}
  `;
}

export function Menu() {
  const [open, setOpen] = useState(false);
  const root = useRef(null);
  const opener = useRef(null);
  const close = (back) => {
    setOpen(false);
    if (back) opener.current.focus();
  };
  useLayoutEffect(() => {
    if (open) root.current.querySelector("[role='menuitem']").focus();
  }, [open]);
  const onKeyDown = (event) => {
    if (event.key === "ArrowDown" && !open) setOpen(true);
    else if (event.key === "Escape" && open) close(true);
    else if (!open || !moveInMenu(event, root.current)) return;
    event.preventDefault();
  };
  return html`
    <div class="menu" ref=${root} onKeyDown=${onKeyDown} onFocusOut=${(event) => open && !event.currentTarget.contains(event.relatedTarget) && close(false)}>
      <button type="button" class="button quiet" ref=${opener} aria-haspopup="menu" aria-expanded=${open} onClick=${() => setOpen(!open)}>
        ${t("menu")}${chevron()}
      </button>
      ${open && html`<div class="menu-box"><${Who} /><ul role="menu" aria-label=${t("menu")}><${Entries} /></ul></div>`}
    </div>
  `;
}
