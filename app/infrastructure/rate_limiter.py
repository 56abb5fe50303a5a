"""Budgets per address, and gauges of open streams, exact over all worker processes of an instance (VIS-076, CFG-015).

How: main makes one piece of shared memory. Every worker has an area of its own in it, which only that worker
writes; a reader adds up all areas. No lock is ever taken, so a worker killed at any point blocks nobody, and the one
that takes its place finds its counts again.

A table is an array of buckets of 8 ways: 8 fingerprints of keys, then 8 words. A word of a budget is the window's
start (36 bits of ms), a mark "one more is being decided" (1 bit) and a count (27 bits), written by one aligned 64-bit
store, so that it is never seen half written. A key lives in one bucket only; within it an ended window is overwritten
first, then the least recently used key that is not being limited. A limited key is never overwritten: if all 8 are,
the newcomer is refused (VIS-074, CFG-236).

Exactness: a worker marks its word, then reads those of all others. It counts the request if that fits even with every
mark it sees, and refuses it if it does not fit with the counts alone. In between, that is when several workers are
about to take what is left, the one with the higher number refuses and the lower one looks again. Whoever is not seen
here has marked later and therefore sees this mark: so never more than the limit pass, and fewer only when a worker
stops between two instructions of that instant.

Source: VIS-069 … VIS-077, VIS-087, VIS-233.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from app.core.clock import mono
from app.domain.budget import UNLIMITED, Budget
from app.infrastructure.rate_table import (
    BUCKET_BYTES,
    GAUGES,
    GROUPS,
    KEYS_BYTES,
    LISTS,
    REFUSED,
    TRACES,
    Place,
    RateMemory,
    RateTable,
    is_wide,
)
from app.infrastructure.shared_notes import Counters, PeerList
from app.infrastructure.trace_table import Trace

WINDOW_MS: Final = 60_000
WIDE_FACTOR: Final = 256
"""A /48 has this many times the budget of one of its /64 (VIS-233)."""

_START_SHIFT: Final = 28
_MARK: Final = 1 << 27
_COUNT_MAX: Final = _MARK - 1
_START_MASK: Final = (1 << 36) - 1
_SLACK_MS: Final = 1000
"""A start up to this far ahead of one's own reading of the clock is a live window begun a moment later."""
_KEY_WORDS: Final = KEYS_BYTES // 8
_ROUNDS: Final = 64
"""How often a worker looks again for others to decide; some 20 µs."""


class GaugeEntry(NamedTuple):
    """Answer of ``gauge_enter``."""

    entered: bool
    over: Literal["", "key", "total"]
    """Which cap refused."""


