"""How late a loop is, and what other processes read of it."""

from __future__ import annotations

import asyncio

import pytest

from app.core import metrics
from app.domain.hour_record import percentile
from app.infrastructure.metric_book import MetricBook
from app.services.loop_meter import EVERY_SEC, LoopMeter, web_process, worst_web_lag_ms


class Loop:
    """A meter whose timer fires when it is told to."""

    def __init__(self, book: MetricBook, process: str) -> None:
        self.now = 1000.0
        self.meter = LoopMeter(book, process, steady=lambda: self.now)

    async def run(self, *late_sec: float) -> None:
        """So many beats, each so late."""
        for late in late_sec:
            self.meter._wait()
            self.now += EVERY_SEC + late
            self.meter.note(self.now)
            self.meter.stop()


@pytest.mark.req("BUD-055")
async def test_it_measures_every_100_ms_how_late_a_timer_fires() -> None:
    book = MetricBook.alone()
    loop = Loop(book, "jobs")
    loop.meter.start()
    loop.meter.stop()
    await loop.run(*[0.002] * 36, 0.2, *[0.004] * 8)
    found = book.everything()[metrics.LOOP_LAG.name, ("jobs",)]
    assert sum(found[:-1]) == 45, "one measurement a beat"
    assert found[0] == 44
    assert found[-1] == pytest.approx((36 * 0.002 + 0.2 + 8 * 0.004) * 1e6, abs=60)
    assert not book.has(metrics.LOOP_P99, "jobs"), "a window has 5 s"
    await loop.run(0.15)
    assert book.total(metrics.LOOP_P99, "jobs") == pytest.approx(200_000, abs=1)
    await loop.run(*[0.001] * 60)
    assert book.total(metrics.LOOP_P99, "jobs") == pytest.approx(1000, abs=1), "of the last window alone"


@pytest.mark.req("BUD-055")
async def test_it_goes_on_by_itself_on_a_real_loop() -> None:
    book = MetricBook.alone()
    meter = LoopMeter(book, "ticker")
    meter.start()

    async def beats(number: int) -> None:
        while sum(book.everything().get((metrics.LOOP_LAG.name, ("ticker",)), [0, 0])[:-1]) < number:
            await asyncio.sleep(0.01)

    await asyncio.wait_for(beats(2), 20)
    meter.stop()


@pytest.mark.req("BUD-057")
def test_the_worst_web_worker_counts_and_one_that_hangs_now() -> None:
    book = MetricBook.alone()
    assert worst_web_lag_ms(book, 2, 100.0) is None
    book.put(metrics.LOOP_P99, 999_000, "jobs")
    book.put(metrics.LOOP_BEAT, 100_000, "jobs")
    assert worst_web_lag_ms(book, 2, 100.0) is None, "no web worker"
    for number, micros in enumerate((7000, 80_500)):
        book.put(metrics.LOOP_P99, micros, web_process(number))
        book.put(metrics.LOOP_BEAT, 99_950, web_process(number))
    assert worst_web_lag_ms(book, 2, 100.0) == 80.5
    assert worst_web_lag_ms(book, 1, 100.0) == 7.0
    assert worst_web_lag_ms(book, 1, 103.0) == pytest.approx(2950), "its last beat was 3 s ago"


def test_a_percentile_is_a_value_that_was_seen() -> None:
    for last, wanted in ((1, 1.0), (50, 50.0), (200, 198.0)):
        assert percentile(((float(n), 1.0) for n in range(1, last + 1)), 0.99) == wanted
