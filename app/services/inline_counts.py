"""What this process has forwarded, and what failed, for health and metrics (INL-097, INL-177, INL-199 … INL-203).

Belongs here: counters of one process since its start, by rooms that exist. Not here: their sum over instances.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

import structlog

from app.core.clock import mono
from app.domain.inline.failures import Failure

LOG_EVERY_SEC = 60.0

log = structlog.get_logger(__name__)


class Passed(StrEnum):
    """Names of the totals, as in the ``inline`` block."""

    GATED = "gatedTotal"
    BYPASSED = "bypassedTotal"
    CLIENT_ABORTS = "clientAbortsTotal"
    OVERLOADED = "overloadedTotal"
    BYPASS_REFUSED = "bypassRefusedTotal"
    BACKEND_OPEN = "backendDownOpenTotal"
    BACKEND_CLOSED = "backendDownClosedTotal"


class InlineCounts:
    """Counters; they never go down."""

    def __init__(self) -> None:
        self.by_room: Counter[tuple[str, Passed]] = Counter()
        """(room id, what)."""
        self.failures: Counter[tuple[str, Failure]] = Counter()
        """(room id, class)."""
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}

    def count(self, room_id: str, what: Passed) -> None:
        """One more."""
        self.by_room[room_id, what] += 1

    def failed(self, room_id: str, failure: Failure) -> None:
        """An origin failed a visitor; told in the log at most once a minute per room and class (INL-183)."""
        self.failures[room_id, failure] += 1
        self._say("origin_failed", room_id, failure.value)

    def backend_down(self, room_id: str, *, is_open: bool) -> None:
        """A request was answered, or let through, without the live state (INL-197)."""
        self.by_room[room_id, Passed.BACKEND_OPEN if is_open else Passed.BACKEND_CLOSED] += 1
        self._say("inline_backend_down", room_id, "open" if is_open else "closed")

    def _say(self, event: str, room_id: str, kind: str) -> None:
        now = mono()
        said, number = self._logged.get((room_id, kind), (-LOG_EVERY_SEC, 0))
        if now - said >= LOG_EVERY_SEC:
            log.warning(event, room=room_id, kind=kind, count=number + 1)
            self._logged[room_id, kind] = now, 0
        else:
            self._logged[room_id, kind] = said, number + 1
