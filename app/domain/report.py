"""Rows of reports: what rooms did in hours and days, honest about what was not counted.

Belongs here: adding up records of hours. Not here: where records are kept (infrastructure/hour_store.py), questions and
answers (services/reports.py). Source: OBS-160 … OBS-172, ENG-237.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.domain.csv_text import iso_time
from app.domain.hour_record import HOUR_MS, HourRecord, percentile

BUCKETS: Final = {"hour": HOUR_MS, "day": 24 * HOUR_MS}
"""Lengths in ms; days are those of UTC."""
COLUMNS: Final = (
    "roomId", "bucket", "start", "startIso", "joins", "passes", "netUnserved", "peakDepth", "avgDepth", "peakActive",
    "waitP50Sec", "waitP90Sec", "waitMaxSec", "waitAvgSec", "measuredWaits", "blocked", "warned", "samples", "partial",
    "coveredSec", "missingSec",
)  # fmt: skip
"""In this order; new ones only ever at the end (OBS-164)."""
NOTES: Final = {
    "percentiles": (
        "waitP50Sec and waitP90Sec are estimates from at most 256 waits of each hour, chosen uniformly at random; "
        "measuredWaits, waitAvgSec and waitMaxSec are exact."
    ),
    "measuredWaits": (
        "measuredWaits is not the number of people who got in, but of those whose wait ended in this time: the divisor "
        "of waitAvgSec and the weight of the percentiles. Sessions on the site are peakActive."
    ),
    "netUnserved": (
        "netUnserved is joins less passes. At the end of an hour everyone who still waits is in it; only over a day or "
        "more it is an estimate of those who gave up."
    ),
    "partial": (
        "partial: true means that the server did not count for a part of this time. Then joins, passes, measuredWaits, "
        "blocked and warned are lower bounds, coveredSec and missingSec say how much was counted, and netUnserved is "
        "null."
    ),
}
UNSEEN_MS: Final = 5000
"""What is less than one measurement (5 s) is no gap."""


@dataclass(frozen=True, slots=True)
class Life:
    """One generation of a room; epoch ms. ``deleted_at`` None: it lives."""

    created_at: int
    deleted_at: int | None = None


def report_row(
    room_id: str, bucket: str, start: int, records: Sequence[HourRecord], lives: Iterable[Life], now: int
) -> dict[str, Any]:
    """The row of one room and bucket, from all its records in it. ``lives``: of all generations that have records."""
    length = _lived(lives, start, min(start + BUCKETS[bucket], now))
    covered = min(length, sum(record.covered_ms for record in records))
    covered = length if length - covered < UNSEEN_MS else covered
    seconds = (length + 500) // 1000
    covered_sec = min(seconds, covered // 1000) if covered < length else seconds
    is_partial = covered_sec < seconds
    joins, passes = _sum(records, "joins"), _sum(records, "passes")
    waits, samples = _sum(records, "waits"), _sum(records, "samples")
    weighted = [pair for record in records for pair in _weighted(record)]
    return {
        "roomId": room_id,
        "bucket": bucket,
        "start": start,
        "startIso": iso_time(start),
        "joins": joins,
        "passes": passes,
        "netUnserved": None if is_partial else joins - passes,
        "peakDepth": max((record.peak_depth for record in records), default=0),
        "avgDepth": round(_sum(records, "depth_sum") / samples, 1) if samples else None,
        "peakActive": max((record.peak_active for record in records), default=0),
        "waitP50Sec": _seconds(percentile(weighted, 0.5)),
        "waitP90Sec": _seconds(percentile(weighted, 0.9)),
        "waitMaxSec": max(record.wait_max_ms for record in records) // 1000 if waits else None,
        "waitAvgSec": round(_sum(records, "wait_sum_ms") / waits / 1000, 1) if waits else None,
        "measuredWaits": waits,
        "blocked": _sum(records, "blocked"),
        "warned": _sum(records, "warned"),
        "samples": samples,
        "partial": is_partial,
        "coveredSec": covered_sec,
        "missingSec": seconds - covered_sec,
    }


def _weighted(record: HourRecord) -> list[tuple[float, float]]:
    """Kept waits of an hour; each stands for as many as it must (OBS-172)."""
    weight = record.waits / len(record.kept) if record.kept else 0.0
    return [(wait, weight) for wait, _ in record.kept]


def _lived(lives: Iterable[Life], start: int, end: int) -> int:
    """Ms between ``start`` and ``end`` in which the room was there. Generations follow each other."""
    total = 0
    for life in lives:
        until = end if life.deleted_at is None else min(end, life.deleted_at)
        total += max(0, until - max(start, life.created_at))
    return total


def _sum(records: Sequence[HourRecord], name: str) -> int:
    return sum(getattr(record, name) for record in records)


def _seconds(ms: float | None) -> int | None:
    return None if ms is None else int(ms // 1000)
