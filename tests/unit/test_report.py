"""Rows of reports: sums, weights, and what they say of time that nobody counted."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.hour_record import HOUR_MS, HourRecord
from app.domain.report import COLUMNS, NOTES, Life, report_row

TEN = 480_555  # some hour
START = TEN * HOUR_MS
LONG_AGO = Life(0)
LATER = START + 100 * HOUR_MS


def hour(number: int = TEN, **more: Any) -> HourRecord:
    """A whole quiet hour, but for ``more``."""
    plain = {
        "hour": number, "since": number * HOUR_MS, "covered_ms": HOUR_MS, "joins": 0, "passes": 0, "peak_depth": 0,
        "peak_active": 0, "samples": 0, "depth_sum": 0, "blocked": 0, "warned": 0, "waits": 0, "wait_sum_ms": 0,
        "wait_max_ms": 0, "kept": (),
    }  # fmt: skip
    return HourRecord(**{**plain, **more})


def row(
    *records: HourRecord, bucket: str = "hour", start: int = START, lives: Any = (LONG_AGO,), now: int = LATER
) -> Any:
    return report_row("shop", bucket, start, records, lives, now)


@pytest.mark.req("OBS-164", "ADM-277")
def test_it_has_the_columns_in_their_order() -> None:
    made = row(hour())
    assert tuple(made) == COLUMNS == (
        "roomId", "bucket", "start", "startIso", "joins", "passes", "netUnserved", "peakDepth", "avgDepth",
        "peakActive", "waitP50Sec", "waitP90Sec", "waitMaxSec", "waitAvgSec", "measuredWaits", "blocked", "warned",
        "samples", "partial", "coveredSec", "missingSec",
    )  # fmt: skip


@pytest.mark.req("OBS-165", "OBS-170", "OBS-171")
def test_it_tells_what_an_hour_counted() -> None:
    waits = tuple((1000 * sec, 0) for sec in range(1, 101))
    made = row(
        hour(
            joins=812, passes=700, peak_depth=430, peak_active=90, samples=720, depth_sum=153_000, blocked=1, warned=4,
            waits=100, wait_sum_ms=5_050_000, wait_max_ms=100_900, kept=waits,
        )
    )  # fmt: skip
    assert made == {
        "roomId": "shop", "bucket": "hour", "start": START, "startIso": made["startIso"], "joins": 812, "passes": 700,
        "netUnserved": 112, "peakDepth": 430, "avgDepth": 212.5, "peakActive": 90, "waitP50Sec": 50, "waitP90Sec": 90,
        "waitMaxSec": 100, "waitAvgSec": 50.5, "measuredWaits": 100, "blocked": 1, "warned": 4, "samples": 720,
        "partial": False, "coveredSec": 3600, "missingSec": 0,
    }  # fmt: skip
    assert made["startIso"].endswith(":00:00.000Z")


@pytest.mark.req("OBS-167", "ADM-278")
def test_it_says_what_a_crash_left_out() -> None:
    crashed = hour(covered_ms=600_000, joins=20, passes=5)
    again = hour(since=START + 1_800_000, covered_ms=1_800_000, joins=10, passes=30)
    made = row(crashed, again)
    assert (made["joins"], made["passes"], made["netUnserved"]) == (30, 35, None)
    assert (made["partial"], made["coveredSec"], made["missingSec"]) == (True, 2400, 1200)
    assert (made["avgDepth"], made["waitP50Sec"], made["waitMaxSec"], made["waitAvgSec"]) == (None,) * 4
    assert "lower bounds" in NOTES["partial"]


@pytest.mark.req("OBS-168")
def test_covered_and_missing_make_the_time_in_which_the_room_was_there() -> None:
    young = row(hour(since=START + 600_000, covered_ms=3_000_000), lives=[Life(START + 600_000)])
    assert (young["coveredSec"], young["missingSec"], young["partial"]) == (3000, 0, False)
    running = row(hour(covered_ms=59_000), now=START + 60_000)
    assert (running["coveredSec"], running["missingSec"], running["partial"]) == (60, 0, False)
    late = row(hour(covered_ms=30_000), now=START + 60_000)
    assert (late["coveredSec"], late["missingSec"], late["partial"]) == (30, 30, True)
    gone = row(hour(covered_ms=900_000), lives=[Life(0, START + 900_000)])
    assert (gone["coveredSec"], gone["missingSec"], gone["netUnserved"]) == (900, 0, 0)
    twice = row(
        hour(covered_ms=900_000), hour(since=START + 1_800_000, covered_ms=1_800_000),
        lives=[Life(0, START + 900_000), Life(START + 1_800_000)],
    )  # fmt: skip
    assert (twice["coveredSec"], twice["missingSec"]) == (2700, 0)


@pytest.mark.req("OBS-172")
def test_a_day_weighs_its_hours_by_their_waits() -> None:
    start = START // (24 * HOUR_MS) * 24 * HOUR_MS
    first = start // HOUR_MS
    busy = hour(first, waits=9000, wait_sum_ms=9_000_000, wait_max_ms=1000, kept=((1000, 0),) * 256)
    quiet = hour(first + 1, waits=256, wait_sum_ms=256 * 600_000, wait_max_ms=600_000, kept=((600_000, 0),) * 256)
    hours = [busy, quiet, *(hour(first + n) for n in range(2, 24))]
    made = row(*hours, bucket="day", start=start)
    assert (made["waitP50Sec"], made["waitP90Sec"], made["waitMaxSec"]) == (1, 1, 600)
    assert (made["measuredWaits"], made["coveredSec"], made["partial"]) == (9256, 86_400, False)
    hole = row(*hours[:20], bucket="day", start=start)
    assert (hole["missingSec"], hole["netUnserved"], hole["partial"]) == (4 * 3600, None, True)
    assert row(hours[5], bucket="hour", start=start + 5 * HOUR_MS)["waitP50Sec"] is None
