/** Words of the console: one flat table a language, in locales/console.<language>.json. */
import { signal } from "@preact/signals";
import { keepLanguage } from "./prefs.js";

const words = signal({});

/** Language that was asked for last: the words of one before it may come later. */
let wanted = "";

/** Load a language's words; rejects when they cannot be fetched. Resolves with whether it is still the wanted one. */
async function load(tag) {
  wanted = tag;
  const answer = await fetch(new URL(`../locales/console.${tag}.json`, import.meta.url));
  if (!answer.ok) throw new Error(`words of ${tag}: ${answer.status}`);
  const table = await answer.json();
  if (wanted !== tag) return false;
  document.documentElement.lang = tag;
  words.value = table;
  return true;
}

/** Words for the first paint. */
export const startLanguage = (tag) => load(tag);

/** Change the language in place; on a failed fetch the present one stays. */
export async function setLanguage(tag) {
  if (await load(tag)) keepLanguage(tag);
}

/** Text of `key` with `{name}` replaced; components that call it are drawn again when the language changes. */
export function t(key, values = {}) {
  const text = words.value[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** Like `t`, for values that are elements: an array of strings and elements. */
export function rich(key, values) {
  const parts = (words.value[key] ?? key).split(/\{(\w+)\}/);
  return parts.map((part, place) => (place % 2 ? (values[part] ?? "") : part));
}
