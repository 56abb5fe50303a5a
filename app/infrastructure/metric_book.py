"""The numbers of one instance, in memory that all its processes share: counters, gauges, histograms, facts.

Main makes the memory. Each process has an area of its own in it, which it alone writes; a reader adds up all areas. No
lock is ever taken, and what a killed process had counted stays, so that a counter never falls while the instance lives
(OBS-053, OBS-054). An area is a list of entries that only grows: 16 words of values and the key they belong to.

Not here: which series there are (core/metrics.py), the text of ``/metrics`` (services/metrics.py).
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from app.core.clock import mono
from app.core.metrics import BOUNDS_SEC, FACTS, HTTP_REQUESTS, HTTP_SECONDS, METRICS, Kind, Metric
from app.infrastructure.shared_memory import SharedMemory

ENTRIES: Final = 32_768
"""Series that one process can keep. Those beyond are dropped, while their unlabelled totals go on."""
TEXTS: Final = {
    "storage_error": 1024,
    "valkey_policy": 256,
    "valkey_trouble": 128,
    "incidents": 262_144,
    "recovery": 65_536,
    "cpu": 2048,
}
"""Texts that a process leaves for the others, and how many bytes each may have."""
_MAGIC: Final = b"QMMETR01"
_HEAD: Final = struct.Struct("<8sI")
_PAGE: Final = 4096
_ENTRY_BYTES: Final = 256
_ENTRY_WORDS: Final = _ENTRY_BYTES // 8
_KEY_AT: Final = 120
_KEY_MAX: Final = _ENTRY_BYTES - _KEY_AT - 2
_TEXT_HEAD: Final = 16
_TEXTS_BYTES: Final = sum(TEXTS.values()) + _TEXT_HEAD * len(TEXTS)
_FIRST_ENTRY: Final = _PAGE + -(-_TEXTS_BYTES // _PAGE) * _PAGE
_AREA: Final = _FIRST_ENTRY + _ENTRY_BYTES * ENTRIES
_BUCKETS: Final = len(BOUNDS_SEC) + 1
_FIRST_BOUND: Final = BOUNDS_SEC[0]
_TEXT_AT: Final = {
    name: sum(size + _TEXT_HEAD for size in list(TEXTS.values())[:number]) for number, name in enumerate(TEXTS)
}
_WORD: Final = (1 << 64) - 1
_KNOWN: Final = [*METRICS, *FACTS]
_NUMBER: Final = {metric.name: number for number, metric in enumerate(_KNOWN)}

Key = tuple[str, tuple[str, ...]]
"""Name of a series and the values of its labels."""


class MetricMemory(SharedMemory):
    """The memory itself; processes attach by its name (``MetricBook.attach``)."""

    @classmethod
    def create(cls, processes: int, label: str = "qm-metrics") -> MetricMemory:
        """Memory for ``processes`` areas."""
        return cls.allocate(label, _PAGE + _AREA * processes, _HEAD.pack(_MAGIC, processes))


class Tally:
    """A counter with its place already found, for where every microsecond counts."""

    __slots__ = ("_at", "_words")

    def __init__(self, words: memoryview, at: int) -> None:
        self._words = words
        self._at = at

    def add(self, number: int = 1) -> None:
        """Count ``number`` more."""
        self._words[self._at] += number


class AnswerMeter:
    """Answers of one route: how many by class of status, and how long until their first byte.

    It is on the way of every request, so everything stands in one function.
    """

    __slots__ = ("_at", "_book", "_by_status", "_route", "_words")

    def __init__(self, book: MetricBook, route: str) -> None:
        self._book = book
        self._route = route
        self._words = book.words
        self._at = book.place(HTTP_SECONDS, route)
        self._by_status: dict[int, int] = {}

    def note(self, status: int, began: float) -> None:
        """An answer begins now; ``began``: when its request was whole (``clock.mono``)."""
        words = self._words
        at = self._by_status.get(status)
        if at is None:
            kind = f"{min(max(status // 100, 1), 5)}xx"
            at = self._by_status[status] = self._book.place(HTTP_REQUESTS, self._route, kind)
        words[at] += 1
        seconds = mono() - began
        at = self._at
        words[at + (bisect_left(BOUNDS_SEC, seconds) if seconds > _FIRST_BOUND else 0)] += 1
        words[at + _BUCKETS] += int(seconds * 1e6)


class MetricBook:
    """One process's hand on the memory. To be used from one thread."""

    def __init__(self, memory: mmap.mmap, area: int, areas: int) -> None:
        """``area``: number of the area this process writes, of ``areas``; see ``attach``."""
        self._bytes = memory
        self._words = self.words = memoryview(memory).cast("Q")
        """All of it as 64-bit numbers, for meters that know their places."""
        self._own = area
        self._keys: list[dict[Key, int]] = [{} for _ in range(areas)]
        """Of each area: key → number of its entry."""
        self._places: dict[Key, int] = {}
        self._spare = self._entry_word(area, ENTRIES - 1)
        for key, number in self._read_keys(area).items():
            self._places[key] = at = self._entry_word(area, number)
            if _KNOWN[_NUMBER[key[0]]].kind is Kind.GAUGE:
                self._words[at] = 0  # what a predecessor held open died with it

    @classmethod
    def attach(cls, name: str, area: int) -> MetricBook:
        """Take over an area of the memory called ``name``: counts of a predecessor are kept, its gauges are zero.

        Raises OSError or ValueError when it is no such memory of this release, or has no such area.
        """
        with open(name, "r+b", buffering=0) as file:
            memory = mmap.mmap(file.fileno(), 0)
        magic, areas = _HEAD.unpack_from(memory, 0)
        if magic != _MAGIC:
            raise ValueError(f"{name} is no memory for metrics of this release")
        if not 0 <= area < areas:
            raise ValueError(f"the memory for metrics has no area {area}")
        return cls(memory, area, areas)

    @classmethod
    def alone(cls) -> MetricBook:
        """A book in memory of its own, for a process that shares it with nobody."""
        return cls(mmap.mmap(-1, _PAGE + _AREA), 0, 1)

    def add(self, metric: Metric, *labels: str, number: int = 1) -> None:
        """Count ``number`` more of a counter."""
        self._words[self._place(metric, labels)] += number

    def put(self, metric: Metric, value: int, *labels: str) -> None:
        """Write this process's share of a gauge, or a fact; a negative number is read back by ``signed``."""
        self._words[self._place(metric, labels)] = value & _WORD

    def observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        """Count one duration in a histogram."""
        at = self._place(metric, labels)
        self._words[at + bisect_left(BOUNDS_SEC, seconds)] += 1
        self._words[at + _BUCKETS] += int(seconds * 1e6) if seconds > 0 else 0

    def tally(self, metric: Metric, *labels: str) -> Tally:
        """A counter by its place."""
        return Tally(self._words, self._place(metric, labels))

    def place(self, metric: Metric, *labels: str) -> int:
        """Index in ``words`` of the first value of a series of this process."""
        return self._place(metric, labels)

    def total(self, metric: Metric, *labels: str) -> int:
        """The instance's number: the sum over its processes, 0 when nobody wrote it."""
        return sum(self._values_of(metric, labels))

    def has(self, metric: Metric, *labels: str) -> bool:
        """Some process wrote it."""
        return any(True for _ in self._values_of(metric, labels))

    def latest(self, metric: Metric) -> int:
        """The largest number of any process."""
        return max(self._values_of(metric, ()), default=0)

    def everything(self) -> dict[Key, list[int]]:
        """Values of all series and facts: one number, or a histogram's buckets and its sum in µs."""
        found: dict[Key, list[int]] = {}
        for area in range(len(self._keys)):
            for key, number in self._read_keys(area).items():
                at = self._entry_word(area, number)
                count = _BUCKETS + 1 if _KNOWN[_NUMBER[key[0]]].kind is Kind.HISTOGRAM else 1
                values = self._words[at : at + count].tolist()
                known = found.get(key)
                found[key] = values if known is None else [a + b for a, b in zip(known, values, strict=True)]
        return found

    def write_text(self, name: str, text: str) -> None:
        """Leave a text for the other processes; what is too long is cut."""
        raw = text.encode()[: TEXTS[name]]
        start = self._text_at(self._own, name)
        # The version says when it was written, the same clock for all; an odd one means: being written.
        version = max(int(mono() * 1000) << 1, self._words[start >> 3] + 1 & ~1)
        self._words[start >> 3] = version | 1
        self._words[(start >> 3) + 1] = len(raw)
        self._bytes[start + _TEXT_HEAD : start + _TEXT_HEAD + len(raw)] = raw
        self._words[start >> 3] = version + 2

    def text(self, name: str) -> str:
        """The text of the process that wrote one last, "" when nobody did."""
        newest, found = 0, ""
        for area in range(len(self._keys)):
            start = self._text_at(area, name)
            for _ in range(64):
                version = self._words[start >> 3]
                length = self._words[(start >> 3) + 1]
                raw = self._bytes[start + _TEXT_HEAD : start + _TEXT_HEAD + min(length, TEXTS[name])]
                if version % 2 == 0 and version == self._words[start >> 3]:
                    break
            else:
                continue
            if version > newest:
                newest, found = version, raw.decode("utf-8", "ignore")
        return found

    def _values_of(self, metric: Metric, labels: tuple[str, ...]) -> Iterator[int]:
        key = metric.name, labels
        for area in range(len(self._keys)):
            number = self._read_keys(area).get(key)
            if number is not None:
                yield self._words[self._entry_word(area, number)]

    def _place(self, metric: Metric, labels: tuple[str, ...]) -> int:
        key = metric.name, labels
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = self._make(metric, labels)
        return place

    def _make(self, metric: Metric, labels: tuple[str, ...]) -> int:
        assert len(labels) == len(metric.labels), metric.name
        raw = struct.pack("<H", _NUMBER[metric.name] + 1) + "\0".join(labels).encode()
        count_word = self._area_start(self._own) >> 3
        number = self._words[count_word]
        if number >= ENTRIES - 1 or len(raw) > _KEY_MAX:
            return self._spare
        at = self._entry_word(self._own, number)
        start = at * 8 + _KEY_AT
        self._bytes[start : start + 2] = struct.pack("<H", len(raw))
        self._bytes[start + 2 : start + 2 + len(raw)] = raw
        self._words[count_word] = number + 1  # last: a reader sees whole keys only
        return at

    def _read_keys(self, area: int) -> dict[Key, int]:
        """Keys of an area and their numbers; those read before are kept, since a key never changes."""
        keys = self._keys[area]
        for number in range(len(keys), self._words[self._area_start(area) >> 3]):
            start = self._entry_word(area, number) * 8 + _KEY_AT
            (length,) = struct.unpack_from("<H", self._bytes, start)
            raw = self._bytes[start + 2 : start + 2 + length]
            metric = _KNOWN[struct.unpack_from("<H", raw)[0] - 1]
            labels = tuple(raw[2:].decode().split("\0")) if metric.labels else ()
            keys[metric.name, labels] = number
        return keys

    @staticmethod
    def _area_start(area: int) -> int:
        return _PAGE + _AREA * area

    def _entry_word(self, area: int, number: int) -> int:
        return (self._area_start(area) + _FIRST_ENTRY >> 3) + number * _ENTRY_WORDS

    def _text_at(self, area: int, name: str) -> int:
        return self._area_start(area) + _PAGE + _TEXT_AT[name]


def signed(number: int) -> int:
    """A number that may have been negative when it was put."""
    return number - _WORD - 1 if number >> 63 else number
