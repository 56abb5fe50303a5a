/** What an open room form holds: raw texts, mistakes, and what the room was when the form was opened. */
import { batch, computed, signal } from "@preact/signals";
import { ask } from "./api.js";
import { t } from "./i18n.js";
import { expectOwn, putRoom, roomOf } from "./store.js";
import { words } from "./toasts.js";
import { FIELDS, toRaw } from "./form_fields.js";

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** Parsed form of a server's value, so that both sides are compared alike. */
const parsed = (name, value) => FIELDS[name].parse(toRaw(name, value)).value;

export class RoomForm {
  /** Server's words about fields, by name; the page's own mistakes are computed. */
  refusals = signal({});
  problem = signal("");
  busy = signal(false);
  /** Mistakes in untouched fields are not shown before the first try to save. */
  tried = signal(false);
  /** Fields that somebody else changed since, by name → the value now. */
  conflicts = signal({});

  /** `room` is the server's object to edit, or null for a new room. */
  constructor(room) {
    this.id = room?.id ?? null;
    this.names = Object.keys(FIELDS).filter((name) => name !== "id" || !room);
    this.base = Object.fromEntries(this.names.map((name) => [name, room ? (room[name] ?? null) : FIELDS[name].first]));
    this.raw = signal(Object.fromEntries(this.names.map((name) => [name, toRaw(name, this.base[name])])));
    this.results = computed(() => Object.fromEntries(this.names.map((name) => [name, FIELDS[name].parse(this.raw.value[name])])));
    this.changed = computed(() => this.names.filter((name) => !same(this.raw.value[name], toRaw(name, this.base[name]))));
  }

  set(name, raw) {
    batch(() => {
      this.raw.value = { ...this.raw.value, [name]: raw };
      const { [name]: _, ...others } = this.refusals.value;
      this.refusals.value = others;
      this.problem.value = "";
    });
  }

  /** The words at a field: the server's refusal, else the page's own finding. */
  mistake(name) {
    return this.refusals.value[name] || this.#finding(name);
  }

  /** What the page itself finds wrong with a field, once the field was touched. */
  #finding(name) {
    const { error } = this.results.value[name];
    if (!error || !(this.tried.value || this.changed.value.includes(name))) return "";
    return t(error.key, error.values);
  }

  firstWrong() {
    return this.names.find((name) => this.mistake(name));
  }

  /** Changed fields that somebody else changed meanwhile to something else (CON-192). */
  #overtaken() {
    const now = this.id === null ? null : roomOf(this.id).peek();
    if (!now) return {};
    const met = this.changed.value.filter((name) => !same(parsed(name, now[name]), parsed(name, this.base[name])) && !same(parsed(name, now[name]), this.results.value[name].value));
    return Object.fromEntries(met.map((name) => [name, now[name] ?? null]));
  }

  /** Settle one conflict: keep what was typed, or take the server's value. */
  settle(name, keep) {
    const { [name]: now, ...others } = this.conflicts.value;
    batch(() => {
      this.base = { ...this.base, [name]: now };
      this.conflicts.value = others;
      this.set(name, keep ? this.raw.value[name] : toRaw(name, now));
    });
  }

  #payload() {
    const body = Object.fromEntries(this.changed.value.map((name) => [FIELDS[name].sent ?? name, this.results.value[name].value]));
    if (body.name === "") delete body.name;
    return { ...body, id: this.id ?? body.id };
  }

  /**
   * Save the changed fields in one request. Returns the server's answer, or null when something is to be put right.
   * What the server refused before is its to judge again: the cause may lie in another field, or be gone.
   */
  async save() {
    this.tried.value = true;
    if (this.busy.value) return null;
    this.refusals.value = {};
    if (this.names.some((name) => this.#finding(name))) return null;
    this.conflicts.value = this.#overtaken();
    if (Object.keys(this.conflicts.value).length > 0) return null;
    this.busy.value = true;
    try {
      if (this.id !== null && this.changed.value.includes("rate")) expectOwn(this.id, "rate", this.results.value.rate.value);
      const answer = await ask("POST", "/rooms", this.#payload());
      putRoom(answer.room);
      return answer;
    } catch (refusal) {
      this.#refused(refusal);
      return null;
    } finally {
      this.busy.value = false;
    }
  }

  #refused(refusal) {
    const place = (field) => field.split(/[.[]/)[0].replace(/^ratePerMinute$/, "rate");
    const named = refusal.code === "target_url_required" ? ["targetUrl"] : refusal.code === "invalid_room_id" ? ["id"] : refusal.fields.map(place);
    const known = named.filter((name) => this.names.includes(name));
    batch(() => {
      this.refusals.value = Object.fromEntries(known.map((name, place) => [name, place === 0 ? words(refusal) : t("form.refused")]));
      if (known.length > 0) return;
      const unsure = refusal.status === 0 || refusal.status === 503;
      this.problem.value = unsure ? `${words(refusal)} ${t("form.unsure")}` : words(refusal);
    });
  }
}
