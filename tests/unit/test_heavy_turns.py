"""Turns and pauses of heavy work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise

import pytest

from app.core import metrics
from app.infrastructure.metric_book import MetricBook
from app.services import heavy_turns
from app.services.heavy_pauses import ASKED as ASKED_PACE
from app.services.heavy_pauses import OWN, HeavyPauses, Pace
from app.services.heavy_state import ASKED, heavy_block
from app.services.heavy_turns import RETRY_AFTER_SEC, WAITING_MAX, Busy, HeavyTurns, Turn
from app.services.heavy_works import HeavyWorks


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Asker:
    """Somebody who wants a piece of work, works when it is his turn, and ends when he is told to."""

    def __init__(self, turns: HeavyTurns, kind: str = "audit_csv") -> None:
        self.end = asyncio.Event()
        self.turn: Turn | None = None
        self.task = asyncio.create_task(self._run(turns, kind))

    async def _run(self, turns: HeavyTurns, kind: str) -> None:
        async with turns.place(kind) as self.turn:
            await self.end.wait()

    @property
    def has_begun(self) -> bool:
        return self.turn is not None


@asynccontextmanager
async def asking(turns: HeavyTurns, number: int) -> AsyncIterator[list[Asker]]:
    askers = [Asker(turns) for _ in range(number)]
    await settle()
    try:
        yield askers
    finally:
        for asker in askers:
            asker.task.cancel()
        await asyncio.gather(*(asker.task for asker in askers), return_exceptions=True)


@pytest.mark.req("BUD-076")
async def test_it_runs_one_piece_lets_four_wait_and_refuses_more() -> None:
    book = MetricBook.alone()
    turns = HeavyTurns(book)
    assert heavy_block(book) == {"running": [], "waiting": 0, "paused": False}
    async with asking(turns, 1 + WAITING_MAX) as askers:
        assert WAITING_MAX == 4
        assert [asker.has_begun for asker in askers] == [True, False, False, False, False]
        assert heavy_block(book) == {"running": ["audit_csv"], "waiting": 4, "paused": False}
        with pytest.raises(Busy) as refusal:
            async with turns.place("report"):
                pass
        assert (refusal.value.status, refusal.value.code) == (429, "busy")
        assert refusal.value.headers == {"Retry-After": str(RETRY_AFTER_SEC)}

        askers[0].end.set()
        askers[2].task.cancel()  # who goes away while he waits gives his place to somebody else
        await settle()
        assert [asker.has_begun for asker in askers] == [True, True, False, False, False]
        assert heavy_block(book)["waiting"] == 2

        askers[1].end.set()
        await settle()
        assert [asker.has_begun for asker in askers] == [True, True, False, True, False], "in the order of asking"
    assert heavy_block(book) == {"running": [], "waiting": 0, "paused": False}
    assert turns.inside == 0


async def test_it_passes_the_turn_on_while_somebody_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy_turns, "PATIENCE_SEC", 0.01)
    book = MetricBook.alone()
    turns, taken = HeavyTurns(book), asyncio.Event()

    async def taking() -> None:
        await taken.wait()

    async with AsyncExitStack() as stack:
        slow = await stack.enter_async_context(turns.place("report_csv"))
        async with asking(turns, 1) as (other,):
            assert not other.has_begun
            waiting = asyncio.create_task(slow.outlast(taking()))
            async with asyncio.timeout(10):
                while not other.has_begun:
                    await asyncio.sleep(0.005)
            assert heavy_block(book) == {"running": ["audit_csv"], "waiting": 1, "paused": False}

            taken.set()
            await settle()
            assert not waiting.done(), "the turn is the other's until he has ended"
            other.end.set()
            await waiting
            assert heavy_block(book) == {"running": ["report_csv"], "waiting": 0, "paused": False}

        gone = asyncio.create_task(slow.outlast(asyncio.Event().wait()))  # type: ignore[arg-type]
        await asyncio.sleep(0.05)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    assert heavy_block(book) == {"running": [], "waiting": 0, "paused": False}


class Clock:
    """Time that passes only by waiting."""

    def __init__(self, pace: Pace = OWN) -> None:
        self.now = 1000.0
        self.contended_until = 0.0
        self.shown: list[bool] = []
        self.pauses = HeavyPauses(
            lambda: self.now < self.contended_until,
            pace,
            show=self.shown.append,
            now=lambda: self.now,
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_it_rests_while_there_is_no_cpu_to_spare() -> None:
    clock = Clock()
    await clock.pauses.let_pass()
    assert (clock.now, clock.shown) == (1000.0, [])

    clock.contended_until = 1040.0
    await clock.pauses.let_pass()

    assert clock.now == 1040.0
    assert clock.shown == [True, False]


async def test_it_rests_for_five_minutes_at_most_and_works_a_while_before_it_rests_again() -> None:
    clock = Clock()
    clock.contended_until = 9_000_000.0

    await clock.pauses.let_pass()
    assert clock.now == 1000.0 + OWN.rest_sec == 1300.0
    await clock.pauses.let_pass()
    assert clock.now == 1300.0

    clock.now += OWN.work_sec
    await clock.pauses.let_pass()
    assert clock.now == 1300.0 + OWN.work_sec + OWN.rest_sec


async def test_what_somebody_waits_for_is_never_silent_for_half_a_minute() -> None:
    clock = Clock(ASKED_PACE)
    clock.contended_until = 9_000_000.0
    worked_at: list[float] = []
    for _ in range(20):
        await clock.pauses.let_pass()
        worked_at.append(clock.now)
        clock.now += 0.3  # a step

    gaps = [after - before for before, after in pairwise(worked_at)]
    assert max(gaps) * (1 + WAITING_MAX) < 30, "all who have a place take turns"
    at_work = 20 * 0.3 / (clock.now - 1000.0)
    assert at_work < 0.2, "the rest belongs to visitors"


@pytest.mark.req("BUD-076")
async def test_it_shares_its_turn_between_steps_once_it_has_had_it_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = HeavyTurns(MetricBook.alone())
    done: list[str] = []

    async def work(name: str, steps: int) -> None:
        async with turns.place(name) as turn:
            for _ in range(steps):
                done.append(name)
                await asyncio.sleep(0)
                await turn.share()

    async def both() -> str:
        done.clear()
        await asyncio.gather(work("audit_csv", 3), work("report", 3))
        return " ".join(done)

    assert await both() == "audit_csv audit_csv audit_csv report report report"
    monkeypatch.setattr(heavy_turns, "SHARE_SEC", 0.0)
    assert await both() == "audit_csv report audit_csv report audit_csv report"


def test_it_shows_every_kind_that_can_be_asked_for() -> None:
    nothing = type("Nothing", (), {})()
    works = HeavyWorks(notes=nothing, reports=nothing, history=nothing, refs=nothing, look_again=nothing)
    assert sorted(ASKED) == sorted(works.kinds)
    book = MetricBook.alone()
    for kind in ASKED:
        book.put(metrics.HEAVY_RUNNING, 1, kind)
    assert heavy_block(book)["running"] == sorted(ASKED)
