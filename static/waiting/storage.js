// What the page keeps in the browser (PAG-159). Where storage is blocked it works from memory and says nothing.

export const root = document.documentElement;
export const room = root.dataset.room;
const memory = {};

export const recall = key => {
  try {
    return localStorage.getItem(key);
  } catch {
    return memory[key];
  }
};

/** Keep a text under a key; an empty one removes it. */
export const keep = (key, value) => {
  memory[key] = value;
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
