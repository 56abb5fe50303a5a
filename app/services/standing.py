"""How this instance stands: ready, degraded, and why, the same from every one of its processes (OBS-002 … OBS-021).

Read from memory that the processes share, so that no store is asked (OBS-010). Belongs here: putting together what
processes found out. Not here: finding it out (instance_watch.py, storage_watch.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import ujson

from app.core import metrics
from app.core.clock import mono, wall_ms
from app.core.metrics import Metric
from app.core.runtime import Runtime
from app.domain.incidents import Incident, Onsets, codes, in_order
from app.domain.storage_state import StorageTimes, Unready
from app.infrastructure.metric_book import MetricBook

COMMIT_FAILED: Final = "storage is degraded: events journal commit failed"


@dataclass(frozen=True, slots=True)
class Stand:
    """One moment."""

    is_stopping: bool
    reasons: tuple[tuple[str, str], ...]
    """Code and text of what makes it not ready (OBS-012)."""
    incidents: tuple[Incident, ...]
    storage_ok: bool
    valkey: str
    """``up`` or ``down``."""
    valkey_ever_connected: bool

    @property
    def ready(self) -> bool:
        """This instance should get traffic."""
        return not self.reasons

    @property
    def status(self) -> str:
        """``ok``, ``degraded`` or ``shutting_down``."""
        if self.is_stopping:
            return "shutting_down"
        return "degraded" if self.incidents else "ok"

    @property
    def degraded(self) -> tuple[str, ...]:
        """Codes of the incidents, each once."""
        return tuple(codes(self.incidents))

    @property
    def recovering_rooms(self) -> int:
        """Rooms that are being rebuilt."""
        return sum(one.code == "room_recovering" for one in self.incidents)


class Standing:
    """One process's reading of it."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        book: MetricBook,
        is_full: Callable[[], bool],
        own_valkey: Callable[[], tuple[bool, bool]] = lambda: (False, False),
        refusing: Callable[[], bool] = lambda: False,
    ) -> None:
        """``own_valkey``: whether this process itself finds Valkey down, and whether it ever reached it;
        ``refusing``: whether it refuses joins because their commits did not come."""
        self._runtime = runtime
        self._book = book
        self._is_full = is_full
        self._own_valkey = own_valkey
        self._refusing = refusing
        self._onsets = Onsets()
        self._text = ""
        self._found: tuple[Incident, ...] = ()

    def storage_times(self) -> StorageTimes:
        """When the journal last took a commit, and when it last did not."""
        return StorageTimes(self._book.latest(metrics.LAST_COMMIT_MS), self._book.latest(metrics.LAST_ERROR_MS))

    def now(self) -> Stand:
        """How it stands now."""
        book, runtime = self._book, self._runtime
        times = self.storage_times()
        storage_ok = times.is_ok(int(mono() * 1000), runtime.settings.alert_every_ms) and not self._refusing()
        own_down, own_ever = self._own_valkey()
        is_down = own_down or bool(book.latest(metrics.VALKEY_DOWN))
        own = []
        if not storage_ok:
            own.append(self._since(metrics.STORAGE_BAD_SINCE, "storage_degraded", self._storage_text()))
        if is_down:
            own.append(self._since(metrics.VALKEY_DOWN_SINCE, "valkey_down", self._valkey_text()))
        dated = self._onsets.dated(own, wall_ms())
        return Stand(
            is_stopping=runtime.stopping.is_set(),
            reasons=self._reasons(times),
            incidents=tuple(in_order([*dated, *self._shared()])),
            storage_ok=storage_ok,
            valkey="down" if is_down else "up",
            valkey_ever_connected=own_ever or bool(book.latest(metrics.VALKEY_EVER)),
        )

    def _since(self, began: Metric, code: str, text: str) -> Incident:
        """An incident with the time that the watch of the instance gave it, so that every process tells the same."""
        return Incident(code, text, since=self._book.latest(began) or None)

    def _reasons(self, times: StorageTimes) -> tuple[tuple[str, str], ...]:
        found = []
        unready = Unready(self._book.latest(metrics.UNREADY))
        if unready and times.is_failing:  # the first good commit ends it, before the next frame
            found.append(("storage_degraded", unready.text))
        if self._runtime.stopping.is_set():
            found.append(("shutting_down", "this instance is stopping"))
        if self._is_full():
            found.append(("connection_limit", "this instance holds as many connections as it may"))
        return tuple(found)

    def _valkey_text(self) -> str:
        trouble = self._book.text("valkey_trouble")
        return f"Valkey cannot be reached: {trouble}" if trouble else "Valkey cannot be reached"

    def _storage_text(self) -> str:
        error = self._book.text("storage_error")
        return f"{COMMIT_FAILED}: {error}" if error else COMMIT_FAILED

    def _shared(self) -> tuple[Incident, ...]:
        """What the watch of the instance found last (instance_watch.py)."""
        text = self._book.text("incidents")
        if text != self._text:
            self._text, self._found = text, parse_incidents(text)
        return self._found


def incidents_text(incidents: list[Incident], most: int) -> str:
    """Incidents as text of at most ``most`` bytes; those that do not fit are left out."""
    parts: list[str] = []
    size = 2
    for one in incidents:
        part = ujson.dumps([one.code, one.text, one.room_id, one.since], ensure_ascii=False)
        size += len(part.encode()) + 1
        if size > most:
            break
        parts.append(part)
    return f"[{','.join(parts)}]"


def parse_incidents(text: str) -> tuple[Incident, ...]:
    """The reverse."""
    return tuple(Incident(*members) for members in ujson.loads(text)) if text else ()
