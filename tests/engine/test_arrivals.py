"""Arrivals per minute: who is counted at the door of a room whose queue is off, and how often."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.layout import pack_header
from app.domain.room import RoomState
from app.infrastructure.engine_results import Verdict, Via
from tests.engine.test_prequeue import scheduled
from tests.engine.world import ROOM, Browser, World

OFF = {"state": RoomState.BYPASS, "queue_max_per_ip": None, "presence_sec": 3600}


async def arrivals(world: World) -> int:
    return (await world.figures()).joins_per_min


@pytest.mark.req("ENG-217")
async def test_it_counts_tickets_while_the_queue_runs(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=None)
    browsers = await world.joined(3)
    await world.join(browsers[0])
    await world.check(Browser())

    assert await arrivals(world) == 3

    await world.tick(61)
    assert await arrivals(world) == 0


@pytest.mark.req("ENG-217")
async def test_it_counts_each_client_once_a_minute_by_join_or_check_while_the_queue_is_off(world: World) -> None:
    await world.create(**OFF)
    browser, other = Browser(), Browser()
    for via in (Via.DIRECT, Via.VOUCHED, Via.INLINE):
        assert (await world.check(browser, via=via)).verdict is Verdict.BYPASS
        await world.join(browser)
        await world.join(other)
        await world.tick(5)
    assert await arrivals(world) == 2

    for _ in range(8):
        await world.tick(5)
        await world.check(browser)
    assert await arrivals(world) == 2, "55 s after his first visit he is still the same one"

    await world.tick(6)
    await world.check(browser)
    assert await arrivals(world) == 1, "the other did not come again"


@pytest.mark.req("ENG-217")
async def test_it_knows_a_client_again_over_any_turn_of_the_minute(world: World) -> None:
    await world.create(**OFF)
    browser = Browser()
    for _ in range(40):
        await world.check(browser)
        await world.tick(7)
        assert await arrivals(world) <= 1

    await world.tick(70)
    assert await arrivals(world) == 0


@pytest.mark.req("ENG-217")
async def test_it_counts_no_more_clients_a_minute_than_the_highest_threshold(world: World) -> None:
    await world.create(**OFF)
    await world.check(Browser())
    header = await world.header()
    await world.valkey.execute("SET", world.keys.header, pack_header({**header, "min_joins": 999_998}))

    for _ in range(2):
        await asyncio.gather(*(world.check(Browser()) for _ in range(3)), *(world.join(Browser()) for _ in range(3)))

    assert await arrivals(world) == 1_000_000


@pytest.mark.req("ENG-217")
async def test_it_counts_at_most_sixteen_clients_of_one_address(world: World) -> None:
    await world.create(**OFF)
    crowd = [Browser(address="carrier") for _ in range(40)]
    await asyncio.gather(*(world.check(browser) for browser in crowd))
    await asyncio.gather(*(world.join(browser) for browser in crowd))
    assert await arrivals(world) == 16

    await world.tick(30)
    await asyncio.gather(*(world.check(Browser(address="carrier")) for _ in range(10)))
    assert await arrivals(world) == 16

    await world.tick(31)
    await asyncio.gather(*(world.check(Browser(address="carrier")) for _ in range(20)))
    assert await arrivals(world) == 16
    await world.check(Browser())
    assert await arrivals(world) == 17


@pytest.mark.req("ENG-217")
async def test_it_counts_clients_of_one_address_and_batch_apart(world: World) -> None:
    await world.create(**OFF)
    await asyncio.gather(*(world.check(Browser(address=f"a{n % 10}")) for n in range(50)))

    assert await arrivals(world) == 50


@pytest.mark.req("ENG-217")
async def test_it_does_not_count_who_is_inside_already(world: World) -> None:
    await world.create(rate_per_minute=6000, queue_max_per_ip=None)
    inside, passed = await world.joined(2)
    assert (await world.check(inside)).verdict is Verdict.ADMITTED
    await world.tick(61)
    await world.update(state=RoomState.BYPASS)

    await world.check(inside)
    await world.join(inside)
    assert await arrivals(world) == 0
    stranger = Browser(ticket=inside.ticket)
    await world.check(stranger)
    await world.check(passed)
    assert await arrivals(world) == 2

    await world.tick(1801)
    await world.check(inside)
    assert await arrivals(world) == 1, "his session is over"


@pytest.mark.req("ENG-217")
async def test_it_does_not_count_pages_that_the_room_does_not_cover_or_mere_questions(world: World) -> None:
    await world.create(**OFF)
    browser = Browser()
    assert (await world.check(browser, covered=False)).verdict is Verdict.NOT_TARGETED
    await world.status(browser)

    assert await arrivals(world) == 0


async def test_it_leaves_nothing_of_the_arrivals_behind(world: World) -> None:
    await world.create(**OFF)
    await world.check(Browser())
    await world.tick(60)
    await world.check(Browser())
    names = await world.valkey.execute("KEYS", f"{world.prefix}*:a[01]")
    assert len(names) == 2
    assert all([0 < await world.valkey.execute("TTL", name) <= 180 for name in names])

    await world.admin.delete(ROOM, actor="op")

    assert await world.valkey.execute("KEYS", f"{world.prefix}*:a[01]") == []


@pytest.mark.req("ENG-217")
async def test_it_counts_places_of_the_pre_queue(world: World) -> None:
    await scheduled(world, queue_max_per_ip=None)
    await world.joined(3)

    assert await arrivals(world) == 3
