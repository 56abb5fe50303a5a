"""What a room did in each hour: exact counts, and waits as they were measured."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.hour_record import (
    HOUR_MS,
    SAMPLES_MAX,
    HourRecord,
    hour_percentile_sec,
    live_percentiles_sec,
    percentile,
    read_hour,
)
from app.domain.layout import pack_header, unpack_header
from app.infrastructure.engine_counts import EngineCounts, RoomTally
from app.infrastructure.keys import chunk_of
from app.services.visitor_counts import Counted
from tests.engine.world import ROOM, Browser, World

MANY = {"queue_max_per_ip": None, "presence_sec": 3600}


async def hours(world: World) -> list[HourRecord]:
    """The running hour, and the one before it if there is one."""
    detail = (await world.admin.figures([ROOM], detailed=[ROOM]))[ROOM].detail
    assert detail is not None
    return list(detail.hours)


async def create(world: World, **fields: Any) -> None:
    """A room at the beginning of an hour."""
    await world.create(**fields)
    await to_next_hour(world)
    await world.tick()


async def to_next_hour(world: World, *, less_ms: int = 0) -> None:
    """Let the time come at which an hour begins, or that much before the one after it."""
    now = (await world.figures()).now
    await world.advance((HOUR_MS - now % HOUR_MS) / 1000)
    if less_ms:
        await world.advance((HOUR_MS - less_ms) / 1000)


async def joined_before(world: World, ages_ms: list[int]) -> None:
    """Ticket n has joined ages_ms[n - 1] ago."""
    now = (await world.figures()).now
    writes = []
    for n, age in enumerate(ages_ms, 1):
        at = (n - 1) % 1024 * 72 + 8
        stamp = struct.pack("<Q", now - age)[:6]
        writes.append(("SETRANGE", world.keys.tickets(1, chunk_of(n)), at, stamp))
    await world.valkey.pipeline(writes)


@pytest.mark.req("ENG-237")
async def test_it_counts_joins_and_passes_to_the_hour_they_were_in(world: World) -> None:
    await create(world, rate_per_minute=0, **MANY)
    await to_next_hour(world, less_ms=400)
    await asyncio.gather(*(world.join(Browser()) for _ in range(3)))
    await world.advance(0.5)
    running, before = (await hours(world))[0], None
    await asyncio.gather(*(world.join(Browser()) for _ in range(2)))
    await world.admin.flush(ROOM, actor="op")
    after, before = await hours(world)

    assert (running.joins, before.joins, before.passes) == (3, 3, 0)
    assert (after.hour, after.joins, after.passes) == (before.hour + 1, 2, 5)
    await world.tick(10)
    await world.join(Browser())
    await to_next_hour(world)
    await world.tick(1)
    _, whole = await hours(world)
    assert (whole.hour, whole.joins, whole.passes, whole.waits) == (after.hour, 3, 5, 5)


@pytest.mark.req("ENG-237")
async def test_it_counts_no_arrival_while_the_queue_is_off_as_a_join(world: World) -> None:
    await create(world, rate_per_minute=0, **MANY)
    await world.joined(3)
    await world.update(state=2)
    for browser in [Browser() for _ in range(5)]:
        await world.join(browser)
    off = ((await hours(world))[0].joins, (await world.figures()).joins_per_min)
    await world.update(state=0)
    await world.joined(2)
    await world.tick(2)

    assert off == (3, 8)
    assert (await hours(world))[0].joins == 5


@pytest.mark.req("ENG-237")
async def test_it_knows_the_longest_line_and_the_most_sessions_of_every_moment(world: World) -> None:
    await create(world, rate_per_minute=0, **MANY)
    browsers = await world.joined(9)
    for browser in browsers[:4]:
        await world.leave(browser)
    await world.joined(1)
    short = (await hours(world))[0]
    await world.admin.flush(ROOM, actor="op")
    await world.tick()
    for browser in browsers[4:]:
        await world.check(browser)
    for browser in browsers[4:8]:
        await world.leave(browser)

    record = (await hours(world))[0]
    assert (short.peak_depth, record.peak_depth, record.peak_active) == (9, 9, 5)
    await to_next_hour(world)
    await world.tick(1)
    now, before = await hours(world)
    assert (before.peak_depth, before.peak_active) == (9, 5)
    assert (now.peak_depth, now.peak_active, now.joins) == (0, 1, 0), "an hour begins with what is there"


@pytest.mark.req("ENG-237")
async def test_it_measures_the_line_every_five_seconds_and_says_how_much_it_covered(world: World) -> None:
    await create(world, rate_per_minute=0, **MANY)
    before = (await hours(world))[0]
    await world.joined(10)
    await world.tick(60)
    record = (await hours(world))[0]
    await to_next_hour(world)
    await world.tick()
    await world.advance(3600)
    await world.tick()
    _, whole = await hours(world)

    samples = record.samples - before.samples
    assert samples in {12, 13}
    assert record.depth_sum - before.depth_sum == 10 * samples
    assert record.avg_depth == record.depth_sum / record.samples
    assert abs(record.covered_ms - 60_000) < 5000
    assert abs(whole.covered_ms - HOUR_MS) < 5000


@pytest.mark.req("ENG-237")
async def test_it_does_not_cover_an_outage(world: World) -> None:
    await create(world, rate_per_minute=0, **MANY)
    await to_next_hour(world)
    await world.tick()
    header = unpack_header(await world.valkey.execute("GET", world.keys.header))
    header["offset"] += 1_800_000
    await world.valkey.execute("SET", world.keys.header, pack_header(header))
    await world.jobs.tick(ROOM)

    record = (await hours(world))[0]

    assert (await world.figures()).now % HOUR_MS > 1_700_000
    assert record.covered_ms < 60_000


@pytest.mark.req("ENG-237")
async def test_it_counts_what_bot_protection_refused_and_let_by_with_a_warning(world: World) -> None:
    await create(world)
    counts = EngineCounts(world.prefix, world.loader)

    for _ in range(2):
        await counts.add([RoomTally(RoomId(ROOM), plain={Counted.BLOCKED: 3, Counted.WARNED: 1})])

    record = (await hours(world))[0]
    assert (record.blocked, record.warned) == (6, 2)


async def test_it_keeps_two_days_of_hours(world: World) -> None:
    await create(world)
    for _ in range(52):
        await world.advance(3600)
        await world.jobs.tick(ROOM)

    kept = sorted(int(hour) for hour in await world.valkey.execute("HKEYS", world.keys.past_hours(1)))

    running = (await hours(world))[0].hour
    assert kept == list(range(running - 49, running))


async def test_it_goes_on_with_the_hour_after_a_rebuild_on_a_live_store(world: World) -> None:
    await create(world, rate_per_minute=0, **MANY)
    await world.joined(2)
    await world.tick(10)
    before = (await hours(world))[0]
    header = unpack_header(await world.valkey.execute("GET", world.keys.header))
    header |= {"hour_end": 0, "mono": header["mono"] + 500_000, "second": header["second"] + 500}
    await world.valkey.execute("SET", world.keys.header, pack_header(header))
    world.mono += 500_000
    await world.tick(5)
    await world.joined(1)

    after = (await hours(world))[0]

    assert (after.since, after.joins) == (before.since, 3)
    assert -1000 < after.covered_ms - before.covered_ms < 8000, "the time between is not covered"


@pytest.mark.req("ENG-230", "ENG-231")
async def test_it_measures_one_wait_a_pass_from_the_join_on(world: World) -> None:
    await create(world, rate_per_minute=60, max_concurrent=5, **MANY)
    browsers = await world.joined(10)
    await joined_before(world, [1000 * n for n in range(1, 11)])
    at_once = (await hours(world))[0]
    for browser in browsers[:5]:
        await world.status(browser)
    await world.tick(4.5)
    for browser in browsers[:5]:
        assert (await world.check(browser)).verdict.word == "admitted"
    await world.tick(10)
    five = (await hours(world))[0]
    for browser in browsers[:5]:
        await world.leave(browser)
    await world.tick(10)
    for browser in browsers[5:]:
        await world.status(browser)
        await world.check(browser)
    ten = (await hours(world))[0]
    await world.tick(200)

    assert (at_once.waits, at_once.wait_max_ms) == (1, 0), "a pass in the step of a join is a wait of nothing"
    assert (five.waits, ten.waits, ten.passes) == (5, 10, 10), "waits, not people on the site"
    assert (await hours(world))[0].waits == 10
    for (wait, _), near in zip(five.kept, (0, 3000, 5000, 7000, 9000), strict=True):
        assert near <= wait < near + 2500, five.kept


@pytest.mark.req("ENG-230")
async def test_it_measures_a_wait_with_or_without_slot_and_by_a_flush_but_none_at_the_door(world: World) -> None:
    await create(world, rate_per_minute=0, max_concurrent=1, passed_ttl_sec=600, presence_sec=30, queue_max_per_ip=None)
    first, second, third = await world.joined(3)
    await joined_before(world, [9000, 8000, 7000])
    await world.admin.flush(ROOM, actor="op")
    await world.status(first)
    await world.tick()
    flushed = (await hours(world))[0]
    await world.status(second)
    await world.leave(first)
    await world.tick(2)
    assert (await world.status(second)).claim_until > 0, "he was given the slot at the door"
    await world.update(rate_per_minute=600)
    await world.joined(1)
    await joined_before(world, [0, 0, 0, 50_000])
    await world.leave(second)
    await world.advance(40)
    await world.tick(1)

    record = (await hours(world))[0]

    assert (flushed.waits, [wait // 1000 for wait, _ in flushed.kept]) == (3, [9, 8, 7])
    assert (record.waits, third.ticket) == (4, 3), "the absent head was passed over, which is a wait as well"
    assert record.wait_max_ms >= 50_000


@pytest.mark.req("ENG-232")
async def test_it_keeps_exact_sums_and_256_waits_chosen_evenly(world: World) -> None:
    count = 4000
    await create(world, rate_per_minute=0, **MANY)
    await asyncio.gather(*(world.join(Browser()) for _ in range(count)))
    await joined_before(world, [1000 * n for n in range(1, count + 1)])
    await world.admin.flush(ROOM, actor="op")
    await world.tick()

    record = (await hours(world))[0]

    lateness = record.wait_max_ms - 1000 * count
    assert record.waits == count
    assert 0 <= lateness < 5000
    assert record.wait_sum_ms == sum(1000 * n + lateness for n in range(1, count + 1))
    assert record.wait_avg_sec == pytest.approx((count + 1) / 2, abs=5)
    who = [(wait - lateness) // 1000 for wait, _ in record.kept]
    assert len(set(who)) == len(who) == SAMPLES_MAX
    parts = Counter((n - 1) * 10 // count for n in who)
    expected = SAMPLES_MAX / 10
    assert sum((parts[part] - expected) ** 2 / expected for part in range(10)) < 45, parts
    for share, shown in ((0.5, hour_percentile_sec(record, 0.5)), (0.9, hour_percentile_sec(record, 0.9))):
        assert shown is not None
        assert abs(shown - share * count) < 0.2 * count


@pytest.mark.req("ENG-233")
async def test_it_tells_percentiles_of_the_waits_that_ended_within_the_last_hour(world: World) -> None:
    await create(world, rate_per_minute=0, **MANY)
    await to_next_hour(world, less_ms=1_800_000)

    async def pass_all(*ages_sec: int) -> None:
        first = (await world.header())["last_ticket"]
        await world.joined(len(ages_sec))
        await joined_before(world, [0] * first + [1000 * age for age in ages_sec])
        await world.admin.flush(ROOM, actor="op")
        await world.tick()

    async def live() -> tuple[int | None, int | None]:
        return live_percentiles_sec(await hours(world), (await world.figures()).now)

    assert await live() == (None, None)
    await pass_all(10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    assert await live() == (50, 90)
    await to_next_hour(world)
    await world.advance(60)
    await pass_all(200)
    assert await live() == (60, 100)
    await world.advance(1_700_000 / 1000)
    await world.tick()
    assert await live() == (60, 100)
    await world.advance(200)
    await world.tick()
    assert await live() == (200, 200), "the first ten ended more than an hour ago"


def test_it_weighs_the_kept_waits_of_an_hour_by_how_many_they_stand_for() -> None:
    assert percentile([], 0.5) is None
    assert percentile([(7, 1)], 0.9) == 7
    assert percentile([(1, 1), (2, 1), (3, 1), (4, 1)], 0.5) == 2
    assert percentile([(10, 9), (1, 1)], 0.5) == 10
    assert percentile([(10, 1), (1, 9)], 0.9) == 1
    assert read_hour(b"") is None
