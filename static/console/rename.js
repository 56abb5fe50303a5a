/** The dialog that gives an operator another name (CON-202). The trail keeps the names that were written at the time. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { ask } from "./api.js";
import { onePressPerKey } from "./keyboard.js";
import { Panel, Refusal, useAct } from "./dialogs.js";

export function Rename({ panelId, person, after }) {
  const field = useRef(null);
  const run = () => ask("POST", `/operators/${person.id}`, { name: field.current.value });
  const { busy, problem, start } = useAct(run, after);
  const title = t("access.rename.title", { name: person.name });
  useLayoutEffect(() => field.current.select(), []); // before anything can be typed over it
  return html`
    <${Panel} panelId=${panelId} kind="box" title=${title} mayClose=${() => !busy}>
      ${(close) => html`
        <form onSubmit=${(event) => (event.preventDefault(), start(close))}>
          <h2>${title}</h2>
          <p class="box-body">${t("access.rename.body")}</p>
          <label class="box-typed box-named">${t("access.name")}<input ref=${field} type="text" required maxlength="80" readonly=${busy} autocomplete="off" defaultValue=${person.name} /></label>
          <${Refusal} text=${problem} />
          <div class="box-foot">
            <button type="button" class="button" onClick=${() => busy || close()}>${t("cancel")}</button>
            <button type="submit" class="fill" aria-busy=${busy} onKeyDown=${onePressPerKey}>${t("form.save")}</button>
          </div>
        </form>
      `}
    <//>
  `;
}
