"""Live figures of a room, and the release rate that estimates are made from."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.estimate import estimated_wait_sec
from app.domain.layout import pack_header
from app.domain.room import RoomState
from app.services.room_object import RoomView, line_wait, room_object
from tests.engine.test_prequeue import scheduled
from tests.engine.world import Browser, World

OPEN = {"queue_max_per_ip": None, "presence_sec": 3600}


async def crowd(world: World, count: int) -> None:
    await asyncio.gather(*(world.join(Browser()) for _ in range(count)))


@pytest.mark.req("ENG-227", "ENG-229")
async def test_it_reports_every_figure_of_one_moment(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=3, session_ttl_sec=3600, **OPEN)
    browsers = await world.joined(9)
    await world.advance(40)
    await world.tick(3)
    await world.check(browsers[0])
    for browser in browsers[:3]:
        await world.status(browser)
    await world.advance(121)
    await world.tick(3)
    await world.join(Browser())
    await world.joined(2)
    await world.leave(browsers[8])

    figures = await world.figures()
    shown = room_object(RoomView(world.room, figures))

    assert (figures.active, figures.pending_entry, figures.occupancy) == (1, 2, 3)
    assert (figures.passes_outstanding, figures.waiting, figures.last_ticket) == (2, 6, 12)
    assert figures.oldest_wait_sec is not None
    assert 160 < figures.oldest_wait_sec < 180
    assert (figures.joins_per_min, figures.passed_last_minute) == (3, 2)
    names = (
        "waiting", "preQueue", "active", "pendingEntry", "occupancy", "passesOutstanding", "maxConcurrent", "rate",
        "joinsPerMin", "passedLastMinute", "oldestWaitSec", "lastTicket", "checksWithoutUrl", "blockedReturnUrls",
    )  # fmt: skip
    assert [shown[name] for name in names] == [
        6, 0, 1, 2, 3, 2, 3, 60, 3, 2, figures.oldest_wait_sec, 12, 0, 0,
    ]  # fmt: skip
    assert (shown["estWaitSec"], shown["estWaitIsFloor"]) == (180, False), "six people, two passes in the last minute"
    await world.admin.purge(world.room.id, actor="op")
    assert (await world.figures()).oldest_wait_sec is None


@pytest.mark.req("ENG-227")
async def test_it_forgets_no_join_that_left_the_minute_when_a_call_changes_nothing(world: World) -> None:
    """A call that finds nothing to do saves no header, so the seconds that it saw end may not be gone after it."""
    await world.create(rate_per_minute=0, **OPEN)
    await crowd(world, 5)
    await world.tick(58)
    await world.advance(4)

    await world.admin.eject(world.room.id, 99, actor="op")
    await world.tick()

    assert (await world.figures()).joins_per_min == 0


@pytest.mark.req("ENG-229")
async def test_it_shows_a_pre_queue_instead_of_a_line_until_the_doors_open(world: World) -> None:
    await scheduled(world, sec=60, rate_per_minute=0)
    await world.joined(3)
    before = await world.figures()
    await world.advance(61)
    await world.tick()
    drawing = await world.figures()

    await world.open_doors()

    assert (before.waiting, before.pre_queue, before.effective_state) == (0, 3, RoomState.SCHEDULED)
    assert (drawing.waiting, drawing.pre_queue) == (0, 3)
    after = await world.figures()
    assert (after.waiting, after.pre_queue) == (3, 0)


@pytest.mark.req("ENG-234")
async def test_it_estimates_by_what_was_released_while_people_waited_for_a_minute(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1, passed_ttl_sec=6, **OPEN)
    await crowd(world, 60)
    last = Browser()
    await world.join(last)
    await world.tick(30)
    early = await world.status(last)
    await world.tick(90)

    late, figures = await world.status(last), await world.figures()

    assert (early.release_per_min, late.release_per_min) == (60, figures.passed_last_minute)
    assert 8 <= late.release_per_min <= 11, "a slot every six seconds"
    assert estimated_wait_sec(late.ahead, late.release_per_min) == -(-late.ahead * 60 // int(late.release_per_min))
    assert line_wait(figures) == -(-figures.waiting * 60 // figures.passed_last_minute)


@pytest.mark.req("ENG-234")
async def test_it_estimates_by_the_rate_where_the_line_was_empty_and_never_above_it(world: World) -> None:
    await world.create(rate_per_minute=600, **OPEN)
    await crowd(world, 400)
    await world.tick(20)
    await world.update(rate_per_minute=60)
    fast = await world.figures()
    await world.tick(61)
    slow = await world.figures()
    await world.admin.purge(world.room.id, actor="op")
    await world.tick(2)
    await world.joined(3)
    await world.tick(0.1)

    short = await world.figures()

    assert fast.passed_last_minute > 150
    assert (fast.release_per_min, fast.est_is_floor) == (60, False)
    assert 55 <= slow.release_per_min <= 60
    assert short.waiting > 0
    assert short.release_per_min == 60, "nobody waited for all of the last minute"


@pytest.mark.req("ENG-234")
async def test_it_counts_only_paid_passes_as_released(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=100, presence_sec=5, queue_max_per_ip=None)
    await crowd(world, 200)
    await world.advance(10)
    stays = [Browser() for _ in range(100)]
    for browser in stays:
        await world.join(browser)
    for _ in range(14):
        await world.tick(5)
        for browser in stays:
            await world.status(browser)

    figures = await world.figures()

    assert figures.waiting > 0
    assert 50 <= figures.release_per_min <= 60
    assert figures.passed_last_minute >= figures.release_per_min


@pytest.mark.req("ENG-236")
async def test_it_calls_the_estimate_a_floor_only_at_the_cap_with_no_slot_freed_for_a_minute(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=2, **OPEN)
    browsers = await world.joined(12)
    await world.tick(3)
    for browser in browsers[:2]:
        await world.status(browser)
        await world.check(browser)
    await world.advance(70)
    stuck = await world.figures()
    await world.leave(browsers[0])
    await world.tick(1)
    moved = await world.figures()
    await world.tick(61)
    again = await world.figures()
    await world.update(max_concurrent=500)
    free = await world.figures()

    assert (stuck.est_is_floor, stuck.release_per_min, line_wait(stuck)) == (True, 60, stuck.waiting)
    assert (moved.occupancy, moved.est_is_floor) == (2, False)
    assert (again.est_is_floor, again.release_per_min) == (True, 60)
    assert free.est_is_floor is False


@pytest.mark.req("ENG-235")
@pytest.mark.parametrize("how", ["paused", "no rate", "scheduled"])
async def test_it_has_no_estimate_for_a_room_that_lets_nobody_in(world: World, how: str) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1, **OPEN)
    first, second, third = await world.joined(3)
    change = {
        "paused": {"state": RoomState.PAUSED},
        "no rate": {"rate_per_minute": 0},
        "scheduled": {"opens_at": await world.now() + 3_600_000},
    }[how]

    await world.update(**change)

    view, figures = await world.status(third), await world.figures()
    assert (first.ticket, second.ticket, view.ahead) == (1, 2, 1)
    assert estimated_wait_sec(view.ahead, view.release_per_min) is None
    shown = room_object(RoomView(world.room, figures))
    assert (shown["estWaitSec"], shown["estWaitInfinite"], shown["estWaitIsFloor"]) == (None, True, False)


async def test_it_lets_the_last_minute_pass_while_nobody_ticks(world: World) -> None:
    await world.create(rate_per_minute=60_000, queue_max_per_ip=None)
    await world.joined(2)
    await world.tick(1)
    await world.tick(30)
    await world.joined(3)
    await world.tick(1)
    assert (await last_minute(world)) == (5, 5)

    await world.advance(29)
    assert (await last_minute(world)) == (3, 3), "the first two are a minute ago"
    await world.advance(31)
    assert (await last_minute(world)) == (0, 0)


async def test_it_lets_the_last_minute_pass_while_nothing_at_all_reaches_the_room(world: World) -> None:
    await world.create(rate_per_minute=60_000, queue_max_per_ip=None)
    await world.joined(2)
    await world.tick(1)
    header = await world.header()

    for idle, passes in ((30, 2), (70, 0)):
        # The room's own clock moves by 5 s at most in such a call, however long it was.
        later = {**header, "offset": header["offset"] + idle * 1000}
        await world.valkey.execute("SET", world.keys.header, pack_header(later))
        assert await last_minute(world) == (passes, passes)


async def last_minute(world: World) -> tuple[int, int]:
    figures = await world.figures()
    return figures.joins_per_min, figures.passed_last_minute
