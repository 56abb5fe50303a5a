/** Create and edit a room: the same form in a dialog, saved as a whole (CON-177 … CON-194). */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { rich, t } from "./i18n.js";
import { ask } from "./api.js";
import { number } from "./format.js";
import { hostLeft, moveOn } from "./inline.js";
import { focusRoom, isInUse } from "./keyboard.js";
import { openPanel } from "./panels.js";
import { may } from "./session.js";
import { dropRoom, order, roomOf } from "./store.js";
import { toast } from "./toasts.js";
import { alarm } from "./icons.js";
import { Confirm, Panel, Warnings } from "./dialogs.js";
import { FEW, idOf, SECTIONS } from "./form_fields.js";
import { HostLeft, Leaving } from "./form_inline.js";
import { Field, FewPlaces } from "./form_parts.js";
import { RoomForm } from "./form_model.js";
import { Install } from "./install.js";
import { DropWords, Present } from "./schedule.js";
import { TryUrl } from "./try_url.js";

/** Open the form for `room`, or for a new one, at a section. The first room is asked three things only. */
export function openRoomForm(room = null, at = "") {
  openPanel(FormPanel, { form: new RoomForm(room), at, few: room === null && order.peek()?.length === 0 });
}

/** The rules as they stand in the form, null while one holds a mistake. */
function unsaved(form) {
  const { value, error } = form.results.value.rules;
  return error ? null : value;
}

function Section({ form, section, fields }) {
  return html`
    <section id="section-${section.name}">
      <h3>${t(`section.${section.name}`)}</h3>
      ${section.told && html`<p class="section-what">${t(section.told)}</p>`}
      ${fields.includes("opensAt") && form.id !== null && html`<${Present} room=${roomOf(form.id).value} />`}
      <div class="fields">${fields.map((name) => html`<${Field} key=${name} form=${form} name=${name} />`)}</div>
      ${fields.includes("queueMaxPerIp") && html`<${FewPlaces} form=${form} />`}
      ${fields.includes("rules") && form.id !== null && html`<${TryUrl} id=${form.id} rules=${unsaved(form)} />`}
      ${fields.includes("proxyOrigin") && html`<${Leaving} form=${form} />`}
    </section>
  `;
}

/** All sections; with `few` the three fields a first room needs, and the rest folded with its defaults. */
function Sections({ form, few }) {
  const shown = (section, wanted) => section.fields.filter((name) => form.names.includes(name) && wanted(name));
  const all = (wanted) =>
    SECTIONS.map((section) => [section, shown(section, wanted)])
      .filter(([, fields]) => fields.length > 0)
      .map(([section, fields]) => html`<${Section} key=${section.name} form=${form} section=${section} fields=${fields} />`);
  if (!few) return all(() => true);
  return html`
    <section><div class="fields fields-one">${FEW.filter((name) => form.names.includes(name)).map((name) => html`<${Field} key=${name} form=${form} name=${name} />`)}</div></section>
    <details open=${form.tried.value && !FEW.includes(form.firstWrong() ?? FEW[0])}><summary>${t("form.more")}</summary>${all((name) => !FEW.includes(name))}</details>
  `;
}

/** List of sections at the left: where one is, which hold changes or mistakes. */
function Contents({ form, here, go }) {
  const entry = ({ name, fields }) => {
    const changed = fields.some((field) => form.changed.value.includes(field)) && form.id !== null;
    const wrong = fields.some((field) => form.names.includes(field) && form.mistake(field));
    return html`
      <li><button type="button" aria-current=${here === name ? "true" : undefined} onClick=${() => go(name)}>
        <span>${t(`section.${name}`)}</span>${changed && html`<span class="dot" role="img" aria-label=${t("form.changed.one")}></span>`}
        ${wrong && html`<span class="contents-wrong">${alarm()}<span class="unseen">${t("form.mistake")}</span></span>`}
      </button></li>
    `;
  };
  return html`<nav class="contents" aria-label=${t("form.sections")}><ul>${SECTIONS.map(entry)}</ul></nav>`;
}

/** Delete asks for the id and says what is lost; the one act that cannot be undone (CON-107). */
function askDelete(room, closeForm) {
  const words = html`<${DeleteWords} id=${room.id} />`;
  const run = async () => {
    const { warnings } = await ask("DELETE", `/rooms/${encodeURIComponent(room.id)}`);
    closeForm();
    if (moveOn(warnings)) return;
    dropRoom(room.id);
    toast(t("delete.done", { name: room.name }), "");
    if (warnings.length > 0) openPanel(Warnings, { warnings });
  };
  openPanel(Confirm, { roomId: room.id, title: t("delete.title", { name: room.name }), body: words, typed: room.id, bad: true, keep: t("delete.keep"), act: t("delete"), run });
}

function DeleteWords({ id }) {
  const room = roomOf(id).value;
  return html`${rich("delete.body", { n: html`<b>${number(room?.waiting)}</b>` })}<${HostLeft} host=${hostLeft(room)} />`;
}

/** Saving a form without the opening time that it had opens the doors, as Cancel drop does (CON-106). */
function askOpen(form, after) {
  const { name } = roomOf(form.id).peek();
  const body = html`<${DropWords} id=${form.id} />`;
  openPanel(Confirm, { roomId: form.id, title: t("drop.title", { name }), body, keep: t("drop.keep"), act: t("drop.act"), run: async () => {}, after });
}

