"""Threshold activation: the queue switches itself on by arrivals, and off again when it is quiet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.domain.automation import AutoActivate
from app.domain.facts_of_rooms import RoomUpdated
from app.domain.room import RoomState
from app.infrastructure.engine_auto import EngineAuto, Overtaken, Switch, Switched
from tests.engine.world import ROOM, Browser, World

RULE = AutoActivate(enabled=True, joins_per_min=120, sustain_sec=60, release_after_sec=300)
BASE: dict[str, Any] = {"state": RoomState.BYPASS, "queue_max_per_ip": None, "presence_sec": 3600}


class Street:
    """Visitors that come evenly, seconds that pass, and a leader that looks once a second."""

    def __init__(self, world: World, *, leader: int = 7) -> None:
        self.world = world
        self.leader = leader
        self.engine = EngineAuto(world.prefix, world.loader, instance="i:one")
        self.due = 0.0
        self.switches: list[Switched] = []

    async def look(self) -> Switched:
        rule = self.world.room.config.auto_activate
        assert rule is not None
        (answer,) = await self.engine.switch_many([(self.world.room, rule)], leader=self.leader)
        if isinstance(answer, Exception):
            raise answer
        if answer.outcome is not Switch.NOTHING:
            self.switches.append(answer)
        return answer

    async def second(self, per_min: float, *, look: bool = True) -> None:
        """One second in which visitors come at this pace, a tick, and a look."""
        self.due += per_min / 60
        count, self.due = int(self.due), self.due - int(self.due)
        await asyncio.gather(*(self.world.join(Browser()) for _ in range(count)))
        await self.world.advance(1)
        await self.world.jobs.tick(ROOM)
        if look:
            await self.look()

    async def seconds(self, number: int, per_min: float, **more: Any) -> None:
        for _ in range(number):
            await self.second(per_min, **more)

    async def until_switched(self, per_min: float, at_most: int) -> int:
        """Seconds until the next switch."""
        before = len(self.switches)
        for number in range(1, at_most + 1):
            await self.second(per_min)
            if len(self.switches) > before:
                return number
        raise AssertionError(f"no switch within {at_most} s")

    async def state(self) -> RoomState:
        return (await self.world.figures()).state


async def street(world: World, **fields: Any) -> Street:
    await world.create(**{**BASE, "auto_activate": RULE, **fields})
    return Street(world)


@pytest.mark.req("ENG-291", "ENG-213", "ENG-214", "ENG-218", "CON-070")
async def test_it_opens_by_a_sustained_stream_and_closes_when_it_is_quiet(world: World) -> None:
    town = await street(world, rate_per_minute=600)
    await town.seconds(600, 119)
    assert town.switches == []

    reads = 0
    while (await world.figures()).joins_per_min < 120:
        await town.second(130)
        reads += 1
        assert reads < 60
    took = await town.until_switched(130, 70)
    assert 60 <= took <= 65
    assert town.switches[-1].outcome is Switch.OPENED
    assert await town.state() is RoomState.ACTIVE

    await world.update(rate_per_minute=0)
    waits = Browser()
    await world.join(waits)
    await town.seconds(400, 0)
    assert len(town.switches) == 1, "somebody waits"
    await world.update(rate_per_minute=6000)
    await town.second(0)
    assert (await world.figures()).waiting == 0
    assert 300 <= await town.until_switched(50, 310) <= 305
    assert town.switches[-1].outcome is Switch.CLOSED
    assert await town.state() is RoomState.BYPASS


@pytest.mark.req("ENG-213")
async def test_it_takes_the_threshold_itself_as_reached(world: World) -> None:
    town = await street(world)

    assert 118 <= await town.until_switched(120, 125) <= 122

    assert (town.switches[0].arrivals, town.switches[0].seconds) == (120, 60)


@pytest.mark.req("ENG-214", "ENG-291")
async def test_it_is_not_quiet_at_the_threshold_itself(world: World) -> None:
    town = await street(world, auto_activate=AutoActivate(True, 60, 1, 5), rate_per_minute=6000)
    await town.until_switched(60, 70)
    assert await town.state() is RoomState.ACTIVE

    await town.seconds(20, 60)

    assert ((await world.figures()).waiting, len(town.switches)) == (0, 1)
    await town.until_switched(0, 10)


@pytest.mark.req("ENG-213")
async def test_it_begins_anew_after_a_break(world: World) -> None:
    town = await street(world)
    await town.seconds(100, 130)
    assert (await world.header())["auto_since"] > 0
    await town.seconds(20, 0)
    assert (await world.header())["auto_since"] == 0

    await town.seconds(60, 130)

    assert town.switches == []


@pytest.mark.req("ENG-213", "ENG-044")
async def test_it_never_closes_by_itself_with_release_after_zero(world: World) -> None:
    town = await street(world, auto_activate=AutoActivate(True, 60, 5, 0))
    await town.until_switched(120, 60)
    await world.update(rate_per_minute=6000)

    await town.seconds(400, 0)

    assert await town.state() is RoomState.ACTIVE


@pytest.mark.req("ENG-214")
async def test_it_counts_quiet_anew_when_somebody_waited_for_less_than_a_second(world: World) -> None:
    town = await street(world, auto_activate=AutoActivate(True, 60, 5, 30), rate_per_minute=6000)
    await town.until_switched(120, 60)
    while not (await world.header())["auto_since"]:
        await town.second(0)
    await town.seconds(25, 0)
    assert await town.state() is RoomState.ACTIVE
    await world.update(rate_per_minute=0)
    brief = Browser()
    await world.join(Browser())  # takes the one credit that is left
    await world.join(brief)
    assert (await world.figures()).waiting > 0
    await world.update(rate_per_minute=6000)
    await world.tick(0.5)
    assert (await world.figures()).waiting == 0

    quiet = await town.until_switched(0, 40)

    assert 28 <= quiet <= 32


@pytest.mark.req("ENG-214")
async def test_it_stays_open_while_arrivals_are_at_the_threshold_and_nobody_waits(world: World) -> None:
    town = await street(world, auto_activate=AutoActivate(True, 60, 5, 20), rate_per_minute=6000)
    await town.until_switched(120, 60)

    await town.seconds(100, 66)

    assert await town.state() is RoomState.ACTIVE


@pytest.mark.req("ENG-215")
async def test_it_never_touches_a_paused_room(world: World) -> None:
    town = await street(world, state=RoomState.PAUSED, auto_activate=AutoActivate(True, 10, 3, 3))

    await town.seconds(80, 120)
    await town.seconds(80, 0)

    assert town.switches == []
    assert await town.state() is RoomState.PAUSED


@pytest.mark.req("ENG-215")
async def test_it_never_touches_a_scheduled_room(world: World) -> None:
    town = await street(world, auto_activate=AutoActivate(True, 10, 3, 3), pre_queue_max_per_ip=None)
    await world.update(opens_at=await world.now() + 3_600_000)
    await town.seconds(80, 120)
    assert town.switches == []
    assert (await world.figures()).joins_per_min >= 100


@pytest.mark.req("ENG-215")
async def test_it_switches_nothing_from_the_moment_on_in_which_a_room_is_scheduled(world: World) -> None:
    town = await street(world, auto_activate=AutoActivate(True, 10, 3, 3))
    await town.seconds(20, 120, look=False)
    await world.update(opens_at=await world.now() + 3_600_000)

    assert (await town.look()).outcome is Switch.NOTHING


@pytest.mark.req("ENG-215")
async def test_it_closes_no_queue_of_its_own_whose_room_was_scheduled_meanwhile(world: World) -> None:
    town = await street(world, auto_activate=AutoActivate(True, 60, 5, 10), rate_per_minute=6000)
    await town.until_switched(120, 60)
    await world.tick(5)
    await world.update(opens_at=await world.now() + 3_600_000)

    await town.seconds(90, 0)

    assert [switch.outcome for switch in town.switches] == [Switch.OPENED]


@pytest.mark.req("ENG-216")
async def test_it_closes_no_queue_that_a_person_opened(world: World) -> None:
    town = await street(world, auto_activate=AutoActivate(True, 60, 5, 10), rate_per_minute=6000)
    await world.update(state=RoomState.ACTIVE)
    await town.seconds(40, 0)
    assert await town.state() is RoomState.ACTIVE

    await world.update(state=RoomState.BYPASS)
    await town.until_switched(120, 60)
    await world.update(state=RoomState.PAUSED)
    await world.update(state=RoomState.ACTIVE)
    await town.seconds(90, 0)
    assert len(town.switches) == 1, "the opening counts as the person's"
    await world.update(state=RoomState.BYPASS)
    await town.until_switched(120, 60)
    await town.until_switched(0, 90)
    assert await town.state() is RoomState.BYPASS, "its own again"


@pytest.mark.req("ENG-044")
async def test_it_switches_nothing_that_is_not_enabled(world: World) -> None:
    town = await street(world, auto_activate=AutoActivate(False, 10, 3, 3))
    await town.seconds(80, 120)
    assert town.switches == []
    assert (await world.header())["auto_joins"] == 0

    await world.update(auto_activate=AutoActivate(True, 10, 3, 3))
    assert (await world.header())["auto_joins"] == 10
    await world.update(auto_activate=None)
    assert (await world.header())["auto_joins"] == 0


@pytest.mark.req("ENG-219")
async def test_it_keeps_the_sustained_time_over_a_change_of_leader(world: World) -> None:
    town = await street(world)
    await town.seconds(100, 130)
    town.leader += 1
    await town.seconds(10, 130, look=False)
    await town.seconds(10, 130)

    assert [switch.outcome for switch in town.switches] == [Switch.OPENED]
    assert 60 <= town.switches[0].seconds <= 65


@pytest.mark.req("ENG-219")
async def test_it_counts_no_time_in_which_no_instance_ran(world: World) -> None:
    town = await street(world)
    await town.seconds(75, 130)
    held = (await world.header())["mono"] - (await world.header())["auto_since"]
    assert 10_000 < held < 30_000

    await world.advance(600)
    await world.jobs.tick(ROOM)
    await town.look()

    assert town.switches == []
    assert (await world.header())["auto_since"] == 0


async def test_it_records_each_switch_with_the_numbers_that_caused_it(world: World) -> None:
    town = await street(world, auto_activate=AutoActivate(True, 60, 5, 10), rate_per_minute=6000)
    await town.until_switched(120, 60)
    await town.until_switched(0, 90)

    opened, closed = await world.facts(RoomUpdated)

    assert (opened.changes, opened.actor, opened.why) == ({"state": 0}, "system", "threshold")
    assert opened.figures["threshold"] == 60
    assert opened.figures["joins_per_min"] >= 60
    assert 5 <= opened.figures["seconds"] <= 7
    assert opened.figures["leader"] == 7
    assert (closed.changes, closed.why) == ({"state": 2}, "threshold")
    assert closed.figures["joins_per_min"] < 60


@pytest.mark.req("ENG-221")
async def test_it_tells_the_last_switch(world: World) -> None:
    town = await street(world, auto_activate=AutoActivate(True, 60, 5, 10), rate_per_minute=6000)
    figures = await world.figures()
    assert (figures.last_switch, figures.last_switch_at) == (None, None)

    await town.until_switched(120, 60)
    figures = await world.figures()
    assert (figures.last_switch, figures.now - (figures.last_switch_at or 0) < 3000) == ("opened", True)

    await world.update(state=RoomState.PAUSED)
    assert (await world.figures()).last_switch == "opened", "a person's change is no switch"
    await world.update(state=RoomState.BYPASS)
    await town.until_switched(120, 60)
    await town.until_switched(0, 90)
    assert (await world.figures()).last_switch == "closed"


async def test_it_refuses_a_leader_whose_term_is_over(world: World) -> None:
    town = await street(world, auto_activate=AutoActivate(True, 60, 1, 10))
    later = Street(world, leader=8)
    await later.look()
    await town.seconds(40, 120, look=False)

    with pytest.raises(Overtaken):
        await town.look()
    assert await town.state() is RoomState.BYPASS
    await later.look()
    assert await town.state() is RoomState.ACTIVE
