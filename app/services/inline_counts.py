"""What this process has forwarded, and what failed, for health and metrics (INL-097, INL-177, INL-199 … INL-203).

Belongs here: counters of one process since its start, by rooms that exist. Not here: their sum over instances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import structlog

from app.core import metrics
from app.core.metrics import Metric
from app.domain.inline.failures import Failure
from app.infrastructure.metric_book import MetricBook, Tally

FAILED: Final = "failed\n"
"""Beginning of the names of origin failures among the totals: then room, line end, class."""

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


_METRICS: Final[Mapping[Passed, Metric]] = {
    Passed.GATED: metrics.PROXY_GATED,
    Passed.BYPASSED: metrics.PROXY_BYPASSED,
    Passed.CLIENT_ABORTS: metrics.CLIENT_ABORTS,
    Passed.OVERLOADED: metrics.PROXY_OVERLOADED,
    Passed.BYPASS_REFUSED: metrics.BYPASS_REFUSED,
}


def inline_block(totals: Counter[str]) -> dict[str, Any]:
    """Members of the ``inline`` block that are counted (INL-199)."""
    errors: dict[str, dict[str, int]] = {}
    for name, number in totals.items():
        if name.startswith(FAILED):
            _, room_id, failure = name.split("\n")
            errors.setdefault(room_id, dict.fromkeys(map(str, Failure), 0))[failure] = number
    return {
        **{what.value: totals[what] for what in Passed},
        "originErrorsTotal": sum(sum(of_room.values()) for of_room in errors.values()),
        "originErrors": errors,
    }


class InlineCounts:
    """Counters; they never go down. ``totals``: where the fleet's sums are made from; ``book``: of the instance."""

    def __init__(
        self, totals: Counter[str], book: MetricBook | None, may_say: Callable[[str], bool] = lambda _: True
    ) -> None:
        """``may_say``: whether a line of this kind is due, whichever worker writes it."""
        self.failures: Counter[tuple[str, Failure]] = Counter()
        """(room id, class)."""
        self._totals = totals
        self._book = book
        self._tallies: dict[tuple[str, Passed], Tally | None] = {}
        self._may_say = may_say
        self._unsaid: Counter[str] = Counter()

    def count(self, room_id: str, what: Passed) -> None:
        """One more."""
        self._totals[what] += 1
        try:
            tally = self._tallies[room_id, what]
        except KeyError:
            tally = self._tally(room_id, what)
        if tally is not None:
            tally.add()

    def failed(self, room_id: str, failure: Failure) -> None:
        """An origin failed a visitor; told in the log at most once a minute per room and class (INL-183)."""
        self.failures[room_id, failure] += 1
        self._totals[f"{FAILED}{room_id}\n{failure}"] += 1
        if self._book is not None:
            self._book.tally(metrics.ORIGIN_ERRORS, room_id, failure.value).add()
        self._say("origin_failed", room_id, failure.value, f"{room_id} {failure.value}")

    def backend_down(self, room_id: str, *, is_open: bool) -> None:
        """A request was answered, or let through, without the live state (INL-197)."""
        self._totals[Passed.BACKEND_OPEN if is_open else Passed.BACKEND_CLOSED] += 1
        mode = "open" if is_open else "closed"
        if self._book is not None:
            self._book.tally(metrics.BACKEND_DOWN, mode).add()
        self._say("inline_backend_down", room_id, mode, room_id)

    def _tally(self, room_id: str, what: Passed) -> Tally | None:
        metric = _METRICS[what]
        labels = (room_id,) if metric.labels else ()
        made = None if self._book is None else self._book.tally(metric, *labels)
        self._tallies[room_id, what] = made
        return made

    def _say(self, event: str, room_id: str, kind: str, subject: str) -> None:
        """A line at most once a minute for each ``subject``; ``count``: how often it happened here since the last."""
        what = f"{event} {subject}"
        self._unsaid[what] += 1
        if self._may_say(what):
            log.warning(event, room=room_id, kind=kind, count=self._unsaid.pop(what))
