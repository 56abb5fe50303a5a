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

from collections.abc import Callable

from app.core.clock import mono
from app.domain.budget import UNLIMITED, Budget
from app.infrastructure.rate_budgets import Budgets, of_wide, wide_limit
from app.infrastructure.rate_gauges import Gauge, GaugeEntry
from app.infrastructure.rate_table import GAUGES, GROUPS, LISTS, REFUSED, RateMemory, RateTable
from app.infrastructure.shared_notes import Counters, PeerList
from app.infrastructure.trace_table import Trace


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
        self._budgets = {group: Budgets(memory, group, now) for group in GROUPS}
        self._trace = Trace(memory)
        self._now = now
        self._gauges = {gauge: Gauge(memory, gauge) for gauge in GAUGES}
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

    def _take_wide(self, table: Budgets, key: bytes, limit: int) -> Budget:
        """``take`` of an IPv6 /64, whose /48 is counted as well."""
        wide = self._place(key[:6])
        outer = table.take(wide, wide_limit(limit))
        if not outer.allowed:
            return of_wide(outer, limit)
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
        outer = table.peek(self._place(key[:6]), wide_limit(limit))
        return inner if outer.allowed else of_wide(outer, limit)

    def is_spent(self, group: str, key: bytes, limit: int) -> bool:
        """Tell whether ``peek`` would say no. Costs little for a key that was never counted."""
        table = self._budgets[group]
        if not table.knows(self._place(key)) and (len(key) != 8 or not table.knows(self._place(key[:6]))):
            return False
        return not self.peek(group, key, limit).allowed

    def note_ask(self, key: bytes, number: int) -> list[int]:
        """Keep an ask of ``key`` for a place (``Trace.ask``); those before it, at most 8 of each worker, unordered."""
        return self._trace.ask(self._place(key), number)

    def note_ticket(self, key: bytes, mark: int, ticket: int) -> None:
        """Keep a ticket that ``key`` was given after an ask; ``mark``: of its room (``Trace.give``)."""
        self._trace.give(self._place(key), mark, ticket)

    def tickets_of(self, key: bytes, mark: int) -> list[int]:
        """The last tickets of ``key`` in a room, at most 8 of each worker, unordered."""
        return self._trace.given(self._place(key), mark)

    def may_say(self, what: str) -> bool:
        """Tell whether this may be logged: once a minute for all workers together (OBS-186)."""
        return self.take("said", b"a line of the log: " + what.encode(), 1).allowed

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
