/** Tells at once that the server restarted, and offers to reload the page when the version changed (CON-051, CON-052). */
import { effect } from "@preact/signals";
import { timeOfDay } from "./format.js";
import { t } from "./i18n.js";
import { server } from "./store.js";
import { toast } from "./toasts.js";

/** Start and version of the first server this page saw; an older instance of a fleet is no restart. */
let first = null;

function look() {
  const now = server.value;
  if (!now) return;
  first ??= { startedAt: now.startedAt, version: now.version };
  if (now.startedAt <= first.startedAt) return;
  const changed = now.version !== first.version;
  const line = changed ? t("restart.version", { now: now.version, then: first.version }) : "";
  first.startedAt = now.startedAt;
  toast(t("restart.fact", { time: timeOfDay(now.startedAt) }), line, changed ? { label: t("restart.reload"), run: () => location.reload() } : undefined);
}

/** Watch the frames; returns what ends it. */
export const watchRestarts = () => effect(look);
