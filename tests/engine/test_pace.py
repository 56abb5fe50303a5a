"""Pace: what a tick earns, over many instances, through changes of rate, and through steps of a wall clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.domain.facts_of_passes import Promoted, PromotedBy
from app.domain.layout import pack_header, unpack_header
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_results import TicketState
from app.infrastructure.lua_loader import LuaLoader
from tests.engine.world import ROOM, Browser, World

MANY: dict[str, Any] = {"queue_max_per_ip": None, "presence_sec": 3600}
HOUR_MS = 3_600_000


async def crowd(world: World, count: int) -> list[Browser]:
    """``count`` browsers in line."""
    browsers = [Browser() for _ in range(count)]
    await asyncio.gather(*(world.join(browser) for browser in browsers))
    return browsers


async def set_header(world: World, **fields: float) -> None:
    header = unpack_header(await world.valkey.execute("GET", world.keys.header))
    await world.valkey.execute("SET", world.keys.header, pack_header(header | fields))


async def step_wall_clock(world: World, by_ms: int) -> None:
    """The wall clock of the live store's host jumps; ``World.advance`` tells the room of no step."""
    header = unpack_header(await world.valkey.execute("GET", world.keys.header))
    await set_header(world, offset=header["offset"] + by_ms)


def instances(world: World, count: int) -> list[EngineJobs]:
    """Background calls of ``count`` instances."""
    return [EngineJobs(world.prefix, LuaLoader(world.valkey)) for _ in range(count)]


async def seconds_pass(world: World, ticking: list[EngineJobs], seconds: int) -> None:
    """Each instance ticks once a second, each at a moment of its own."""
    for _ in range(seconds):
        for jobs in ticking:
            await world.advance(1 / len(ticking))
            await jobs.tick(ROOM)


@pytest.mark.req("ENG-282")
async def test_it_keeps_the_pace_over_three_instances_and_with_one_that_is_left(world: World) -> None:
    await world.create(rate_per_minute=120, **MANY)
    await crowd(world, 1000)
    start = (await world.figures()).waiting
    three = instances(world, 3)

    await seconds_pass(world, three, 60)
    one_minute = start - (await world.figures()).waiting
    await seconds_pass(world, three, 240)
    five_minutes = start - (await world.figures()).waiting
    await seconds_pass(world, three[:1], 60)
    alone = start - (await world.figures()).waiting - five_minutes

    assert 117 <= one_minute <= 123
    assert 597 <= five_minutes <= 603
    assert 117 <= alone <= 123


@pytest.mark.req("ENG-282", "ENG-115")
async def test_it_releases_one_or_two_after_ten_empty_minutes(world: World) -> None:
    await world.create(rate_per_minute=120, **MANY)
    three = instances(world, 3)
    for _ in range(120):
        await world.advance(5)
        for jobs in three:
            await jobs.tick(ROOM)

    await crowd(world, 50)
    await world.advance(0.5)
    for jobs in three:
        await jobs.tick(ROOM)

    assert 50 - (await world.figures()).waiting in (1, 2)


@pytest.mark.req("FLT-018", "ENG-114")
async def test_it_earns_by_the_time_since_the_last_tick_of_any_instance(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1, **MANY)
    await crowd(world, 5)
    first, second = instances(world, 2)
    await set_header(world, credit=0)

    earned = []
    for jobs, seconds in ((first, 0.25), (second, 0.25), (first, 0), (second, 0.25)):
        await world.advance(seconds)
        await jobs.tick(ROOM)
        earned.append((await world.header())["credit"])

    assert earned == pytest.approx([0.25, 0.5, 0.5, 0.75], abs=0.05)


@pytest.mark.req("ENG-119")
@pytest.mark.parametrize("change", [{"rate_per_minute": 0}, {"state": 1}, {"state": 2}, {"opens_at": HOUR_MS}])
async def test_it_earns_nothing_and_keeps_what_is_left_while_nobody_is_let_in(
    world: World, change: dict[str, int]
) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1, **MANY)
    await world.joined(2)
    if "opens_at" in change:
        change = {"opens_at": (await world.header())["wall"] + HOUR_MS}
    await world.update(**change)
    await set_header(world, credit=0.4)

    await world.tick(10)

    assert (await world.header())["credit"] == 0.4
    assert (await world.figures()).waiting == 1


