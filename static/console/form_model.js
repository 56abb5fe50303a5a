/** What an open room form holds: raw texts, mistakes, and what the room was when the form was opened. */
import { batch, computed, signal } from "@preact/signals";
import { ask } from "./api.js";
import { t } from "./i18n.js";
import { expectOwn, putRoom, roomOf } from "./store.js";
import { words } from "./toasts.js";
import { FIELDS, readField, toRaw, WHOLES } from "./form_fields.js";
import { isScheduled } from "./doors.js";

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** A server's value as the form would show it, so that both sides are compared alike. */
const alike = (name, one, other) => same(toRaw(name, one), toRaw(name, other));

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
    /** The room as it was when the form was opened or last saved. */
    this.room = signal(room);
    this.base = Object.fromEntries(this.names.map((name) => [name, room ? readField(name, room) : FIELDS[name].first]));
    this.raw = signal(Object.fromEntries(this.names.map((name) => [name, toRaw(name, this.base[name])])));
    this.results = computed(() => Object.fromEntries(this.names.map((name) => [name, FIELDS[name].parse(this.raw.value[name], this.raw.value)])));
    this.changed = computed(() => this.names.filter((name) => this.isShown(name) && !same(this.raw.value[name], toRaw(name, this.base[name]))));
  }

  /** Id of the room; null while it is not made. */
  get id() {
    return this.room.value?.id ?? null;
  }

  /** Fields that can be set. */
  get names() {
    return Object.keys(FIELDS).filter((name) => name !== "id" || this.id === null);
  }

  /** Whether a field is there, as the others stand; one that is not keeps what the room has. */
  isShown(name) {
    return FIELDS[name].shown?.(this.raw.value) ?? true;
  }

  /** The room as the last frame showed it; null for a new one, or one that is gone. */
  #now() {
    return this.id === null ? null : roomOf(this.id).peek();
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
    const touched = this.changed.value.includes(name);
    /* A time that was set is over one day, and stays what it is. */
    const judged = touched || (this.tried.value && FIELDS[name].kind !== "moment");
    return error && judged && this.isShown(name) ? t(error.key, error.values) : "";
  }

  firstWrong() {
    return this.names.find((name) => this.mistake(name));
  }

  /** Changed fields that somebody else changed meanwhile to something else (CON-192). */
  #overtaken() {
    const now = this.#now();
    if (!now) return {};
    const theirs = (name) => readField(name, now);
    const agrees = (name) => same(FIELDS[name].parse(toRaw(name, theirs(name)), this.raw.value).value, this.results.value[name].value);
    const met = this.changed.value.filter((name) => !alike(name, theirs(name), this.base[name]) && !agrees(name));
    return Object.fromEntries(met.map((name) => [name, theirs(name)]));
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

  /** Value of a field as it will be: what was typed, else what the room has by now. */
  #held(name) {
    if (this.changed.value.includes(name)) return this.results.value[name].value;
    const now = this.#now();
    return now ? readField(name, now) : this.base[name];
  }

  #payload() {
    const body = {};
    for (const name of this.changed.value) {
      const { of, sent = name } = FIELDS[name];
      if (of) body[of] = WHOLES[of]((member) => this.#held(`${of}.${member}`));
      else body[sent] = this.results.value[name].value;
    }
    if (body.name === "") delete body.name;
    return { ...body, id: this.id ?? body.id };
  }

  /**
   * Whether it can be sent as it stands; what is in the way is shown. What the server refused before is its to judge
   * again: the cause may lie in another field, or be gone.
   */
  isReady() {
    this.tried.value = true;
    this.refusals.value = {};
    if (this.names.some((name) => this.#finding(name))) return false;
    this.conflicts.value = this.#overtaken();
    return Object.keys(this.conflicts.value).length === 0;
  }

  /** Whether it calls off a drop, which lets a pre-queue in. */
  opensDoors() {
    const now = this.#now();
    return now !== null && isScheduled(now) && this.changed.value.includes("opensAt") && this.results.value.opensAt.value === null;
  }

  /**
   * Save the changed fields in one request. Returns the server's answer, or null when something is to be put right. What is
   * typed while the answer is under way stays in the form, as changes of what is saved by then.
   */
  async save() {
    if (this.busy.value || !this.isReady()) return null;
    this.busy.value = true;
    const sent = this.raw.value;
    try {
      if (this.id !== null && this.changed.value.includes("rate")) expectOwn(this.id, "rate", this.results.value.rate.value);
      const answer = await ask("POST", "/rooms", this.#payload());
      putRoom(answer.room);
      this.#saved(roomOf(answer.room.id).peek(), sent);
      return answer;
    } catch (refusal) {
      this.#refused(refusal, sent);
      return null;
    } finally {
      this.busy.value = false;
    }
  }

  #saved(room, sent) {
    const typed = this.raw.value;
    batch(() => {
      this.room.value = room;
      this.base = Object.fromEntries(this.names.map((name) => [name, readField(name, room)]));
      this.raw.value = Object.fromEntries(this.names.map((name) => [name, typed[name] === sent[name] ? toRaw(name, this.base[name]) : typed[name]]));
      this.tried.value = false;
    });
  }

  /** The field that a name in the server's refusal means; of a setting of several, the first that the sentence names. */
  #placeOf(named, sentence) {
    const [whole, member] = named.replace(/^ratePerMinute$/, "rate").split(/[.[]/);
    if (this.names.includes(whole)) return whole;
    const places = this.names.filter((name) => FIELDS[name].of === whole && this.isShown(name));
    const rank = (name) => (name === `${whole}.${member}` ? -2 : sentence.indexOf(name.slice(whole.length + 1)) >>> 0);
    return places.sort((one, other) => rank(one) - rank(other))[0];
  }

  /** Show why it was refused: at the fields, but for those that hold something else by now. */
  #refused(refusal, sent) {
    const placed = refusal.fields.map((field) => this.#placeOf(field, refusal.message));
    const named = refusal.code === "target_url_required" ? ["targetUrl"] : refusal.code === "invalid_room_id" ? ["id"] : placed;
    const known = named.filter((name) => this.names.includes(name) && this.raw.value[name] === sent[name]);
    batch(() => {
      this.refusals.value = Object.fromEntries(known.map((name, place) => [name, place === 0 ? words(refusal) : t("form.refused")]));
      if (known.length > 0) return;
      const unsure = refusal.status === 0 || refusal.status === 503;
      this.problem.value = unsure ? `${words(refusal)} ${t("form.unsure")}` : words(refusal);
    });
  }
}
