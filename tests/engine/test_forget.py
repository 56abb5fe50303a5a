"""How long what is known of tickets that are over is kept, and how much of it."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.layout import pack_header, unpack_header
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_results import Reason, TicketState, Verdict, ViewState
from tests.engine.world import ROOM, Browser, World

DAY = 86_400
FAST = {"rate_per_minute": 100_000, "queue_max_per_ip": None, "presence_sec": 3600, "passed_ttl_sec": 60}


async def crowd(world: World, count: int) -> list[Browser]:
    browsers = [Browser() for _ in range(count)]
    await asyncio.gather(*(world.join(b) for b in browsers))
    return browsers


async def kept_chunks(world: World, among: int) -> list[int]:
    """Chunks that still have ticket records."""
    found = [await world.valkey.execute("EXISTS", world.keys.tickets(1, k)) for k in range(among)]
    return [k for k, exists in enumerate(found) if exists]


async def set_header(world: World, **fields: float) -> None:
    header = unpack_header(await world.valkey.execute("GET", world.keys.header))
    await world.valkey.execute("SET", world.keys.header, pack_header(header | fields))


async def turns(world: World, times: int = 1) -> None:
    """Let the forgetting look ``times`` times."""
    for _ in range(times):
        await world.tick(10)


@pytest.mark.req("ENG-274")
async def test_it_remembers_a_ticket_a_day_from_its_end_however_old_it_is(world: World) -> None:
    """He who was ejected after two days in line is told so the day after; later only that it is over."""
    await world.create(rate_per_minute=0, queue_max_per_ip=None)
    browsers = await crowd(world, 1024)
    await world.advance(2 * DAY)
    for browser in browsers[:-1]:
        await world.leave(browser)
    await world.admin.eject(ROOM, browsers[-1].ticket, actor="op")
    await world.update(rate_per_minute=100_000)
    (behind,) = await world.joined()
    await world.tick(1)
    await world.advance(DAY - 60)
    await turns(world, 2)

    told = (await world.status(browsers[-1])).reason
    still_owned = (await world.status(Browser(ticket=browsers[-1].ticket))).reason
    await world.advance(100)
    await turns(world, 2)
    later = (await world.status(browsers[-1])).reason
    check = await world.check(browsers[-1])
    join = await world.join(browsers[-1])

    assert (told, still_owned) == (Reason.EJECTED, Reason.BAD_TOKEN)
    assert (later, check.verdict, check.reason) == (Reason.EXPIRED, Verdict.QUEUE, Reason.EXPIRED)
    assert (join.reason, browsers[-1].ticket) == (Reason.EXPIRED, behind.ticket + 1)
    assert await kept_chunks(world, 2) == [1]


@pytest.mark.req("ENG-274")
async def test_one_who_lives_on_keeps_his_own_chunk_and_no_other(world: World) -> None:
    await world.create(**FAST, session_ttl_sec=86_400, session_max_sec=604_800)
    browsers = await crowd(world, 3 * 1024 + 5)
    await world.tick(5)
    living = browsers[1500]
    await world.check(living)
    await turns(world, 8)
    for _ in range(2):
        await world.advance(DAY - 3600)
        await world.check(living)
        await turns(world, 3)
    between = await kept_chunks(world, 4)
    owner = (await world.check(living)).verdict

    await world.leave(living)
    await turns(world, 2)
    just_left = await kept_chunks(world, 4)
    await world.advance(DAY)
    await turns(world, 3)

    assert (between, owner) == ([1, 3], Verdict.SESSION)
    assert just_left == [1, 3]
    assert await kept_chunks(world, 4) == [3], "the last one is still being filled"
    assert await world.valkey.execute("EXISTS", world.keys.passed_over(1)) == 0


@pytest.mark.req("ENG-274")
async def test_it_remembers_at_most_the_latest_two_hundred_thousand(world: World) -> None:
    """The oldest chunk goes at once when as many behind it are over; told by the counts, since so many take long."""
    await world.create(**FAST)
    browsers = await crowd(world, 1030)
    await world.tick(62)
    await world.tick(5)
    header = await world.header()
    assert await kept_chunks(world, 1) == [0]

    for over, kept in ((199_999, [0]), (200_000, [])):
        await set_header(world, last_ticket=1024 + over, head=1024 + over, second=header["second"] - 7)
        await turns(world)
        assert await kept_chunks(world, 1) == kept
    assert (await world.status(browsers[0])).state is ViewState.GONE


@pytest.mark.req("CFG-044")
async def test_it_keeps_them_for_as_long_as_it_is_told(world: World) -> None:
    await world.create(**FAST)
    await crowd(world, 1025)
    await world.tick(62)
    await world.tick(5)
    assert (await world.ticket(1)).state == TicketState.EXPIRED
    world.jobs = EngineJobs(world.prefix, world.loader, lapsed_ttl_ms=60_000)

    await turns(world, 4)
    early = await kept_chunks(world, 1)
    await turns(world, 4)

    assert (early, await kept_chunks(world, 1)) == ([0], [])


@pytest.mark.req("ENG-190", "ENG-274")
async def test_it_remembers_a_place_of_a_pre_queue_that_was_purged(world: World) -> None:
    """Nobody was drawn, so no ticket tells how long the places have to be kept."""
    await world.create()
    await world.update(opens_at=await world.now() + 60_000)
    (browser,) = await world.joined()
    await world.admin.purge(ROOM, actor="op")
    await world.update(opens_at=None)
    await world.advance(DAY - 60)
    await turns(world, 2)

    view = await world.status(browser)
    await world.advance(100)
    await turns(world, 2)
    later = await world.status(browser)

    assert (view.reason, view.by_purge) == (Reason.EJECTED, True)
    assert later.reason is Reason.EXPIRED
    assert await world.valkey.execute("EXISTS", world.keys.handles(1), world.keys.places(1, 0)) == 0


@pytest.mark.req("ENG-274")
async def test_it_forgets_also_while_somebody_asks_all_the_time(world: World) -> None:
    """The first call in a new second is hardly ever a tick then."""
    await world.create(**FAST)
    browsers = await crowd(world, 1100)
    await world.tick(100)
    await world.advance(DAY + 60)
    for _ in range(12):
        await world.advance(1)
        await world.status(browsers[-1])
        await world.tick()

    assert await kept_chunks(world, 1) == []
