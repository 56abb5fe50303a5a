"""Caps per address: places in line, networks of IPv6, what frees a place."""

from __future__ import annotations

import asyncio

import pytest

from app.infrastructure.engine_results import JoinCode
from tests.engine.world import ROOM, Browser, World

CREATED, REFUSED = JoinCode.CREATED, JoinCode.IDENTITY_LIMIT


async def codes(world: World, *addresses: str) -> list[JoinCode]:
    """Outcomes of joins of newcomers, one after the other."""
    return [(await world.join(Browser(address=address))).code for address in addresses]


async def counts(world: World, key: str) -> dict[bytes, bytes]:
    found = await world.valkey.execute("HGETALL", key)
    return found if isinstance(found, dict) else dict(zip(found[::2], found[1::2], strict=True))


async def test_it_frees_a_place_by_promotion_eject_withdrawal_and_leaving(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=4)
    promoted, ejected, withdrawn, left = (Browser(address="office") for _ in range(4))
    await world.join(promoted)
    await world.join(ejected)
    undone = await world.join(withdrawn)
    await world.join(left)
    full = await codes(world, "office")

    await world.leave(left)
    after_leaving = await codes(world, "office", "office")
    await world.admin.eject(ROOM, ejected.ticket, actor="op")
    after_eject = await codes(world, "office", "office")
    await world.admin.undo_join(ROOM, 1, undone.seq, withdrawn.ticket)
    after_withdrawal = await codes(world, "office", "office")
    await world.update(rate_per_minute=60)
    await world.tick(1)
    await world.update(rate_per_minute=0)
    after_promotion = await codes(world, "office", "office")
    await world.check(promoted)

    assert promoted.doors, "a session does not count"
    assert full == [REFUSED]
    assert [after_leaving, after_eject, after_withdrawal, after_promotion] == [[CREATED, REFUSED]] * 4


@pytest.mark.req("ENG-165")
async def test_it_obeys_a_new_cap_at_the_next_join_and_drops_nobody(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=2)
    await world.joined(2, address="office")

    before = await codes(world, "office")
    await world.update(queue_max_per_ip=3)
    raised = await codes(world, "office", "office")
    await world.update(queue_max_per_ip=None)
    none = await codes(world, *["office"] * 20)
    await world.update(queue_max_per_ip=1)
    lowered = await codes(world, "office", "home", "home")

    assert (before, raised, none) == ([REFUSED], [CREATED, REFUSED], [CREATED] * 20)
    assert lowered == [REFUSED, CREATED, REFUSED]
    assert (await world.figures()).waiting == 2 + 1 + 20 + 1


@pytest.mark.req("ENG-295")
async def test_it_bounds_the_64s_of_one_56_together(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=1)

    inside = await codes(world, *(f"2001:db8:0:{n:x}::1" for n in range(17)))
    neighbour = await codes(world, "2001:db8:0:100::1")
    await world.update(queue_max_per_ip=2)
    raised = await codes(world, *(f"2001:db8:0:{n:x}::1" for n in range(32, 49)))

    assert inside == [CREATED] * 16 + [REFUSED]
    assert neighbour == [CREATED]
    assert raised == [CREATED] * 16 + [REFUSED]


@pytest.mark.req("ENG-295")
async def test_it_bounds_the_64s_of_one_48_together(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=1)
    addresses = [f"2001:db8:0:{n * 256 + m:x}::1" for n in range(26) for m in range(10)]

    inside = await asyncio.gather(*(world.join(Browser(address=address)) for address in addresses))
    after = await codes(world, "2001:db8:0:ffff::1", "2001:db8:1:ffff::1", "home")
    await world.update(queue_max_per_ip=None)
    without_cap = await codes(world, "2001:db8:0:ffff::1", "2001:db8:0:ffff::1")

    assert [answer.code for answer in inside] == [CREATED] * 256 + [REFUSED] * 4
    assert after == [REFUSED, CREATED, CREATED]
    assert without_cap == [CREATED, CREATED]


@pytest.mark.req("ENG-295")
async def test_it_gives_a_network_its_places_back(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=1, presence_sec=3600)
    browsers = [Browser(address=f"2001:db8:0:{n:x}::1") for n in range(16)]
    for browser in browsers:
        await world.join(browser)

    await world.leave(browsers[15])
    left = await codes(world, "2001:db8:0:20::1", "2001:db8:0:21::1")
    await world.update(rate_per_minute=60_000)
    await world.tick(1)

    assert left == [CREATED, REFUSED]
    assert await counts(world, world.keys.networks(1)) == {}
    assert await counts(world, world.keys.addresses(1)) == {}


@pytest.mark.req("ENG-295")
async def test_it_keeps_no_networks_of_ipv4(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=1)

    await world.joined(40)

    assert await world.valkey.execute("EXISTS", world.keys.networks(1)) == 0
    assert (await world.ticket(1)).net == 0
