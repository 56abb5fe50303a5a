"""What a room did in one hour of the wall clock: the record that the engine keeps, and figures made of it.

lua/lib/hours.lua and lua/lib/waits.lua write these bytes. Belongs here: reading them, percentiles of waits. Not here:
where records are kept (infrastructure/hour_store.py), reports. Source: ENG-230 … ENG-233, ENG-237.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

HOUR_MS: Final = 3_600_000
SAMPLES_MAX: Final = 256
"""Waits that are kept of an hour."""

_HEAD: Final = struct.Struct("<Iii7I9d")
_SAMPLE: Final = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class HourRecord:
    """One hour of one room, as far as ``covered_ms`` of it was counted. Counts are exact."""

    hour: int
    """Epoch ms of its beginning // HOUR_MS."""
    since: int
    """Epoch ms at which the record was begun: two records of one hour, before and after a loss, differ in it."""
    covered_ms: int
    joins: int
    passes: int
    peak_depth: int
    """Most people in line at any moment."""
    peak_active: int
    """Most sessions at any moment."""
    samples: int
    """How often the line was measured, every five seconds."""
    depth_sum: int
    """Sum of those measurements."""
    blocked: int
    warned: int
    waits: int
    """Finished waits (``measuredWaits``)."""
    wait_sum_ms: int
    wait_max_ms: int
    kept: tuple[tuple[int, int], ...]
    """(ms waited, ms of the hour at which it ended) of at most 256 waits chosen uniformly at random."""

    @property
    def avg_depth(self) -> float | None:
        """Mean of the measured line; None = never measured."""
        return self.depth_sum / self.samples if self.samples else None

    @property
    def wait_avg_sec(self) -> float | None:
        """Mean of all waits; None = there was none."""
        return self.wait_sum_ms / self.waits / 1000 if self.waits else None

    @property
    def wait_max_sec(self) -> int | None:
        """Longest wait; None = there was none."""
        return self.wait_max_ms // 1000 if self.waits else None


def read_hour(data: bytes) -> HourRecord | None:
    """Record from its bytes; None when there are none."""
    if len(data) < _HEAD.size:
        return None
    hour, joins, passes, depth, active, samples, blocked, warned, waits, longest, *rest = _HEAD.unpack_from(data)
    since, base, begun, upto, depth_sum, wait_sum, *_ = rest
    kept = min(waits, SAMPLES_MAX)
    return HourRecord(
        hour=hour,
        since=int(since),
        covered_ms=max(0, int(base + upto - begun)),
        joins=joins,
        passes=passes,
        peak_depth=depth,
        peak_active=active,
        samples=samples,
        depth_sum=int(depth_sum),
        blocked=blocked,
        warned=warned,
        waits=waits,
        wait_sum_ms=int(wait_sum),
        wait_max_ms=longest,
        kept=tuple(_SAMPLE.iter_unpack(data[_HEAD.size : _HEAD.size + kept * _SAMPLE.size])),
    )


def percentile(weighted: Iterable[tuple[float, float]], share: float) -> float | None:
    """Smallest value that at least ``share`` of the weight does not exceed; pairs (value, weight). None: no pair."""
    pairs = sorted(weighted)
    wanted = share * sum(weight for _, weight in pairs)
    reached = 0.0
    for value, weight in pairs:
        reached += weight
        if reached >= wanted * (1 - 1e-12):
            return value
    return None


def recent_waits(records: Sequence[HourRecord], now_ms: int) -> list[tuple[float, float]]:
    """(ms, weight) of the kept waits that ended in the hour before ``now_ms``; each stands for as many as it must."""
    found: list[tuple[float, float]] = []
    for record in records:
        begin = record.hour * HOUR_MS
        weight = record.waits / len(record.kept) if record.kept else 0.0
        found += [(wait, weight) for wait, at in record.kept if now_ms - HOUR_MS < begin + at]
    return found


def hour_percentile_sec(record: HourRecord, share: float) -> int | None:
    """Percentile of an hour's waits (``waitP50Sec``, ``waitP90Sec``), from the kept ones."""
    return _seconds(percentile(((wait, 1.0) for wait, _ in record.kept), share))


def live_percentiles_sec(records: Sequence[HourRecord], now_ms: int) -> tuple[int | None, int | None]:
    """p50 and p90 of the waits that ended within the last hour (ENG-233)."""
    waits = recent_waits(records, now_ms)
    return _seconds(percentile(waits, 0.5)), _seconds(percentile(waits, 0.9))


def _seconds(ms: float | None) -> int | None:
    return None if ms is None else int(ms // 1000)