function askDiscard(form, close) {
  openPanel(Confirm, { title: t("discard.title"), body: changes(form), keep: t("discard.keep"), act: t("discard"), bad: true, run: async () => close() });
}

/** `2 fields changed: capacity, places per address`. */
function changes(form) {
  const inner = (text) => text[0].toLowerCase() + text.slice(1);
  const names = form.changed.value.map((name) => inner(t(`f.${name}`)));
  if (names.length === 0) return form.id === null ? "" : t("form.unchanged");
  return rich(names.length === 1 ? "form.changed.list.one" : "form.changed.list", { n: html`<b>${names.length}</b>`, names: names.join(", ") });
}

function Foot({ form, leave, save }) {
  return html`
    <footer class="panel-foot">
      <p role=${form.problem.value ? "alert" : undefined}>${form.problem.value ? html`<span class="text-bad">${alarm()} ${form.problem.value}</span>` : changes(form)}</p>
      <div class="foot-acts">
        <button type="button" class="button" onClick=${leave}>${t("cancel")}</button>
        <button type="button" class="fill" aria-busy=${form.busy.value} disabled=${form.id !== null && form.changed.value.length === 0} onClick=${save}>${form.id === null ? t("form.create") : t("form.save")}</button>
      </div>
    </footer>
  `;
}

/** After the card of a new room was drawn: the focus goes to it, unless it is in use elsewhere by then, and its installation is offered (CON-194). */
async function welcome({ id, name, mode }) {
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  if (!isInUse()) focusRoom(id);
  const install = { label: t("install"), run: () => openPanel(Install, { roomId: id }) };
  toast(t("install.offer", { name }), mode === "inline" ? "" : t("install.offer.line"), install);
}

/** Takes the focus to the first mistake each time `tell` is called: with its words, not after them, when somebody may be typing elsewhere. */
function useMistake(form) {
  const [told, setTold] = useState(0);
  useLayoutEffect(() => void (told > 0 && document.getElementById(idOf(form.firstWrong()))?.focus()), [told]);
  return () => setTold((n) => n + 1);
}

function FormPanel({ panelId, form, few, at }) {
  const room = form.room.value;
  const body = useRef(null);
  const jumped = useRef(null);
  const [here, setHere] = useState(SECTIONS[0].name);
  const tellMistake = useMistake(form);
  useLayoutEffect(() => {
    body.current.querySelector(at ? `#section-${at} :is(input, button)` : "input")?.focus();
    if (at) go(at);
  }, []);
  const sections = () => [...body.current.querySelectorAll("section[id]")];
  const go = (name) => {
    body.current.querySelector(`#section-${name}`).scrollIntoView();
    jumped.current = body.current.scrollTop;
    setHere(name);
  };
  const scrolled = () => {
    if (body.current.scrollTop === jumped.current) return; // the last sections cannot come to the top
    const top = body.current.getBoundingClientRect().top + 48;
    const current = sections().filter((section) => section.getBoundingClientRect().top <= top).at(-1);
    if (current) setHere(current.id.slice("section-".length));
  };
  const save = async (close, sure = false) => {
    if (!sure && form.opensDoors() && form.isReady()) return askOpen(form, () => save(close, true));
    const pressed = document.activeElement;
    const answer = await form.save();
    if (!answer) {
      /* Who went on to another field while the answer was under way keeps typing there. */
      if ([pressed, document.body].includes(document.activeElement) || document.activeElement.matches("dialog")) tellMistake();
      return;
    }
    if (form.changed.value.length === 0) close();
    if (moveOn(answer.warnings)) return;
    if (answer.created) await welcome(answer.room);
    if (answer.warnings?.length) openPanel(Warnings, { warnings: answer.warnings });
  };
  /* Not while it is being saved: closing it would say that nothing was. */
  const mayClose = (close) => !form.busy.value && (form.changed.value.length === 0 || askDiscard(form, close));
  const title = room ? t("form.edit", { name: room.name }) : t("room.new");
  return html`
    <${Panel} panelId=${panelId} kind=${few ? "form form-few" : "form"} title=${title} sub=${room?.id} roomId=${room?.id} mayClose=${mayClose}>
      ${(close) => html`
        <div class="form-columns">
          ${!few && html`<${Contents} form=${form} here=${here} go=${go} />`}
          <form class="form-body" ref=${body} novalidate onScroll=${scrolled} onSubmit=${(event) => (event.preventDefault(), save(close))}>
            <${Sections} form=${form} few=${few} />
            ${room && may("deleteRoom") && html`
              <section class="form-delete"><h3>${t("delete.section")}</h3><p>${t("delete.section.what")}</p>
                <button type="button" class="button" aria-haspopup="dialog" onClick=${() => askDelete(room, close)}>${t("delete.ask")}</button></section>
            `}
            <button type="submit" class="unseen" tabindex="-1" aria-hidden="true"></button>
          </form>
        </div>
        <${Foot} form=${form} leave=${() => mayClose(close) && close()} save=${() => save(close)} />
      `}
    <//>
  `;
}
