"""What an instance does by itself and can put off rests while there is no CPU to spare, and is shown while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from app.core import metrics
from app.infrastructure.metric_book import MetricBook
from app.services.checkpoints import Checkpoints
from app.services.heavy_pauses import Rest
from app.services.heavy_state import OWN, at_work, heavy_block, running_kinds
from app.services.old_addresses import OldAddresses
from app.services.old_hours import OldHours
from app.services.old_marks import OldMarks
from workers.pauses import pauses_of


class Store:
    """A store of every kind that has nothing more to give up."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def _ask(self, *_: object) -> bool:
        self.asked.set()
        return False

    drop_marks = drop = blank = _ask

    async def histories(self) -> list[object]:
        return [object()]


class Term:
    def check(self) -> None:
        return


def addresses(store: Any, rest: Rest) -> Awaitable[None]:
    return OldAddresses(store, days=7, rest=rest).run(Term())  # type: ignore[arg-type]


def hours(store: Any, rest: Rest) -> Awaitable[None]:
    return OldHours(store, days=7, rest=rest).run(Term())  # type: ignore[arg-type]


def marks(store: Any, rest: Rest) -> Awaitable[None]:
    return OldMarks(store, rest).run(Term())  # type: ignore[arg-type]


def checkpoints(store: Any, rest: Rest) -> Awaitable[None]:
    maker = Checkpoints(store, events=1, rest=rest)
    maker.turn = store._ask  # type: ignore[method-assign]
    return maker.run(asyncio.Event())


@pytest.mark.parametrize("duty", [addresses, hours, marks, checkpoints])
async def test_it_waits_before_each_step(duty: Callable[[Any, Rest], Awaitable[None]]) -> None:
    store, over = Store(), asyncio.Event()
    task = asyncio.ensure_future(duty(store, over.wait))  # type: ignore[arg-type]
    for _ in range(50):
        await asyncio.sleep(0)
    assert not store.asked.is_set()

    over.set()
    async with asyncio.timeout(10):
        await store.asked.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_it_shows_what_runs_for_as_long_as_it_runs() -> None:
    book = MetricBook.alone()
    with at_work(book, "rebuild"), at_work(book, "draw"):
        with at_work(book, "rebuild"):
            assert running_kinds(book) == ["draw", "rebuild"]
        assert heavy_block(book) == {"running": ["draw", "rebuild"], "waiting": 0, "paused": False}
    assert running_kinds(book) == []
    assert OWN == ("checkpoint", "draw", "rebuild")


async def test_a_process_rests_by_what_its_instance_found_out_and_never_longer_than_it_lives() -> None:
    book, stop = MetricBook.alone(), asyncio.Event()
    background: Any = SimpleNamespace(book=book, stop=stop, pause=lambda _: asyncio.sleep(0))
    pauses = pauses_of(background)
    await pauses.let_pass()

    for end in (lambda: book.put(metrics.CONTENTION_SINCE, 0), stop.set):
        book.put(metrics.CONTENTION_SINCE, 1_700_000_000_000)
        resting = asyncio.ensure_future(pauses.let_pass())
        await asyncio.sleep(0.01)
        assert not resting.done()
        assert heavy_block(book)["paused"] is True
        end()
        async with asyncio.timeout(10):
            await resting
        assert heavy_block(book)["paused"] is False
