"""A wall clock that is not Valkey's is told of."""

from __future__ import annotations

import pytest

from app.core import metrics
from app.infrastructure.metric_book import MetricBook
from app.services.health_of_stores import clock_warnings


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
