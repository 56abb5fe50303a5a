"""A wall clock that is not Valkey's is told of."""

from __future__ import annotations

import pytest

from app.core import metrics
from app.infrastructure.metric_book import MetricBook
from app.services.health_of_stores import clock_warnings
from app.services.instance_watch import sure_offset


@pytest.mark.req("FLT-130")
@pytest.mark.parametrize(
    ("offset_ms", "warnings"),
    [
        (None, []),
        (5000, []),
        (-5000, []),
        (7400, ["clock of this instance differs from Valkey's by 7 s"]),
        (-3_600_000, ["clock of this instance differs from Valkey's by 3600 s"]),
    ],
)
def test_it_warns_of_a_clock_that_is_not_valkeys(offset_ms: int | None, warnings: list[str]) -> None:
    book = MetricBook.alone()
    if offset_ms is not None:
        book.put(metrics.CLOCK_OFFSET, offset_ms)

    assert clock_warnings(book) == warnings


@pytest.mark.req("FLT-130")
@pytest.mark.parametrize(
    ("told_at", "theirs", "offset_ms"),
    [
        (10_001, 10_000, 0),
        (19_000, 10_000, 0),
        (19_000, 19_000, 0),
        (10_001, 2_000, 8_000),
        (19_000, 2_000, 8_000),
        (19_000, 27_000, -8_000),
    ],
)
def test_an_answer_that_took_long_is_no_difference_of_clocks(told_at: int, theirs: int, offset_ms: int) -> None:
    """A process that was held up for 9 s between question and answer must not call its clock wrong."""
    assert sure_offset(10_000, told_at, theirs) == offset_ms
