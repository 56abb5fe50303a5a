"""What bot protection remembers of an address: its last asks for a place, and the last tickets it was given.

Lies in the memory of the rate limiter (rate_table.py) and is kept the same way: each worker writes its own area only,
readers take all areas together, nothing is ever locked. It feeds guesses, never a limit: a number that a reader misses
while a way is given to another key does no harm. Full, it drops the least recently used key of the bucket.

A key has 16 words: 8 of its asks, of which the smallest is the oldest, then 8 of its tickets, each below the mark of
the room it belongs to.
"""

from __future__ import annotations

from array import array
from typing import Final

from app.infrastructure.rate_table import KEYS_BYTES, TRACE_BYTES, TRACE_WORDS, WAYS, Place, RateMemory, Span

_ASKS: Final = 8
_MARK_SHIFT: Final = 32
_TICKET: Final = (1 << _MARK_SHIFT) - 1
_NO_WORDS: Final = memoryview(bytes(TRACE_WORDS * 8)).cast("Q")


class Trace:
    """The tables of all workers' areas, and when each of its own ways was last used."""

    def __init__(self, memory: RateMemory) -> None:
        self._find = memory.bytes.find
        self._words = memory.words
        self._own, *self._others = memory.trace_spans()
        self._used = array("Q", bytes(self._own.buckets * WAYS * 8))
        self._turn = 0

    def ask(self, place: Place, number: int) -> list[int]:
        """Keep an ask (> 0) of a key in the place of the smallest; the asks kept before it, in no order."""
        own = self._own
        first_way = place.spread % own.buckets * WAYS
        bucket = own.start + place.spread % own.buckets * TRACE_BYTES
        found = self._find(place.print_bytes, bucket, bucket + KEYS_BYTES)
        is_new = found < 0
        if is_new:
            found = self._insert(place, bucket, first_way)
        self._turn += 1
        self._used[first_way + (found - bucket) // 8] = self._turn
        at = _words_at(bucket, found)
        if is_new:
            self._words[at] = number
            kept = []
        else:
            kept = self._words[at : at + _ASKS].tolist()
            self._words[at + kept.index(min(kept))] = number
        for span in self._others:
            kept += self._words_of(span, place, 0)
        return [ask for ask in kept if ask]

    def give(self, place: Place, mark: int, ticket: int) -> None:
        """Keep a ticket of a key that has asked here, in the place of the smallest number of its 8.

        ``mark``: of the room and its generation, 1 … 2³² - 1.
        """
        bucket = _bucket(self._own, place)
        found = self._find(place.print_bytes, bucket, bucket + KEYS_BYTES)
        if found < 0:
            return
        at = _words_at(bucket, found) + _ASKS
        smallest, index = _TICKET, 0
        for way, word in enumerate(self._words[at : at + _ASKS].tolist()):
            if word & _TICKET < smallest:
                smallest, index = word & _TICKET, way
                if not word:
                    break
        self._words[at + index] = mark << _MARK_SHIFT | ticket & _TICKET

    def given(self, place: Place, mark: int) -> list[int]:
        """The tickets of a key in the room of this mark, in no order."""
        spans = (self._own, *self._others)
        words = [word for span in spans for word in self._words_of(span, place, _ASKS)]
        return [word & _TICKET for word in words if word >> _MARK_SHIFT == mark]

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

    def _words_of(self, span: Span, place: Place, first: int) -> list[int]:
        """The 8 words from number ``first`` on that an area has of a key; none when it has no such key."""
        bucket = _bucket(span, place)
        found = self._find(place.print_bytes, bucket, bucket + KEYS_BYTES)
        if found < 0:
            return []
        at = _words_at(bucket, found) + first
        return self._words[at : at + _ASKS].tolist()


def _bucket(span: Span, place: Place) -> int:
    return span.start + place.spread % span.buckets * TRACE_BYTES


def _words_at(bucket: int, found: int) -> int:
    """Index of the first word of the key whose fingerprint stands at ``found``."""
    return (bucket + KEYS_BYTES + (found - bucket) * TRACE_WORDS) >> 3