class RateLimiter:
    """One worker's hand on the shared budgets. To be used from one thread."""

    @staticmethod
    def create(label: str = "qm-rate", *, workers: int, max_keys: int = 200_000) -> RateTable:
        """Make the memory for ``workers`` worker processes; main only, which keeps the result until it ends.

        Each budget holds at most ``max_keys`` keys (``RATE_LIMIT_MAX_KEYS``), shared out evenly among the workers.
        Workers attach by the ``name`` of the result. The memory is sparse: an unused table costs nothing.
        """
        return RateTable.create(label, workers, max_keys)

    @classmethod
    def attach(cls, name: str, worker_index: int, *, now: Callable[[], float] = mono) -> RateLimiter:
        """Take over the area of worker ``worker_index`` (from 0) of the memory called ``name``.

        Counts of a predecessor are kept; its gauges are cleared, since what it held open died with it. ``now`` is a
        clock that all processes of the machine share, in seconds. Raises OSError or ValueError when ``name`` is no
        table of this release, or has no such worker.
        """
        return cls(RateMemory(name, worker_index), now)

    def __init__(self, memory: RateMemory, now: Callable[[], float]) -> None:
        """``memory`` is this worker's mapping; see ``attach``."""
        self._memory = memory
        self._place = memory.place
        self._budgets = {group: _Budgets(memory, group, now) for group in GROUPS}
        self._traces = {trace: Trace(memory, trace) for trace in TRACES}
        self._now = now
        self._gauges = {gauge: _Gauge(memory, gauge) for gauge in GAUGES}
        self.workers = memory.workers
        """Worker processes of the instance, which share the memory."""
        self.counters = Counters(memory)
        self.lists = {name: PeerList(memory, name, now) for name in LISTS}

    def take(self, group: str, key: bytes, limit: int) -> Budget:
        """Count one request of ``key`` against ``limit`` a minute, if the budget has room.

        ``key`` is ``Client.key`` (of an IPv6 /64 the /48 is counted as well), or bytes of any other identity whose
        length is not 4, 6 or 8. ``limit`` 0 = off. A refused request is not counted.
        """
        if limit <= 0:
            return UNLIMITED
        table = self._budgets[group]
        budget = table.take(self._place(key), limit) if len(key) != 8 else self._take_wide(table, key, limit)
        if not budget.allowed:
            self.counters.add(REFUSED + group)
        return budget

    def _take_wide(self, table: _Budgets, key: bytes, limit: int) -> Budget:
        """``take`` of an IPv6 /64, whose /48 is counted as well."""
        wide = self._place(key[:6])
        outer = table.take(wide, _wide_limit(limit))
        if not outer.allowed:
            return _of_wide(outer, limit)
        inner = table.take(self._place(key), limit)
        if not inner.allowed:
            table.give_back(wide)
        return inner

    def peek(self, group: str, key: bytes, limit: int) -> Budget:
        """The state of a budget without counting anything; ``allowed`` says whether a request would be."""
        if limit <= 0:
            return UNLIMITED
        table = self._budgets[group]
        inner = table.peek(self._place(key), limit)
        if len(key) != 8 or not inner.allowed:
            return inner
        outer = table.peek(self._place(key[:6]), _wide_limit(limit))
        return inner if outer.allowed else _of_wide(outer, limit)

    def trace(self, trace: str, key: bytes, number: int) -> list[int]:
        """Keep ``number`` (> 0) in place of the smallest of the 8 that are kept of ``key``; those before it, unordered.

        Each worker keeps 8; the result has those of all workers.
        """
        return self._traces[trace].add(self._place(key), number)

    def traced(self, trace: str, key: bytes) -> list[int]:
        """The numbers kept of ``key``."""
        return self._traces[trace].read(self._place(key))

    def now_ms(self) -> int:
        """The clock that all processes of the instance share."""
        return int(self._now() * 1000)

    def gauge_enter(self, gauge: str, key: bytes, *, per_key: int, in_all: int) -> GaugeEntry:
        """Count one more open thing of ``key`` unless a cap (0 = none) is reached.

        Each success is to be paired with one ``gauge_leave`` in the same process.
        """
        return self._gauges[gauge].enter(self._place(key), per_key, in_all)

    def gauge_leave(self, gauge: str, key: bytes) -> None:
        """Take back one ``gauge_enter`` that succeeded in this process."""
        self._gauges[gauge].leave(self._place(key))

    def gauge_total(self, gauge: str) -> int:
        """How many are open in all workers together."""
        return self._gauges[gauge].total()

    def gauge_count(self, gauge: str, key: bytes) -> int:
        """How many of ``key`` are open in all workers together."""
        return self._gauges[gauge].count(self._place(key))

    def close(self) -> None:
        """Unmap the memory; the limiter cannot be used afterwards."""
        self._budgets.clear()
        self._gauges.clear()
        self._traces.clear()
        self._memory.close()


class InstanceNumbers:
    """What the web workers of the instance have counted, for a process that is none of them; it writes nothing."""

    def __init__(self, name: str, *, now: Callable[[], float] = mono) -> None:
        """``name``, ``now``: as of ``RateLimiter.attach``."""
        memory = RateMemory(name, 0)
        self._words = memory.words
        self._totals = {gauge: memory.gauge_totals(gauge) for gauge in GAUGES}
        self.counters = Counters(memory)
        self.lists = {name: PeerList(memory, name, now) for name in LISTS}

    def gauge_total(self, gauge: str) -> int:
        """How many are open in all workers together."""
        return sum(self._words[at] for at in self._totals[gauge])


