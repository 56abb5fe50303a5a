"""Counters and short lists of addresses that the workers of an instance keep together, in the rate limiter's memory.

As there, each worker writes only its own words and adds up everybody's: no lock, and what a killed worker had counted
stays, so that a counter never falls while the instance lives (OBS-054).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from app.infrastructure.rate_table import COUNTERS, LIST_ENTRIES, LIST_WORDS, RateMemory

_REWRITE_MS: Final = 1000
"""An entry is not written more often: it may be asked for with each request."""


class Counters:
    """The counters by name."""

    def __init__(self, memory: RateMemory) -> None:
        """``memory`` is this worker's mapping."""
        self._words = memory.words
        self._at = {name: memory.counter_words(name) for name in COUNTERS}

    def add(self, name: str) -> None:
        """Count one more."""
        self._words[self._at[name][0]] += 1

    def total(self, name: str) -> int:
        """The instance's number."""
        return sum(self._words[at] for at in self._at[name])

    def put(self, name: str, value: int) -> None:
        """Write this worker's number where a counter holds a moment."""
        self._words[self._at[name][0]] = value

    def latest(self, name: str) -> int:
        """The largest number of any worker."""
        return max(self._words[at] for at in self._at[name])


class PeerList:
    """The addresses noted last, at most 20 of each worker."""

    def __init__(self, memory: RateMemory, name: str, now: Callable[[], float]) -> None:
        """``now``: a clock that all processes of the machine share, in seconds."""
        self._words = memory.words
        self._own, *self._others = memory.list_words(name)
        self._now = now

    def note(self, packed: bytes) -> None:
        """Note an address (16 bytes); it takes the place of its own earlier entry, or of the oldest one."""
        now_ms = int(self._now() * 1000)
        high, low = int.from_bytes(packed[:8], "big"), int.from_bytes(packed[8:], "big")
        words, oldest = self._words, self._own
        for at in self._entries(self._own):
            if words[at] and (words[at + 1], words[at + 2]) == (high, low):
                if now_ms - words[at] >= _REWRITE_MS:
                    words[at] = now_ms
                return
            if words[at] < words[oldest]:
                oldest = at
        # No time, address, time: a reader sees either no entry or the right address.
        words[oldest] = 0
        words[oldest + 1], words[oldest + 2] = high, low
        words[oldest] = now_ms

    def recent(self, within_sec: float) -> list[bytes]:
        """The addresses noted by any worker in that time, the latest first, at most 20."""
        since = int((self._now() - within_sec) * 1000)
        found: dict[bytes, int] = {}
        for first in (self._own, *self._others):
            for at in self._entries(first):
                noted_at = self._words[at]
                if noted_at and noted_at > since:
                    packed = (self._words[at + 1] << 64 | self._words[at + 2]).to_bytes(16, "big")
                    found[packed] = max(noted_at, found.get(packed, 0))
        return sorted(found, key=lambda packed: -found[packed])[:LIST_ENTRIES]

    @staticmethod
    def _entries(first: int) -> range:
        return range(first, first + LIST_ENTRIES * LIST_WORDS, LIST_WORDS)
