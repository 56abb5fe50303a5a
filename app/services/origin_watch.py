"""What visitors met at the sites of inline rooms within the last minute, on this instance and in the fleet.

A knock at ``/`` may succeed while every real page is a 502, so this outweighs the knocks (OBS-048). Visitors who hang
up count neither as failures nor as anything else. Source: OBS-048, OBS-121.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.core import metrics
from app.core.clock import mono
from app.infrastructure.fleet_records import InstanceRecord
from app.infrastructure.metric_book import MetricBook

MINUTE_SEC: Final = 60.0
LEAST: Final = 5
"""Failures within a minute below which nothing is said of a site."""
PART: Final = 2
"""A site is down when at least one request of so many fails."""
ORIGINS: Final = "origins"
"""Member of an instance's figures: room → [failed, proxied] of the last minute."""
_FAILED: Final = metrics.ORIGIN_ERRORS.name
_PROXIED: Final = frozenset({metrics.PROXY_GATED.name, metrics.PROXY_BYPASSED.name})


class Met(NamedTuple):
    """Requests of the last minute."""

    failed: int
    proxied: int

    @property
    def is_down(self) -> bool:
        """Visitors find the site down (OBS-121)."""
        return self.failed >= LEAST and self.failed * PART >= self.proxied


class LastMinute:
    """How much a number that only grows grew within the last minute."""

    def __init__(self, steady: Callable[[], float] = mono) -> None:
        self._steady = steady
        self._seen: deque[tuple[float, int]] = deque()

    def saw(self, total: int) -> int:
        """Note the number of this moment; the growth."""
        now = self._steady()
        self._seen.append((now, total))
        while len(self._seen) > 1 and self._seen[1][0] <= now - MINUTE_SEC:
            self._seen.popleft()
        return max(0, total - self._seen[0][1])


class OriginWatch:
    """One instance's look at the counters of its workers."""

    def __init__(self, book: MetricBook, steady: Callable[[], float] = mono) -> None:
        self._book = book
        self._steady = steady
        self._minutes: dict[str, tuple[LastMinute, LastMinute]] = {}
        self._has_looked = False

    def look(self, room_ids: Iterable[str]) -> dict[str, Met]:
        """What was met at the sites of these rooms; those nobody asked for are left out. To be called every second."""
        wanted = set(room_ids)
        self._minutes = {room_id: pair for room_id, pair in self._minutes.items() if room_id in wanted}
        failed: Counter[str] = Counter()
        proxied: Counter[str] = Counter()
        for (name, labels), values in self._book.everything().items() if wanted else ():
            if name == _FAILED:
                failed[labels[0]] += values[0]
            elif name in _PROXIED:
                proxied[labels[0]] += values[0]
        found = {room_id: self._grown(room_id, failed[room_id], proxied[room_id]) for room_id in wanted}
        self._has_looked = True
        return {room_id: met for room_id, met in found.items() if met.proxied or met.failed}

    def _grown(self, room_id: str, failed: int, proxied: int) -> Met:
        pair = self._minutes.get(room_id)
        if pair is None:
            pair = self._minutes[room_id] = LastMinute(self._steady), LastMinute(self._steady)
            if self._has_looked:  # a room that came while this process looked on has counted from 0
                pair[0].saw(0), pair[1].saw(0)
        return Met(pair[0].saw(failed), pair[1].saw(proxied))


def of_fleet(own: Mapping[str, Met], others: Sequence[InstanceRecord]) -> dict[str, Met]:
    """The sums over this instance and the others."""
    found = dict(own)
    for record in others:
        kept: Mapping[str, Any] = record.figures.get(ORIGINS, {})
        for room_id, (failed, proxied) in kept.items():
            known = found.get(room_id, Met(0, 0))
            found[room_id] = Met(known.failed + failed, known.proxied + proxied)
    return found
