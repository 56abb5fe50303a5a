"""The last few numbers of each key (times of its requests, tickets it was given), over all workers of an instance.

Lies in the memory of the rate limiter (rate_table.py) and is kept the same way: each worker writes its own area only,
readers take all areas together, nothing is ever locked. A trace feeds guesses, never a limit: a number that a reader
misses while a way is given to another key does no harm. Full, it drops the least recently used key of the bucket.
"""

from __future__ import annotations

from array import array
from typing import Final

from app.infrastructure.rate_table import KEYS_BYTES, TRACE_BYTES, TRACE_WORDS, WAYS, Place, RateMemory, Span

_NO_WORDS: Final = memoryview(bytes(TRACE_WORDS * 8)).cast("Q")


class Trace:
    """One trace: its tables in all workers' areas, and when each of its own ways was last used."""

    def __init__(self, memory: RateMemory, trace: str) -> None:
        self._find = memory.bytes.find
        self._words = memory.words
        self._own, *self._others = memory.trace_spans(trace)
        self._used = array("Q", bytes(self._own.buckets * WAYS * 8))
        self._turn = 0

    def add(self, place: Place, number: int) -> list[int]:
        """Put ``number`` in the place of the smallest; the numbers of the key before that, in no order."""
        bucket = _bucket(self._own, place)
        found = self._find(place.print_bytes, bucket, bucket + KEYS_BYTES)
        first_way = place.spread % self._own.buckets * WAYS
        is_new = found < 0
        if is_new:
            found = self._insert(place, bucket, first_way)
        self._turn += 1
        self._used[first_way + (found - bucket) // 8] = self._turn
        at = _words_at(bucket, found)
        if is_new:
            self._words[at] = number
            return self._elsewhere(place)
        kept = self._words[at : at + TRACE_WORDS].tolist()
        self._words[at + kept.index(min(kept))] = number
        return [*filter(None, kept), *self._elsewhere(place)]

    def read(self, place: Place) -> list[int]:
        """All numbers of a key, in no order."""
        return [*self._of(self._own, place), *self._elsewhere(place)]

    def _insert(self, place: Place, bucket: int, first_way: int) -> int:
        """Give the key the least recently used way of its bucket; byte offset of its fingerprint."""
        used = self._used[first_way : first_way + WAYS]
        found = bucket + used.index(min(used)) * 8
        at = _words_at(bucket, found)
        # No key, no numbers, key: a reader never takes the numbers of one key for those of another.
        self._words[found >> 3] = 0
        self._words[at : at + TRACE_WORDS] = _NO_WORDS
        self._words[found >> 3] = place.print_number
        return found

    def _elsewhere(self, place: Place) -> list[int]:
        return [number for span in self._others for number in self._of(span, place)] if self._others else []

    def _of(self, span: Span, place: Place) -> list[int]:
        bucket = _bucket(span, place)
        found = self._find(place.print_bytes, bucket, bucket + KEYS_BYTES)
        if found < 0:
            return []
        at = _words_at(bucket, found)
        return list(filter(None, self._words[at : at + TRACE_WORDS].tolist()))


def _bucket(span: Span, place: Place) -> int:
    return span.start + place.spread % span.buckets * TRACE_BYTES


def _words_at(bucket: int, found: int) -> int:
    """Index of the first word of the key whose fingerprint stands at ``found``."""
    return (bucket + KEYS_BYTES + (found - bucket) * TRACE_WORDS) >> 3
