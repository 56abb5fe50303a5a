"""Caps per address: places in line, networks of IPv6, what frees a place."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.facts_of_tickets import Left
from app.infrastructure.engine_results import JoinCode
from tests.engine.world import ROOM, Browser, World

CREATED, REFUSED = JoinCode.CREATED, JoinCode.IDENTITY_LIMIT


async def codes(world: World, *addresses: str) -> list[JoinCode]:
    """Outcomes of joins of newcomers, one after the other."""
    return [(await world.join(Browser(address=address))).code for address in addresses]


async def counts(world: World, key: str) -> dict[bytes, bytes]:
    found = await world.valkey.execute("HGETALL", key)
    return found if isinstance(found, dict) else dict(zip(found[::2], found[1::2], strict=True))


@pytest.mark.req("ENG-163")
async def test_it_frees_a_place_by_promotion_eject_withdrawal_leaving_and_purge(world: World) -> None:
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
    in_session = await codes(world, "office")
    await world.admin.purge(ROOM, actor="op")
    after_purge = await codes(world, *["office"] * 5)
    await world.admin.flush(ROOM, actor="op")
    after_flush = await codes(world, *["office"] * 5)

    assert promoted.doors
    assert in_session == [REFUSED], "a session frees nothing and takes nothing"
    assert after_purge == after_flush == [CREATED] * 4 + [REFUSED]
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


async def churn(world: World, times: int, address: str = "office") -> list[JoinCode]:
    """Join and leave again and again; outcomes of the joins."""
    found = []
    for _ in range(times):
        browser = Browser(address=address)
        found.append((await world.join(browser)).code)
        await world.leave(browser)
    return found


@pytest.mark.req("ENG-293")
async def test_it_counts_left_places_on_for_a_minute_from_the_third_cap_on(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=4)

    first = await churn(world, 11)
    free = await codes(world, "office", "office", "office")
    twelfth = Browser(address="office")
    await world.join(twelfth)
    await world.leave(twelfth)
    still = await codes(world, "office")
    other = await churn(world, 11, "home")
    await world.tick(58)
    within = await codes(world, "office")
    await world.tick(3)
    after = await codes(world, "office", "office")

    assert first == [CREATED] * 11
    assert (free, still, within) == ([CREATED] * 3, [REFUSED], [REFUSED])
    assert other == [CREATED] * 11
    assert after == [CREATED, REFUSED]
    assert (await world.figures()).waiting == 4


@pytest.mark.req("ENG-293")
async def test_it_bounds_a_loop_of_joining_and_leaving(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=4)

    outcomes = await churn(world, 100)

    assert outcomes.count(CREATED) == 11 + 4
    assert len(await world.facts(Left)) == 15


@pytest.mark.req("ENG-293")
async def test_it_forgets_what_an_address_left_ten_minutes_ago(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=2)

    await churn(world, 5)
    await world.advance(300)
    last = await churn(world, 1)
    held = await codes(world, "office", "office")
    await world.advance(612)
    await world.tick(1)
    late = await churn(world, 4)

    assert (last, held) == ([CREATED], [CREATED, REFUSED])
    assert late == [CREATED] * 4
    assert await codes(world, "office", "office") == [CREATED, REFUSED], "one holds a place, none counts on"


@pytest.mark.req("ENG-293")
async def test_it_counts_leaves_over_the_turn_of_the_hashes(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=2)
    await world.advance(590)
    await churn(world, 5)
    await world.advance(20)

    await churn(world, 1)

    assert await codes(world, "office", "office") == [CREATED, REFUSED]


@pytest.mark.req("ENG-293")
async def test_it_takes_a_thousand_leaves_for_churn_without_a_cap(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=None)
    for count in (500, 500, 500, 498):
        browsers = [Browser(address="office") for _ in range(count)]
        await asyncio.gather(*(world.join(b) for b in browsers))
        await asyncio.gather(*(world.leave(b) for b in browsers))

    last = Browser(address="office")
    before = await world.join(last)
    await world.leave(last)
    full = await codes(world, "office", "home")
    await world.tick(62)

    assert before.code is CREATED, "999 places go on counting"
    assert full == [REFUSED, CREATED]
    assert await codes(world, "office") == [CREATED]


@pytest.mark.req("ENG-293")
async def test_it_lets_sessions_and_passes_end_without_counting_on(world: World) -> None:
    await world.create(rate_per_minute=60_000, queue_max_per_ip=1, presence_sec=3600)
    for _ in range(6):
        (browser,) = await world.joined(address="office")
        await world.tick(1)
        await world.check(browser)
        await world.leave(browser)

    assert await codes(world, "office") == [CREATED]
    assert await world.valkey.execute("EXISTS", world.keys.leaves(1, 0), world.keys.counting_on(1)) == 0


@pytest.mark.req("ENG-293", "ENG-295")
async def test_it_counts_left_places_on_in_their_networks_too(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=1)
    for n in range(16):
        await churn(world, 3, f"2001:db8:0:{n:x}::1")

    full = await codes(world, "2001:db8:0:20::1")
    await world.tick(62)

    assert full == [REFUSED]
    assert await codes(world, "2001:db8:0:20::1") == [CREATED]
    assert await world.valkey.execute("LLEN", world.keys.counting_on(1)) == 0


@pytest.mark.req("ENG-293")
async def test_it_gives_places_back_that_counted_on_also_while_somebody_asks_all_the_time(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=1)
    (watcher,) = await world.joined(address="elsewhere")
    for _ in range(3):
        (browser,) = await world.joined(address="home")
        await world.leave(browser)
    assert (await world.join(Browser(address="home"))).code is JoinCode.IDENTITY_LIMIT

    for _ in range(61):
        await world.advance(1)
        await world.status(watcher)
        await world.tick()

    assert (await world.join(Browser(address="home"))).code is JoinCode.CREATED