class _Budgets:
    """One budget: its tables in all workers' areas, and when each of its own ways was last used."""

    def __init__(self, memory: RateMemory, group: str, now: Callable[[], float]) -> None:
        self._find = memory.bytes.find
        self._words = memory.words
        self._own, *self._others = memory.budget_spans(group)
        self._start, self._buckets = self._own
        self._lower = memory.worker_index
        self._now = now
        self._used = array("Q", bytes(self._own.buckets * KEYS_BYTES))
        self._turn = 0

    def take(self, place: Place, limit: int) -> Budget:
        now_ms = int(self._now() * 1000) & _START_MASK
        # Spelled out: this is on the way of every request.
        bucket = self._start + place.spread % self._buckets * BUCKET_BYTES
        found = self._find(place.print_bytes, bucket, bucket + KEYS_BYTES)
        at, start, own = 0, -1, 0
        if found >= 0:
            at = (found + KEYS_BYTES) >> 3
            start, own = _live(self._words[at], now_ms)
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
        self._turn += 1
        self._used[self._way(at)] = self._turn
        settled = start << _START_SHIFT | own
        elsewhere = 0
        if self._others:
            self._words[at] = settled | _MARK
            elsewhere = self._decide(place, limit - own - 1, now_ms)
            if elsewhere < 0:
                self._words[at] = settled
                return _refused(limit, _left_ms(start, now_ms))
        self._words[at] = settled + 1
        return Budget(True, limit, limit - own - 1 - elsewhere, _seconds(_left_ms(start, now_ms)))

    def peek(self, place: Place, limit: int) -> Budget:
        now_ms = int(self._now() * 1000) & _START_MASK
        at = self._own_word(place, self._own.bucket(place))
        start, own = _live(self._words[at], now_ms) if at else (-1, 0)
        elsewhere, _, _, other_start = self._elsewhere(place, now_ms)
        if start < 0:
            start = other_start
        left = limit - own - elsewhere
        left_ms = _left_ms(start, now_ms) if start >= 0 else 0
        return Budget(True, limit, left, _seconds(left_ms)) if left > 0 else _refused(limit, left_ms)

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
        behind = at - (self._own.start >> 3)
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
        for _ in range(_ROUNDS):
            count, lower, higher, _start = self._elsewhere(place, now_ms)
            if count + lower > room:
                return -1
            if count + lower + higher <= room:
                return count
        return -1

    def _insert(self, place: Place, bucket: int, limit: int, now_ms: int) -> int:
        """Give the key a way of its bucket; index of its word, or 0 when every way is held by a limited key."""
        first = (bucket + KEYS_BYTES) >> 3
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
            self._words[best - _KEY_WORDS] = place.print_number
        return best

    def _is_limited(self, at: int, count: int, limit: int, now_ms: int) -> bool:
        number = self._words[at - _KEY_WORDS]
        spread = (at - (self._own.start >> 3)) * 8 // BUCKET_BYTES
        there = Place(number.to_bytes(8, "little"), number, spread)
        return count + self._elsewhere(there, now_ms)[0] >= (_wide_limit(limit) if is_wide(number) else limit)


class _Gauge:
    """One gauge: like a budget, without window; words are plain counts and nothing is ever dropped."""

    def __init__(self, memory: RateMemory, gauge: str) -> None:
        self._find = memory.bytes.find
        self._words = memory.words
        self._own, *self._others = memory.gauge_spans(gauge)
        self._total, *self._totals = memory.gauge_totals(gauge)
        self._rounds = _ROUNDS if memory.worker_index == 0 else 0
        self._overflow: dict[int, int] = {}
        """Counts of keys that found their bucket full; other workers do not see them."""
        memory.bytes[self._own.start : self._own.start + self._own.buckets * BUCKET_BYTES] = bytes(
            self._own.buckets * BUCKET_BYTES
        )
        self._words[self._total] = 0

    def enter(self, place: Place, per_key: int, in_all: int) -> GaugeEntry:
        self._add(place, 1)
        for _ in range(self._rounds + 1):
            over_key = per_key > 0 and self.count(place) > per_key
            over_all = in_all > 0 and self.total() > in_all
            if not over_key and not over_all:
                return GaugeEntry(True, "")
        self._add(place, -1)
        return GaugeEntry(False, "key" if over_key else "total")

    def leave(self, place: Place) -> None:
        self._add(place, -1)

    def total(self) -> int:
        return self._words[self._total] + sum(self._words[at] for at in self._totals)

    def count(self, place: Place) -> int:
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


def _live(word: int, now_ms: int) -> tuple[int, int]:
    """Start and count of a window that has not ended; (-1, 0) otherwise."""
    start = word >> _START_SHIFT
    if word & (_MARK | _COUNT_MAX) and (now_ms - start + _SLACK_MS) & _START_MASK < WINDOW_MS + _SLACK_MS:
        return start, word & _COUNT_MAX
    return -1, 0


def _wide_limit(limit: int) -> int:
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


def _of_wide(outer: Budget, limit: int) -> Budget:
    """Answer to a /64 whose /48 is over its budget."""
    return Budget(False, limit, 0, outer.reset_sec, outer.retry_after_sec)
