"""The words of one budget: taking, peeking, and finding a way of a bucket (rate_limiter.py tells how and why).

Not here: which budgets there are, keys and their places (rate_table.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final

from app.domain.budget import Budget
from app.infrastructure.rate_table import BUCKET_BYTES, KEPT, KEYS_BYTES, Place, RateMemory, is_wide

WINDOW_MS: Final = 60_000
WIDE_FACTOR: Final = 256
"""A /48 has this many times the budget of one of its /64 (VIS-233)."""
ROUNDS: Final = 64
"""How often a worker looks again for others to decide; some 20 µs."""

_START_SHIFT: Final = 28
_MARK: Final = 1 << 27
_COUNT_MAX: Final = _MARK - 1
_LIVE: Final = _MARK | _COUNT_MAX
_START_MASK: Final = (1 << 36) - 1
_SLACK_MS: Final = 1000
"""A start up to this far ahead of one's own reading of the clock is a live window begun a moment later."""
_KEY_WORDS: Final = KEYS_BYTES // 8
_WINDOW_SEC: Final = WINDOW_MS // 1000
_BUDGET: Final = tuple.__new__
"""Makes a named tuple without the call in between."""


class Budgets:
    """One budget: its tables in all workers' areas, and when each of its own ways was last used."""

    def __init__(self, memory: RateMemory, group: str, now: Callable[[], float]) -> None:
        self._find = memory.bytes.find
        self._words = memory.words
        self._spans = memory.budget_spans(group)
        self._own, *self._others = self._spans
        self._start, self._buckets = self._own
        self._first_word = self._start >> 3
        self._kept = memory.counter_words(KEPT + group)[0]
        self._lower = memory.worker_index
        self._now = now
        self._used = array("Q", bytes(self._own.buckets * KEYS_BYTES))
        self._turn = 0

    def take(self, place: Place, limit: int) -> Budget:
        """Count one request of a key if the budget has room."""
        # Spelled out, helpers and all: this is on the way of every request.
        now_ms = int(self._now() * 1000) & _START_MASK
        words = self._words
        bucket = self._start + place.spread % self._buckets * BUCKET_BYTES
        found = self._find(place.print_bytes, bucket, bucket + KEYS_BYTES)
        at, start, own = 0, -1, 0
        if found >= 0:
            at = (found + KEYS_BYTES) >> 3
            word = words[at]
            begun = word >> _START_SHIFT
            if word & _LIVE and (now_ms - begun + _SLACK_MS) & _START_MASK < _SLACK_MS + WINDOW_MS:
                start, own = begun, word & _COUNT_MAX
        if own >= limit:
            return _refused(limit, _left_ms(start, now_ms))
        if start < 0:
            elsewhere, _, _, start = self._elsewhere(place, now_ms)
            if elsewhere >= limit:
                return _refused(limit, _left_ms(start, now_ms))
            if not at and not (at := self._insert(place, bucket, limit, now_ms)):
                return _refused(limit, WINDOW_MS)
            if start < 0:
                start = now_ms
        self._turn = turn = self._turn + 1
        behind = at - self._first_word
        self._used[(behind >> 4) * _KEY_WORDS + (behind & 7)] = turn
        settled = start << _START_SHIFT | own
        elsewhere = 0
        if self._others:
            words[at] = settled | _MARK
            elsewhere = self._decide(place, limit - own - 1, now_ms)
            if elsewhere < 0:
                words[at] = settled
                return _refused(limit, _left_ms(start, now_ms))
        words[at] = settled + 1
        age_ms = (now_ms - start) & _START_MASK
        reset_sec = (WINDOW_MS + 999 - age_ms) // 1000 if age_ms < WINDOW_MS else _WINDOW_SEC
        return _BUDGET(Budget, (True, limit, limit - own - 1 - elsewhere, reset_sec, 0))

    def peek(self, place: Place, limit: int) -> Budget:
        """The state of a key's budget; nothing is counted."""
        now_ms = int(self._now() * 1000) & _START_MASK
        at = self._own_word(place, self._own.bucket(place))
        start, own = _live(self._words[at], now_ms) if at else (-1, 0)
        elsewhere, _, _, other_start = self._elsewhere(place, now_ms)
        if start < 0:
            start = other_start
        left = limit - own - elsewhere
        left_ms = _left_ms(start, now_ms) if start >= 0 else 0
        return Budget(True, limit, left, _seconds(left_ms)) if left > 0 else _refused(limit, left_ms)

    def knows(self, place: Place) -> bool:
        """Tell whether any worker has counted the key and not forgotten it."""
        find, print_bytes = self._find, place.print_bytes
        for span in self._spans:
            bucket = span.bucket(place)
            if find(print_bytes, bucket, bucket + KEYS_BYTES) >= 0:
                return True
        return False

    def give_back(self, place: Place) -> None:
        """Take back what ``take`` counted a moment ago."""
        at = self._own_word(place, self._own.bucket(place))
        if at and self._words[at] & _COUNT_MAX:
            self._words[at] -= 1

    def _own_word(self, place: Place, bucket: int) -> int:
        """Index of the own word of a key, 0 when it has none."""
        found = self._find(place.print_bytes, bucket, bucket + KEYS_BYTES)
        return (found + KEYS_BYTES) >> 3 if found >= 0 else 0

    def _way(self, at: int) -> int:
        """Number of the own way whose word has this index."""
        behind = at - self._first_word
        return (behind >> 4) * _KEY_WORDS + (behind & 7)

    def _elsewhere(self, place: Place, now_ms: int) -> tuple[int, int, int, int]:
        """A key in the other workers' areas: count, marks of lower and higher workers, start of a window (-1: none)."""
        count, lower, higher, start = 0, 0, 0, -1
        for number, span in enumerate(self._others):
            bucket = span.bucket(place)
            found = self._find(place.print_bytes, bucket, bucket + KEYS_BYTES)
            if found < 0:
                continue
            word = self._words[(found + KEYS_BYTES) >> 3]
            if self._words[found >> 3] != place.print_number:
                continue  # the way was given to another key between the two reads
            their_start, theirs = _live(word, now_ms)
            if their_start < 0:
                continue
            count += theirs
            start = their_start
            if word & _MARK:
                if number < self._lower:
                    lower += 1
                else:
                    higher += 1
        return count, lower, higher, start

    def _decide(self, place: Place, room: int, now_ms: int) -> int:
        """With the own mark set: count of the other workers if one more may be counted, -1 if not."""
        for _ in range(ROUNDS):
            count, lower, higher, _start = self._elsewhere(place, now_ms)
            if count + lower > room:
                return -1
            if count + lower + higher <= room:
                return count
        return -1

    def _insert(self, place: Place, bucket: int, limit: int, now_ms: int) -> int:
        """Give the key a way of its bucket; index of its word, or 0 when every way is held by a limited key."""
        first = (bucket + KEYS_BYTES) >> 3
        if is_wide(place.print_number):
            limit = max(1, limit // WIDE_FACTOR)  # those in the way are judged by their own limits
        best, best_turn = 0, -1
        for at in range(first, first + _KEY_WORDS):
            start, count = _live(self._words[at], now_ms)
            if start < 0:
                best = at
                break
            turn = self._used[self._way(at)]
            if (best_turn < 0 or turn < best_turn) and not self._is_limited(at, count, limit, now_ms):
                best, best_turn = at, turn
        if best:
            # Word, key, word: a reader sees either no count or the right key with its own.
            self._words[best] = 0
            if not self._words[best - _KEY_WORDS]:
                self._words[self._kept] += 1  # a way that never held a key; from now on it always holds one
            self._words[best - _KEY_WORDS] = place.print_number
        return best

    def _is_limited(self, at: int, count: int, limit: int, now_ms: int) -> bool:
        number = self._words[at - _KEY_WORDS]
        spread = (at - (self._own.start >> 3)) * 8 // BUCKET_BYTES
        there = Place(number.to_bytes(8, "little"), number, spread)
        return count + self._elsewhere(there, now_ms)[0] >= (wide_limit(limit) if is_wide(number) else limit)


def _live(word: int, now_ms: int) -> tuple[int, int]:
    """Start and count of a window that has not ended; (-1, 0) otherwise."""
    start = word >> _START_SHIFT
    if word & _LIVE and (now_ms - start + _SLACK_MS) & _START_MASK < WINDOW_MS + _SLACK_MS:
        return start, word & _COUNT_MAX
    return -1, 0


def wide_limit(limit: int) -> int:
    """Limit of a /48 whose /64 have ``limit`` each."""
    return min(limit * WIDE_FACTOR, _COUNT_MAX)


def _left_ms(start: int, now_ms: int) -> int:
    """Milliseconds until a live window ends."""
    age = (now_ms - start) & _START_MASK
    return WINDOW_MS - (age if age < WINDOW_MS else 0)


def _seconds(left_ms: int) -> int:
    return -(-left_ms // 1000)


def _refused(limit: int, left_ms: int) -> Budget:
    seconds = max(1, _seconds(left_ms))
    return Budget(False, limit, 0, seconds, seconds)


def of_wide(outer: Budget, limit: int) -> Budget:
    """Answer to a /64 whose /48 is over its budget."""
    return Budget(False, limit, 0, outer.reset_sec, outer.retry_after_sec)