@pytest.mark.req("ENG-120")
async def test_it_acts_by_a_new_rate_from_the_next_tick_on_and_keeps_the_fraction(world: World) -> None:
    await world.create(rate_per_minute=30, state=1, **MANY)
    await crowd(world, 50)
    await world.update(state=0)
    await set_header(world, credit=0, last_tick=world.mono)

    await world.advance(1)
    await world.update(rate_per_minute=600)
    at_change = await world.header()
    await world.advance(0.5)
    answer = await world.jobs.tick(ROOM)
    after = await world.header()
    await world.update(rate_per_minute=60)
    await world.advance(0.5)
    slow = await world.jobs.tick(ROOM)

    assert at_change["credit"] == pytest.approx(0.5, abs=0.1), "one second at the old rate"
    assert answer.promoted == 5
    assert after["credit"] == pytest.approx(0.5, abs=0.2)
    assert slow.promoted in (0, 1)


@pytest.mark.req("ENG-120")
async def test_it_gives_no_burst_when_a_rate_is_raised_after_a_long_time_at_zero(world: World) -> None:
    await world.create(rate_per_minute=0, **MANY)
    await crowd(world, 50)
    await world.tick(30)

    await world.update(rate_per_minute=600)
    at_once = await world.jobs.tick(ROOM)

    assert at_once.promoted <= 1


@pytest.mark.req("ENG-125")
async def test_it_records_each_promotion_with_slot_ends_and_cause(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=3, queue_max_per_ip=None)
    await world.join(Browser())
    await crowd(world, 2)
    await world.advance(40)
    (present,) = await world.joined()
    await world.jobs.tick(ROOM)

    by_join, by_tick = await world.facts(Promoted)

    assert [(run.first, run.count, run.flags) for run in by_join.runs] == [(1, 1, 3)]
    assert [(run.first, run.count, run.flags) for run in by_tick.runs] == [(2, 2, 0), (4, 1, 3)]
    assert [by_join.by, by_tick.by] == [PromotedBy.JOIN, PromotedBy.TICK]
    for n in (1, present.ticket):
        fact, door = (by_join if n == 1 else by_tick), await world.door(n)
        base = world.room.created_at
        assert door.pass_end * 100 == pytest.approx(fact.pass_end - base, abs=100)
        assert door.claim_end * 100 == pytest.approx(fact.claim_end - base, abs=100)
        assert (await world.ticket(n)).state == TicketState.PASSED


@pytest.mark.req("ENG-289")
async def test_it_keeps_pace_and_recorded_times_when_a_wall_clock_jumps_two_hours_and_back(world: World) -> None:
    await world.create(rate_per_minute=60, **MANY)
    await crowd(world, 250)
    promoted = []

    for step in (2 * HOUR_MS, -2 * HOUR_MS):
        await step_wall_clock(world, step)
        at_once = await world.jobs.tick(ROOM)
        promoted.append(at_once.promoted + (await world.tick(60)).promoted)
        await world.joined()

    times = [element.at for element in await world.elements()]
    assert all(59 <= count <= 66 for count in promoted), promoted
    assert times == sorted(times)


@pytest.mark.req("FLT-018", "FLT-019", "FLT-020")
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([1] * 20, marks=pytest.mark.slow, id="one"),
        pytest.param([2] * 20, marks=pytest.mark.slow, id="two"),
        pytest.param([5] * 20, marks=pytest.mark.slow, id="five"),
        pytest.param([1, 2, 3, 1, 5, 1, 2, 1, 1, 4] * 2, id="started and killed"),
    ],
)
async def test_it_lets_six_thousand_in_within_ten_minutes_whoever_ticks(world: World, counts: list[int]) -> None:
    """A rate of 600/min; every half minute another number of instances runs."""
    await world.create(rate_per_minute=600, **MANY)
    await crowd(world, 6500)
    await set_header(world, credit=0)
    start = (await world.figures()).waiting

    for count in counts:
        await seconds_pass(world, instances(world, count), 30)

    assert abs(start - (await world.figures()).waiting - 6000) <= 15


@pytest.mark.req("FLT-019")
async def test_it_lets_one_in_after_a_minute_without_tickers(world: World) -> None:
    await world.create(rate_per_minute=60, **MANY)
    await crowd(world, 100)
    await world.jobs.tick(ROOM)
    before = (await world.figures()).waiting

    await world.advance(60)
    await world.jobs.tick(ROOM)

    assert before - (await world.figures()).waiting == 1
