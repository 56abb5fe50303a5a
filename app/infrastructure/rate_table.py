"""The shared memory under the rate limiter: where it lies, and where a key lies in it.

Belongs here: making and mapping the memory, its layout, the hashing of keys. Not here: what the words in it mean
(rate_limiter.py). Reasons for the shape: see there.
"""

from __future__ import annotations

import hashlib
import mmap
import secrets
import struct
from functools import lru_cache
from typing import Final, NamedTuple

from app.infrastructure.shared_memory import SharedMemory

GROUPS: Final = (
    "join",
    "check",
    "vouched",
    "status",
    "waiting",
    "pages",
    "notify",
    "verify",
    "bypass",
    "auth",
    "connectors",
    "undeclared",
    "links",
    "said",
)
"""Every budget has a table of its own. ``vouched`` counts checks by the visitor a connector names (VIS-075); ``said``
counts no requests but lines of the log."""

GAUGES: Final = ("sse", "connections", "surplus", "exempt", "admin_streams", "upstream")
"""Counts of things that are open now, or marked until the instance ends, per key and in all."""

REFUSED: Final = "refused_"
"""What the names of counters of refused requests begin with; that of a budget follows."""
KEPT: Final = "kept_"
"""What the names of counters of the keys that a table holds begin with; the budget of the table follows."""
COUNTERS: Final = (
    "edge_refused", "edge_no_address", "connections_refused", "undeclared_told_at", "auth_failures",
    "access_changes",
    "sse_refused",
    "connection_errors",
    *(REFUSED + group for group in GROUPS),
    *(KEPT + group for group in GROUPS),
)  # fmt: skip
"""Numbers of the instance without a key; see ``shared_notes.Counters``."""

LISTS: Final = ("undeclared", "short_chain", "edge_refused", "bad_tokens", "locked_connectors")
"""Short lists of addresses; see ``shared_notes.PeerList``."""

WAYS: Final = 8
"""Keys of one bucket: 8 fingerprints and 8 words are two cache lines."""
KEYS_BYTES: Final = WAYS * 8
BUCKET_BYTES: Final = KEYS_BYTES * 2
GAUGE_BUCKETS: Final = 8192
TRACE_WORDS: Final = 16
TRACE_BYTES: Final = KEYS_BYTES * (1 + TRACE_WORDS)
"""A bucket of the trace (trace_table.py): 8 fingerprints, then 16 words of each key."""

_MAGIC: Final = b"QMRATE04"
_HEAD: Final = struct.Struct("<8sIIII")
_PAGE: Final = 4096
_FIRST_COUNTER: Final = 64
"""Word of the control page; those before it are totals of gauges."""
LIST_ENTRIES: Final = 20
LIST_WORDS: Final = 3
"""Words of one entry: when it was last written, and the two halves of the address."""
_FIRST_LIST: Final = 192
_LOW_64: Final = (1 << 64) - 1
_WIDE_KEY_BYTES: Final = 6


class Place(NamedTuple):
    """Where a key lies: its fingerprint as bytes and as number, and the number that chooses its bucket."""

    print_bytes: bytes
    print_number: int
    spread: int


class Span(NamedTuple):
    """One table of one worker: byte offset of its first bucket, and its number of buckets."""

    start: int
    buckets: int

    def bucket(self, place: Place) -> int:
        """Byte offset of the bucket of a key."""
        return self.start + place.spread % self.buckets * BUCKET_BYTES


class _Layout(NamedTuple):
    """Header page, then for each worker: a control page (totals, counters, lists), budgets, gauges, trace."""

    workers: int
    buckets: int

    @property
    def area_bytes(self) -> int:
        return self._trace_at + TRACE_BYTES * self.buckets

    @property
    def _trace_at(self) -> int:
        return _PAGE + BUCKET_BYTES * (self.buckets * len(GROUPS) + GAUGE_BUCKETS * len(GAUGES))

    def control(self, worker: int) -> int:
        return _PAGE + self.area_bytes * worker

    def budget(self, worker: int, index: int) -> Span:
        return Span(self.control(worker) + _PAGE + BUCKET_BYTES * self.buckets * index, self.buckets)

    def gauge(self, worker: int, index: int) -> Span:
        budgets = BUCKET_BYTES * self.buckets * len(GROUPS)
        return Span(self.control(worker) + _PAGE + budgets + BUCKET_BYTES * GAUGE_BUCKETS * index, GAUGE_BUCKETS)

    def trace(self, worker: int) -> int:
        return self.control(worker) + self._trace_at


