// What the page keeps in the browser (PAG-159). Where storage is blocked it works from memory and says nothing; at a
// customer's own URL it keeps nothing about the place, which other scripts of that site could read (INL-212).

export const root = document.documentElement;
export const room = root.dataset.room;
/** '' on the queue's own host; at a customer's URL 'get', or 'form' when a form was answered by this page. */
export const inline = root.dataset.inline || '';
const memory = {};
const kept = key => !inline || /^qm_(lang|theme)$/.test(key);

export const recall = key => {
  try {
    return kept(key) ? localStorage.getItem(key) : memory[key];
  } catch {
    return memory[key];
  }
};

/** Keep a text under a key; an empty one removes it. */
export const keep = (key, value) => {
  memory[key] = value;
  if (!kept(key)) return;
  try {
    if (value) localStorage.setItem(key, value);
    else localStorage.removeItem(key);
  } catch {
    // Blocked or full: the memory above has it for as long as the page lives.
  }
};

export const TOKEN = 'qm_' + room;
export const NOTIFY = 'qm_notify_' + room;
const META = 'qm_meta_' + room;

/** What the page remembers about its place: {ticket, first, notice, moves}. */
export const meta = () => {
  try {
    return JSON.parse(recall(META)) || {};
  } catch {
    return {};
  }
};

export const remember = changes => keep(META, JSON.stringify({ ...meta(), ...changes }));
