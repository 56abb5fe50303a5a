"""The ticker over many rooms: which it asks about, how often, and in how few trips."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from app.core.clock import mono
from app.core.ids import RoomId
from app.core.settings import Settings
from app.domain.room import RoomConfig
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_results import TickAnswer
from app.infrastructure.keys import rooms_key
from app.infrastructure.lua_loader import CALLS_A_TRIP, LuaLoader
from app.infrastructure.metric_book import MetricBook
from tests.engine.world import Browser, World
from workers import ticker
from workers.ticker import ROOMS_A_TRIP, Ticker

ROOMS = [RoomId(f"room-{number}") for number in range(1000)]


class Loop:
    """A ticker process around ``workers.ticker.run``: its pauses are taken down, and it ends after some of them."""

    def __init__(self, world: World, turns: int, *, sleeps: bool = False) -> None:
        self.valkey, self.settings = world.valkey, Settings(valkey_prefix=world.prefix)
        self.stop, self.book = asyncio.Event(), MetricBook.alone()
        self.pauses: list[float] = []
        self.ends: list[float] = []
        """When turns were done."""
        self._turns, self._sleeps = turns, sleeps

    def ready(self) -> None:
        """Nobody waits for it here."""

    async def pause(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        self.ends.append(mono())
        if self._sleeps:
            await asyncio.sleep(seconds)
        if len(self.pauses) == self._turns:
            self.stop.set()
        return self.stop.is_set()

    async def run(self) -> None:
        await ticker.run(self)  # type: ignore[arg-type]  # only what it uses


async def make_rooms(world: World, rooms: Sequence[RoomId], **fields: Any) -> None:
    async def make(room: RoomId) -> None:
        await world.admin.create(
            RoomConfig(room, room, "https://shop.example/", **fields), gen=1, salt=b"s" * 16, actor="op"
        )

    for start in range(0, len(rooms), 100):
        await asyncio.gather(*map(make, rooms[start : start + 100]))
    await world.valkey.execute("SADD", rooms_key(world.prefix), *rooms)


@pytest.mark.req("ENG-114")
async def test_it_ticks_every_room_and_plans_two_turns_a_second(world: World) -> None:
    await make_rooms(world, ROOMS[:3], rate_per_minute=60)
    loop = Loop(world, 2)
    before = [await world.jobs.header(room) for room in ROOMS[:3]]

    await loop.run()

    after = [await world.jobs.header(room) for room in ROOMS[:3]]
    for was, now in zip(before, after, strict=True):
        assert was is not None
        assert now is not None
        assert now["last_tick"] > was["last_tick"]
    assert len(loop.pauses) == 2
    assert max(loop.pauses) <= 0.5, "the next turn begins half a second after this one began"


@pytest.mark.req("ENG-009")
async def test_it_ticks_a_thousand_rooms_in_short_trips_a_turn(world: World) -> None:
    await make_rooms(world, ROOMS, rate_per_minute=60)
    jobs, trips, answers = EngineJobs(world.prefix, LuaLoader(world.valkey)), [], {}

    async def tick_many(rooms: Sequence[RoomId]) -> list[TickAnswer | Exception]:
        trips.append(len(rooms))
        found = await jobs.tick_many(rooms)
        answers.update(zip(rooms, found, strict=True))
        return found

    await Ticker(tick_many, is_stopping=lambda: False).turn(ROOMS)

    assert trips == [ROOMS_A_TRIP] * (1000 // ROOMS_A_TRIP)
    assert ROOMS_A_TRIP <= CALLS_A_TRIP, "visitors' calls wait behind a trip"
    assert set(answers) == set(ROOMS)
    assert all(isinstance(answer, TickAnswer) for answer in answers.values())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.req("ENG-009")
async def test_it_keeps_the_pace_of_a_thousand_rooms(world: World) -> None:
    """No room is short of what the turns were worth: each ticks every room, whatever the others have to do."""
    seconds = 20
    await make_rooms(world, ROOMS, rate_per_minute=0, queue_max_per_ip=None, presence_sec=3600)
    for room in ROOMS:
        copy = await world.admin.read(room)
        assert copy is not None
        world.room = copy
        await asyncio.gather(*(world.join(Browser()) for _ in range(seconds * 2)))
    for room in ROOMS:
        await world.admin.update(room, {"rate_per_minute": 60}, actor="op")
    first = Loop(world, 1)
    await first.run()
    start = await world.admin.figures(ROOMS)
    loop = Loop(world, seconds * 2, sleeps=True)

    await loop.run()

    end = await world.admin.figures(ROOMS)
    given = [start[room].waiting - end[room].waiting for room in ROOMS]
    worth = sum(min(1.0, later - earlier) for earlier, later in pairwise([*first.ends, *loop.ends]))
    assert min(given) >= worth - 3
    assert max(given) <= worth + 3
