"""The ticker's turn: poison rooms are pushed back, rooms with more work are called again at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.infrastructure.engine_errors import RoomFenced
from app.infrastructure.engine_results import TickAnswer
from workers.ticker import Ticker

DONE = TickAnswer(0, 0, 0, False, 0)
MORE = TickAnswer(10, 0, 0, True, 5)


class Engine:
    """Answers from a script, and remembers what it was asked."""

    def __init__(self, **answers: list[TickAnswer | Exception]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def tick_many(self, rooms: Sequence[RoomId]) -> list[TickAnswer | Exception]:
        self.asked += rooms
        return [self.answers[room].pop(0) if self.answers[room] else DONE for room in rooms]


def ticker(engine: Engine) -> Ticker:
    return Ticker(engine.tick_many, is_stopping=lambda: False)


async def test_it_ticks_a_room_again_at_once_when_it_has_more_work() -> None:
    engine = Engine(a=[MORE, MORE, DONE], b=[DONE])

    await ticker(engine).turn([RoomId("a"), RoomId("b")])

    assert engine.asked == ["a", "b", "a", "a"]


async def test_it_pushes_a_failing_room_back_and_ticks_the_others() -> None:
    engine = Engine(bad=[ValueError("poison")], good=[DONE, DONE])
    turns = ticker(engine)

    await turns.turn([RoomId("bad"), RoomId("good")])
    await turns.turn([RoomId("bad"), RoomId("good")])

    assert engine.asked == ["bad", "good", "good"]


async def test_it_asks_a_fenced_room_again_in_the_next_turn() -> None:
    engine = Engine(a=[RoomFenced(), DONE])
    turns = ticker(engine)

    await turns.turn([RoomId("a")])
    await turns.turn([RoomId("a")])

    assert engine.asked == ["a", "a"]


async def test_it_lets_an_outage_through() -> None:
    async def away(rooms: Sequence[RoomId]) -> list[TickAnswer | Exception]:
        raise StorageUnavailable

    with pytest.raises(StorageUnavailable):
        await Ticker(away, is_stopping=lambda: False).turn([RoomId("a")])


async def test_it_leaves_a_turn_when_the_process_is_stopped() -> None:
    engine = Engine(a=[MORE] * 1000)
    turns = Ticker(engine.tick_many, is_stopping=lambda: len(engine.asked) >= 3)

    await turns.turn([RoomId("a")])

    assert len(engine.asked) == 3
