/** What a rate control holds between the hand and the server: a drag, typed text, a request under way, a refusal. */
import { batch, signal } from "@preact/signals";
import { ask } from "./api.js";
import { t } from "./i18n.js";
import { number } from "./format.js";
import { expectOwn, putRoom, roomOf } from "./store.js";
import { announce, refused, words } from "./toasts.js";

const MOST = 100_000;

/** Ends of the slider's range; it grows to the next one that holds the rate. */
const RANGES = [300, 600, 1500, 3000, 6000, 15_000, 30_000, 60_000, MOST];

/** A key's value is sent this long after the last key (CON-091). */
const SETTLE_MS = 400;

/** How long the words of a refusal stand beside the control. */
const REFUSAL_MS = 10_000;

const STEPS = { ArrowLeft: -10, ArrowDown: -10, ArrowRight: 10, ArrowUp: 10, PageDown: -50, PageUp: 50 };

const clamp = (value, most) => Math.min(most, Math.max(0, value));

export class RateControl {
  /** Value under the hand, not sent yet. */
  draft = signal(null);
  /** Text in the field while it differs from the server's value. */
  typed = signal(null);
  invalid = signal(false);
  /** Value the server is being asked for. */
  sending = signal(null);
  /** Value that the server is asked for next. */
  next = signal(null);
  refusal = signal("");

  #id;
  #timer = null;
  #end = RANGES[0];

  constructor(id) {
    this.#id = id;
  }

  stop() {
    clearTimeout(this.#timer);
  }

  /** The value to show: the hand's, else the last one on its way, else the server's (CON-248). */
  value(room) {
    return this.draft.value ?? this.next.value ?? this.sending.value ?? room.rate ?? 0;
  }

  /** End of the slider's range; shrinks only while the control is not in use. */
  range(room, inUse) {
    const needed = RANGES.find((end) => end >= this.value(room)) ?? MOST;
    this.#end = inUse || this.draft.value !== null ? Math.max(this.#end, needed) : needed;
    return this.#end;
  }

  drag(value) {
    batch(() => {
      this.draft.value = value;
      this.typed.value = null;
      this.invalid.value = false;
      this.refusal.value = "";
    });
  }

  /** The slider was let go or left. */
  letGo() {
    clearTimeout(this.#timer);
    if (this.draft.value !== null) this.#send(this.draft.value);
  }

  /** Arrows 10, with Shift 1, Page keys 50, Home and End to the ends (CON-212). */
  key(event, value, range) {
    const ends = { Home: 0, End: range };
    let target;
    if (event.key in ends) target = ends[event.key];
    else if (event.key in STEPS) target = clamp(value + STEPS[event.key] / (event.shiftKey ? 10 : 1), Math.max(range, value));
    else if (event.key === "Enter") return this.letGo();
    else return undefined;
    event.preventDefault();
    this.drag(Math.round(target));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.letGo(), SETTLE_MS);
    return undefined;
  }

  type(text) {
    batch(() => {
      this.typed.value = text;
      this.draft.value = null;
      this.invalid.value = false;
      this.refusal.value = "";
    });
  }

  fieldKey(event) {
    if (event.key === "Enter") this.enter();
    if (event.key === "Escape" && this.typed.value !== null) {
      event.stopPropagation();
      batch(() => {
        this.typed.value = null;
        this.invalid.value = false;
      });
    }
  }

  /** Enter, or leaving the field: a whole number in range is sent, anything else stays as it was typed (CON-092). */
  enter() {
    const text = this.typed.value?.trim();
    if (text === undefined) return;
    const value = Number(text.replaceAll(",", ""));
    if (!/^[\d,]+$/.test(text) || value > MOST) {
      this.invalid.value = true;
      return;
    }
    this.#send(value);
  }

  /** Send `value`; while a request is under way only the last one waits. */
  async #send(value) {
    batch(() => {
      this.draft.value = this.typed.value = null;
      this.invalid.value = false;
    });
    if (this.sending.value !== null) {
      this.next.value = value;
      return;
    }
    if (value === roomOf(this.#id).peek()?.rate) return;
    this.sending.value = value;
    expectOwn(this.#id, "rate", value);
    try {
      const answer = await ask("POST", `/rooms/${encodeURIComponent(this.#id)}/rate`, { ratePerMinute: value });
      this.#settled(answer.room);
    } catch (refusal) {
      this.#failed(refusal, value);
    }
    this.#sendNext();
  }

  #settled(room) {
    batch(() => {
      putRoom(room);
      this.sending.value = null;
    });
    announce(t("rate.done", { name: room.name, n: room.rate }));
  }

  #failed(refusal, value) {
    const room = roomOf(this.#id).peek();
    const why = words(refusal);
    batch(() => {
      this.sending.value = null;
      this.refusal.value = why;
    });
    setTimeout(() => this.refusal.value === why && (this.refusal.value = ""), REFUSAL_MS);
    if (!room || refusal.status === 401) return;
    const still = t("rate.still", { n: number(room.rate) });
    refused(t("rate.failed", { name: room.name }), refusal, still, { label: t("again"), run: () => this.#send(value) });
  }

  #sendNext() {
    const value = this.next.value;
    this.next.value = null;
    if (value !== null) this.#send(value);
  }
}
