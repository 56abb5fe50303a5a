"""Figures as operators read them: what they count, what is computed and what is measured (05, sections 8, 10, 11)."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.automation import AutoActivate
from app.domain.room import RoomState
from app.infrastructure.engine_auto import EngineAuto, Switch, Switched, Tuning
from app.infrastructure.engine_lookup import EngineLookup
from app.infrastructure.engine_results import Reason
from app.services.room_details import RoomDetails
from app.services.room_object import RoomView, room_object
from app.services.tickets import TicketLookup
from tests.engine.world import ROOM, Browser, World

OPEN: dict[str, Any] = {"queue_max_per_ip": None, "session_ttl_sec": 3600, "passed_ttl_sec": 3600, "presence_sec": 3600}


async def shown(world: World) -> dict[str, Any]:
    """The room object of this moment."""
    details = RoomDetails(world.admin)
    figures = (await details.figures([ROOM], fresh=True))[ROOM]
    return room_object(RoomView(world.room, figures, details=details.of(ROOM)))


async def counts(world: World) -> dict[str, int]:
    found = await shown(world)
    return {name: found[name] for name in ("waiting", "active", "pendingEntry", "occupancy", "passesOutstanding")}


@pytest.mark.req("ADM-116")
async def test_occupancy_is_sessions_and_passes_with_a_slot_and_other_passes_stand_in_no_line(world: World) -> None:
    await world.create(rate_per_minute=600, max_concurrent=3, **OPEN)
    first = await world.joined(3)
    for browser in first:
        await world.status(browser)
    await world.tick(2)
    entered = first[0]
    await world.check(entered)
    assert await counts(world) == {
        "waiting": 0, "active": 1, "pendingEntry": 2, "occupancy": 3, "passesOutstanding": 0,
    }  # fmt: skip

    await world.advance(130)  # the claim windows of the two others are over: their passes hold no slot any more
    await world.tick(1)
    assert await counts(world) == {
        "waiting": 0, "active": 1, "pendingEntry": 0, "occupancy": 1, "passesOutstanding": 2,
    }  # fmt: skip
    late = await world.joined(2)
    await world.tick(3)
    waiting = (await counts(world))["waiting"]
    assert waiting + (await counts(world))["pendingEntry"] == len(late), "holders of a pass wait in no line"
    assert (await counts(world))["occupancy"] == 1 + (await counts(world))["pendingEntry"]
    await world.leave(entered)
    assert (await counts(world))["active"] == 0


@pytest.mark.req("ADM-117")
async def test_the_estimate_is_computed_and_percentiles_are_measured(world: World) -> None:
    await world.create(rate_per_minute=60, **OPEN)
    await world.joined(30)
    await world.tick(60)
    await world.joined(20)

    found = await shown(world)

    figures = (await world.admin.figures([ROOM]))[ROOM]
    assert figures.waiting > 0
    assert found["estWaitSec"] == -(-figures.waiting * 60 // round(figures.release_per_min))
    assert abs(found["waitP50Sec"] - 15) <= 3, "one a second was let in, so the waits are 1 to 30 s"
    assert abs(found["waitP90Sec"] - 27) <= 3
    await world.update(rate_per_minute=0)
    await world.advance(3700)
    found = await shown(world)
    assert (found["estWaitSec"], found["waitP50Sec"], found["waitP90Sec"]) == (None, None, None), "of the last hour"


@pytest.mark.req("ADM-118")
async def test_it_says_when_the_estimate_is_a_lower_bound_and_when_there_is_none(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1, **OPEN)
    (inside,) = await world.joined(1)
    await world.tick(2)
    await world.check(inside)
    await world.joined(5)

    async def wait() -> tuple[Any, ...]:
        found = await shown(world)
        return found["estWaitSec"], found["estWaitIsFloor"], found["estWaitInfinite"]

    await world.tick(2)
    moving = await wait()
    await world.tick(70)  # at the cap, and nobody has left for a minute
    floor = await wait()
    await world.update(state=RoomState.PAUSED)
    paused = await wait()
    await world.update(state=RoomState.ACTIVE, rate_per_minute=0)
    at_zero = await wait()
    await world.update(rate_per_minute=60)
    await world.admin.purge(ROOM, actor="op")
    empty = await wait()

    assert moving[2] is False
    assert floor[0] > 0
    assert floor[1:] == (True, False)
    assert paused == at_zero == (None, False, True)
    assert empty == (0, False, False)


@pytest.mark.req("ADM-154")
async def test_neither_threshold_nor_autotune_touches_a_room_that_was_paused(world: World) -> None:
    rule = AutoActivate(True, 1, 1, 1)
    await world.create(rate_per_minute=30, auto_activate=rule, **OPEN)
    auto = EngineAuto(world.prefix, world.loader, instance="i:test")
    await world.joined(60)
    await world.tick(5)
    (seen,) = await auto.tuning_many([ROOM])
    assert isinstance(seen, Tuning)
    await world.update(state=RoomState.PAUSED)

    for seconds in (5, 120):
        await world.tick(seconds)
        (switched,) = await auto.switch_many([(world.room, rule)], leader=1)
        assert isinstance(switched, Switched)
        assert switched.outcome is Switch.NOTHING
    assert await auto.tune(ROOM, seen, 90, leader=1, hold_ms=0, figures={}) is False

    figures = await world.figures()
    assert (figures.state, figures.rate_per_minute) == (RoomState.PAUSED, 30)


@pytest.mark.req("ADM-179", "ADM-178")
async def test_after_a_reclaim_the_times_of_the_first_release_are_told(world: World) -> None:
    await world.create(rate_per_minute=60, **OPEN)
    (owner,) = await world.joined(1)
    await world.advance(200)
    await world.tick(3)
    await world.check(owner)
    first = await look(world, owner)
    await world.advance(50)
    owner.doors, owner.address, owner.network = [], "hotel", "hotel"

    reclaimed = await world.join(owner)
    passed = await look(world, owner)
    await world.advance(30)
    await world.check(owner)
    again = await look(world, owner)

    assert reclaimed.reason is Reason.RECLAIMED
    assert (first["state"], passed["state"], again["state"]) == ("active", "passed", "active")
    assert first["passedAt"] == passed["passedAt"] == again["passedAt"]
    assert first["waitedSec"] == passed["waitedSec"] == again["waitedSec"] >= 0
    assert "waitingSec" not in again


async def look(world: World, browser: Browser) -> dict[str, Any]:
    lookup = TicketLookup(rooms=_OneRoom(world), engine=EngineLookup(world.prefix, world.loader))  # type: ignore[arg-type]
    return await lookup.by_path(ROOM, str(browser.ticket))


class _OneRoom:
    """The directory of a process that knows this room."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def find(self, room_id: str) -> Any:
        assert room_id == ROOM
        return self._world.room
