/** The stack of open dialogs and sheets. Kept apart from the page, so that a form outlives a lost session (CON-021). */
import { signal } from "@preact/signals";

/** Open panels, the newest last: `{id, component, props}`. */
export const panels = signal([]);

let next = 1;

/** Open `component` as a panel; its props get `close`, which takes it away again. */
export function openPanel(component, props = {}) {
  const id = next++;
  panels.value = [...panels.value, { id, component, props }];
}

/** Take a panel out of the stack; its element has given the focus back by then. */
export function dropPanel(id) {
  panels.value = panels.value.filter((panel) => panel.id !== id);
}