class RateTable(SharedMemory):
    """The memory itself; workers attach by its name (``RateLimiter.attach``)."""

    @classmethod
    def create(cls, label: str, workers: int, max_keys: int) -> RateTable:
        """Memory for ``workers`` areas that hold ``max_keys`` keys per budget together."""
        layout = _Layout(workers, max(1, max_keys // (workers * WAYS)))
        head = _HEAD.pack(_MAGIC, workers, layout.buckets, len(GROUPS), len(GAUGES))
        return cls.allocate(label, layout.control(workers), head + secrets.token_bytes(16))


class RateMemory:
    """A worker's mapping of the memory, and the finding of places in it."""

    def __init__(self, name: str, worker_index: int) -> None:
        """Raises OSError or ValueError when ``name`` is no table of this release or has no such worker."""
        with open(name, "r+b", buffering=0) as file:
            self.bytes = mmap.mmap(file.fileno(), 0)
        magic, workers, buckets, *tables = _HEAD.unpack_from(self.bytes, 0)
        if (magic, tables) != (_MAGIC, [len(GROUPS), len(GAUGES)]):
            raise ValueError(f"{name} is no rate table of this release")
        if not 0 <= worker_index < workers:
            raise ValueError(f"the rate table has no worker {worker_index}")
        self.words = memoryview(self.bytes).cast("Q")
        """All of it as 64-bit numbers; an assignment is one store, which other processes see whole."""
        self.worker_index = worker_index
        self.workers: int = workers
        self._layout = _Layout(workers, buckets)
        self._order = (worker_index, *(worker for worker in range(workers) if worker != worker_index))
        self._multiplier = int.from_bytes(self.bytes[_HEAD.size : _HEAD.size + 16], "little") | 1
        self.place = lru_cache(16384)(self._place)
        """Place of a key; remembered, since a visitor comes back."""

    def budget_spans(self, group: str) -> list[Span]:
        """Tables of a budget, this worker's first."""
        index = GROUPS.index(group)
        return [self._layout.budget(worker, index) for worker in self._order]

    def gauge_spans(self, gauge: str) -> list[Span]:
        """Tables of a gauge, this worker's first."""
        index = GAUGES.index(gauge)
        return [self._layout.gauge(worker, index) for worker in self._order]

    def gauge_totals(self, gauge: str) -> list[int]:
        """Indices in ``words`` of the totals of a gauge, this worker's first."""
        index = GAUGES.index(gauge)
        return [self._layout.control(worker) // 8 + index for worker in self._order]

    def counter_words(self, counter: str) -> list[int]:
        """Indices in ``words`` of a counter, this worker's first."""
        index = _FIRST_COUNTER + COUNTERS.index(counter)
        return [self._layout.control(worker) // 8 + index for worker in self._order]

    def list_words(self, name: str) -> list[int]:
        """Indices in ``words`` of the first entry of a list, this worker's first."""
        index = _FIRST_LIST + LIST_ENTRIES * LIST_WORDS * LISTS.index(name)
        return [self._layout.control(worker) // 8 + index for worker in self._order]

    def trace_spans(self) -> list[Span]:
        """Tables of the trace, this worker's first."""
        return [Span(self._layout.trace(worker), self._layout.buckets) for worker in self._order]

    def close(self) -> None:
        """Unmap."""
        self.words.release()
        self.bytes.close()

    def _place(self, key: bytes) -> Place:
        # Multiply-shift with a secret odd number: two keys meet by chance only, and nobody can aim at a bucket. The
        # length keeps an IPv4 address, a /48 and a /64 of the same leading bytes apart; the last bit marks a /48.
        if len(key) > 15:
            key = hashlib.blake2b(key, digest_size=15).digest()
        mixed = (int.from_bytes(key, "little") << 8 | len(key)) * self._multiplier >> 64 & _LOW_64
        number = mixed & ~1 | (len(key) == _WIDE_KEY_BYTES) or 2
        return Place(number.to_bytes(8, "little"), number, mixed >> 8)


def is_wide(print_number: int) -> bool:
    """Tell whether a fingerprint is that of a /48."""
    return bool(print_number & 1)
