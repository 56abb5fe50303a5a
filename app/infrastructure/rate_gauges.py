"""The words of one gauge: how much is open now, per key and in all (rate_limiter.py tells how and why)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from app.infrastructure.rate_budgets import ROUNDS
from app.infrastructure.rate_table import BUCKET_BYTES, KEYS_BYTES, Place, RateMemory


class GaugeEntry(NamedTuple):
    """Answer of ``RateLimiter.gauge_enter``."""

    entered: bool
    over: Literal["", "key", "total"]
    """Which cap refused."""


class Gauge:
    """One gauge: like a budget, without window; words are plain counts and nothing is ever dropped."""

    def __init__(self, memory: RateMemory, gauge: str) -> None:
        self._find = memory.bytes.find
        self._words = memory.words
        self._own, *self._others = memory.gauge_spans(gauge)
        self._total, *self._totals = memory.gauge_totals(gauge)
        self._rounds = ROUNDS if memory.worker_index == 0 else 0
        self._overflow: dict[int, int] = {}
        """Counts of keys that found their bucket full; other workers do not see them."""
        memory.bytes[self._own.start : self._own.start + self._own.buckets * BUCKET_BYTES] = bytes(
            self._own.buckets * BUCKET_BYTES
        )
        self._words[self._total] = 0

    def enter(self, place: Place, per_key: int, in_all: int) -> GaugeEntry:
        """Count one more of a key unless a cap (0 = none) is reached."""
        self._add(place, 1)
        for _ in range(self._rounds + 1):
            over_key = per_key > 0 and self.count(place) > per_key
            over_all = in_all > 0 and self.total() > in_all
            if not over_key and not over_all:
                return GaugeEntry(True, "")
        self._add(place, -1)
        return GaugeEntry(False, "key" if over_key else "total")

    def leave(self, place: Place) -> None:
        """Take back one that was counted here."""
        self._add(place, -1)

    def total(self) -> int:
        """How many are open in all workers together."""
        return self._words[self._total] + sum(self._words[at] for at in self._totals)

    def count(self, place: Place) -> int:
        """How many of a key are open in all workers together."""
        count = self._overflow.get(place.print_number, 0)
        for span in (self._own, *self._others):
            bucket = span.bucket(place)
            found = self._find(place.print_bytes, bucket, bucket + KEYS_BYTES)
            if found >= 0:
                count += self._words[(found + KEYS_BYTES) >> 3]
        return count

    def _add(self, place: Place, change: int) -> None:
        self._words[self._total] += change
        bucket = self._own.bucket(place)
        found = self._find(place.print_bytes, bucket, bucket + KEYS_BYTES)
        if found < 0 and place.print_number not in self._overflow:
            found = self._free_way(bucket)
            if found >= 0:
                self._words[found >> 3] = place.print_number
        if found < 0:
            self._overflow[place.print_number] = self._overflow.get(place.print_number, 0) + change
            if not self._overflow[place.print_number]:
                del self._overflow[place.print_number]
            return
        at = (found + KEYS_BYTES) >> 3
        self._words[at] += change
        if not self._words[at]:
            self._words[found >> 3] = 0

    def _free_way(self, bucket: int) -> int:
        for found in range(bucket, bucket + KEYS_BYTES, 8):
            if not self._words[found >> 3]:
                return found
        return -1
