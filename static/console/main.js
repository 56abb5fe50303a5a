/** Entry of the console: words first, then the page, then who is there. */
import { render } from "preact";
import { html } from "./html.js";
import { startLanguage } from "./i18n.js";
import { linkToken, watchAddress } from "./link.js";
import { LinkOver } from "./link_over.js";
import { language, takeLeftBehind } from "./prefs.js";
import { me, resume, signIn } from "./session.js";
import { Console } from "./console.js";
import { SignIn } from "./sign_in.js";

function App() {
  if (me.value === undefined) return null;
  if (me.value !== null) return html`<${Console} />`;
  return linkToken ? html`<${LinkOver} />` : html`<${SignIn} />`;
}

/** A key that an old console stored is used once, and is gone whether or not it opens anything (CON-018). */
async function start() {
  watchAddress();
  const key = linkToken ? "" : takeLeftBehind();
  await startLanguage(language.value);
  render(html`<${App} />`, document.getElementById("app"));
  if (!key) return resume();
  return signIn(key).catch(resume);
}

start();
