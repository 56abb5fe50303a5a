"""Function tickets: what an operator may learn of a ticket, and for how long its times are kept."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from app.domain.layout import CHUNK, RING_PLACES, pack_header, unpack_header
from app.domain.ticket_state import Why
from app.infrastructure.engine_lookup import EngineLookup, TicketFacts
from app.infrastructure.engine_results import TicketState
from tests.engine.world import ROOM, Browser, World

OPEN: dict[str, Any] = {"queue_max_per_ip": None, "presence_sec": 3600}


async def look(world: World, *numbers: int) -> list[TicketFacts]:
    return (await EngineLookup(world.prefix, world.loader).tickets(ROOM, numbers)).tickets


async def at(world: World) -> int:
    return (await world.figures()).now


@pytest.mark.req("ENG-238", "ENG-240")
async def test_it_tells_each_state_with_its_times(world: World) -> None:
    await world.create(rate_per_minute=0, passed_ttl_sec=600, session_ttl_sec=300, session_max_sec=900, **OPEN)
    inside, _, gone, thrown, *_ = await world.joined(7)
    began = await at(world)
    await world.advance(50)
    await world.leave(gone)
    await world.admin.eject(ROOM, thrown.ticket, actor="op")
    await world.update(rate_per_minute=60)
    await world.tick(1.5)
    await world.update(rate_per_minute=0)
    await world.check(inside)
    await world.advance(100)
    now = await at(world)
    one, two, three, four, five, six, seven, eight = await look(world, 1, 2, 3, 4, 5, 6, 7, 8)

    assert [t.state.name for t in (one, two, three, four, five)] == [
        "ACTIVE",
        "PASSED",
        "EXPIRED",
        "EJECTED",
        "WAITING",
    ]
    assert (five.ahead, six.ahead, seven.ahead) == (0, 1, 2)
    for ticket in (one, two, three, five):
        assert began - 2000 < ticket.joined_at <= began
    assert (three.passed_at, four.joined_at, four.passed_at, five.passed_at) == (0, 0, 0, 0)
    for ticket in (one, two):
        assert 49_000 < ticket.passed_at - ticket.joined_at < 56_000
    assert two.pass_end - two.passed_at == pytest.approx(600_000, abs=200)
    assert one.session_end - now == pytest.approx(200_000, abs=3000)
    assert [t.holds_slot for t in (one, two, three, five)] == [True, True, False, False]
    assert all((t.by_cookie, t.by_fingerprint) == (True, True) for t in (one, two, three, four, five))
    assert eight.state is TicketState.NONE


@pytest.mark.req("ENG-240")
async def test_it_tells_who_is_present_and_when_he_was_last_seen(world: World) -> None:
    await world.create(rate_per_minute=0, presence_sec=30, queue_max_per_ip=None)
    began = await at(world)
    here, _away = await world.joined(2)
    joined = await at(world)
    await world.advance(40)
    later = await at(world)
    await world.status(here)
    ended = await at(world)

    first, second = await look(world, 1, 2)

    assert (first.present, second.present) == (True, False)
    assert began - 200 <= second.seen_at <= joined + 200, "it is kept in tenths of a second"
    assert later - 200 <= first.seen_at <= ended + 200


@pytest.mark.req("ENG-240")
async def test_it_tells_who_stands_at_the_door_without_a_slot(world: World) -> None:
    await world.create(rate_per_minute=0, max_concurrent=1, **OPEN)
    first, second, _third = await world.joined(3)
    await world.admin.flush(ROOM, actor="op")
    await world.status(first)
    await world.status(second)

    one, two, three = await look(world, 1, 2, 3)

    assert [(t.state.name, t.holds_slot, t.at_door) for t in (one, two, three)] == [
        ("PASSED", True, False),
        ("PASSED", False, True),
        ("PASSED", False, False),
    ]


@pytest.mark.req("ENG-239")
async def test_it_calls_everything_over_expired_whatever_ended_it(world: World) -> None:
    await world.create(rate_per_minute=6000, passed_ttl_sec=60, session_ttl_sec=60, **OPEN)
    never_came, was_in, _ = await world.joined(3)
    await world.tick(1)
    await world.check(was_in)
    await world.advance(130)
    unseen_by_a_tick = await look(world, never_came.ticket, was_in.ticket)
    await world.tick(1)
    seen = await look(world, never_came.ticket, was_in.ticket)
    await world.update(rate_per_minute=0)
    left, purged = await world.joined(2)
    await world.leave(left)
    await world.admin.purge(ROOM, actor="op")
    last = await look(world, left.ticket, purged.ticket)

    for tickets in (unseen_by_a_tick, seen):
        assert [(t.state, t.holds_slot, t.at_door) for t in tickets] == [(TicketState.EXPIRED, False, False)] * 2
        assert all(t.joined_at and t.passed_at for t in tickets)
    assert [t.state for t in last] == [TicketState.EXPIRED, TicketState.EJECTED]
    assert (last[1].joined_at, last[1].passed_at) == (0, 0)


@pytest.mark.req("ENG-241")
async def test_it_still_knows_an_hour_later_how_long_somebody_waited(world: World) -> None:
    await world.create(rate_per_minute=0, passed_ttl_sec=60, **OPEN)
    await world.joined(1)
    await world.advance(77)
    await world.admin.flush(ROOM, actor="op")
    await world.tick(1)
    (then,) = await look(world, 1)
    await world.tick(70)
    await world.advance(3600)
    await world.tick(1)

    (now,) = await look(world, 1)

    assert now.state is TicketState.EXPIRED
    assert (now.joined_at, now.passed_at) == (then.joined_at, then.passed_at)
    assert 76_000 < now.passed_at - now.joined_at < 79_000


@pytest.mark.req("ENG-249")
async def test_it_changes_nothing_by_looking(world: World) -> None:
    await world.create(rate_per_minute=0, max_concurrent=1, presence_sec=30, queue_max_per_ip=None)
    await world.joined(3)
    await world.admin.flush(ROOM, actor="op")
    names = sorted(await world.valkey.execute("KEYS", world.keys.base.replace("{", "\\{") + "*"))
    before = [await world.valkey.execute("DUMP", name) for name in names]

    tickets = await look(world, 1, 2, 3, 4)

    assert [t.state.name for t in tickets] == ["PASSED", "PASSED", "PASSED", "NONE"], "before the flush is written"
    assert sorted(await world.valkey.execute("KEYS", world.keys.base.replace("{", "\\{") + "*")) == names
    assert [await world.valkey.execute("DUMP", name) for name in names] == before
    await world.advance(31)
    answer = await world.tick(1)
    assert answer.promoted == 0
    assert (await world.figures()).pending_entry == 0, "an untold absent holder gave up his slot all the same"


async def skip_ring_to(world: World, ended: int) -> None:
    """As if so many tickets had ended before, each of them number 1."""
    header = unpack_header(await world.valkey.execute("GET", world.keys.header))
    header["ended"] = ended
    await world.valkey.execute("SET", world.keys.header, pack_header(header))
    ring = struct.pack("<I", 1) * min(ended, RING_PLACES)
    await world.valkey.execute("SET", world.keys.ring_of_ended(1), ring)


@pytest.mark.req("ENG-243", "FLT-125")
async def test_it_keeps_the_times_of_the_last_50000_that_are_over(world: World) -> None:
    assert RING_PLACES == 50_000
    await world.create(rate_per_minute=0, **OPEN)
    browsers = await world.joined(6)
    for browser in browsers[:2]:
        await world.leave(browser)
    assert [t.joined_at > 0 for t in await look(world, 1, 2)] == [True, True]
    ring = struct.pack("<II", 1, 2) + struct.pack("<I", 3) * (RING_PLACES - 2)
    await world.valkey.execute("SET", world.keys.ring_of_ended(1), ring)
    header = unpack_header(await world.valkey.execute("GET", world.keys.header)) | {"ended": 2 * RING_PLACES}
    await world.valkey.execute("SET", world.keys.header, pack_header(header))

    await world.leave(browsers[4])
    first = await look(world, 1, 2, 5)
    await world.leave(browsers[5])
    second = await look(world, 1, 2, 3, 5, 6)

    assert [(t.joined_at > 0, t.is_dropped) for t in first] == [(False, True), (True, False), (True, False)]
    assert [t.joined_at > 0 for t in second] == [False, False, True, True, True]
    assert second[2].state is TicketState.WAITING, "a number in the ring that lives keeps its times"
    assert {t.state for t in (*first, second[1])} == {TicketState.EXPIRED}


@pytest.mark.req("ENG-243")
async def test_it_goes_round_the_ring_in_one_call(world: World) -> None:
    await world.create(rate_per_minute=100_000, passed_ttl_sec=10, **OPEN)
    await asyncio.gather(*(world.join(Browser()) for _ in range(30)))
    await world.tick(2)
    await skip_ring_to(world, RING_PLACES - 10)
    await world.advance(30)
    await world.tick(1)

    header = await world.header()
    ring = await world.valkey.execute("GET", world.keys.ring_of_ended(1))
    numbers = struct.unpack(f"<{len(ring) // 4}I", ring)
    assert (header["ended"], len(numbers)) == (RING_PLACES + 20, RING_PLACES)
    assert sorted((*numbers[-10:], *numbers[:20])) == list(range(1, 31))
    tickets = await look(world, *range(2, 31))
    assert all(t.joined_at and t.passed_at for t in tickets)


@pytest.mark.req("ENG-243", "ENG-241")
async def test_it_keeps_the_times_when_the_records_are_dropped(world: World) -> None:
    await world.create(rate_per_minute=100_000, passed_ttl_sec=10, **OPEN)
    browsers = [Browser() for _ in range(CHUNK + 5)]
    await asyncio.gather(*(world.join(browser) for browser in browsers))
    await world.tick(3)
    before = await look(world, 1, CHUNK)
    await world.admin.eject(ROOM, 7, actor="op")
    await world.tick(20)
    await world.advance(86_400 + 60)
    for _ in range(30):
        await world.tick(1)
    assert (await world.header())["forgotten"] == 1

    first, ejected, last, missing = await look(world, 1, 7, CHUNK, CHUNK + 6)
    assert [(t.joined_at, t.passed_at) for t in (first, last)] == [(t.joined_at, t.passed_at) for t in before]
    assert (first.state, first.is_dropped) == (TicketState.EXPIRED, False)
    assert (ejected.joined_at, missing.state) == (0, TicketState.NONE)

    await skip_ring_to(world, RING_PLACES)
    await world.joined(1)
    await world.tick(40)
    (dropped,) = await look(world, 1)
    assert (dropped.state, dropped.is_dropped, dropped.passed_at) == (TicketState.EXPIRED, True, 0)


@pytest.mark.req("ENG-243")
async def test_it_says_of_a_withdrawn_or_forgotten_number_that_there_is_no_record(world: World) -> None:
    await world.create(rate_per_minute=0, **OPEN)
    answer = await world.join(Browser())
    await world.admin.undo_join(ROOM, 1, answer.seq, 1)
    await world.joined(1)

    withdrawn, waiting = await look(world, 1, 2)

    assert (withdrawn.is_dropped, waiting.is_dropped) == (True, False)
    assert withdrawn.why == Why.NONE
    assert (await world.header())["ended"] == 0
