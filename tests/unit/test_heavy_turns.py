"""Turns and pauses of heavy work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from app.core import metrics
from app.infrastructure.metric_book import MetricBook
from app.services import heavy_turns
from app.services.heavy_pauses import PAUSE_MAX_SEC, WORK_SEC, HeavyPauses
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

    def __init__(self) -> None:
        self.now = 1000.0
        self.contended_until = 0.0
        self.shown: list[bool] = []
        self.pauses = HeavyPauses(
            lambda: self.now < self.contended_until, show=self.shown.append, now=lambda: self.now, sleep=self.sleep
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
    assert clock.now == 1000.0 + PAUSE_MAX_SEC == 1300.0
    await clock.pauses.let_pass()
    assert clock.now == 1300.0

    clock.now += WORK_SEC
    await clock.pauses.let_pass()
    assert clock.now == 1300.0 + WORK_SEC + PAUSE_MAX_SEC


def test_it_shows_every_kind_that_can_be_asked_for() -> None:
    nothing = type("Nothing", (), {})()
    works = HeavyWorks(notes=nothing, reports=nothing, history=nothing, refs=nothing, look_again=nothing)
    assert sorted(ASKED) == sorted(works.kinds)
    book = MetricBook.alone()
    for kind in ASKED:
        book.put(metrics.HEAVY_RUNNING, 1, kind)
    assert heavy_block(book)["running"] == sorted(ASKED)
