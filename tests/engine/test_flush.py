"""Function flush: everybody who waits gets a pass in one step, whose records follow in slices."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.facts_of_passes import Promoted, PromotedBy, Run, SlotGiven
from app.domain.layout import Flag
from app.infrastructure.engine_admin import LineCode
from app.infrastructure.engine_results import Reason, TicketState, Verdict, ViewState
from tests.engine.world import ROOM, Browser, World

SLOW = {"rate_per_minute": 0, "queue_max_per_ip": None, "presence_sec": 3600}
BOTH = Flag.SLOT | Flag.PAID


async def crowd(world: World, count: int) -> list[Browser]:
    browsers = [Browser() for _ in range(count)]
    await asyncio.gather(*(world.join(browser) for browser in browsers))
    return sorted(browsers, key=lambda browser: browser.ticket)


@pytest.mark.req("ENG-187")
async def test_it_gives_everybody_who_waits_a_pass_whatever_the_rate(world: World) -> None:
    await world.create(**SLOW)
    browsers = await crowd(world, 6)

    answer = await world.admin.flush(ROOM, actor="ann")
    late = Browser()
    await world.join(late)

    views = [await world.status(browser) for browser in browsers]
    figures = await world.figures()
    assert (answer.code, answer.waiting, answer.seq) == (LineCode.OK, 6, (1 << 32) + figures.seq - 1)
    assert {view.state for view in views} == {ViewState.PASSED}
    assert all(view.claim_until > view.now for view in views), "without a cap every pass holds a slot"
    assert (figures.waiting, figures.pending_entry, figures.passed_last_minute) == (1, 6, 6)
    assert (await world.status(late)).state is ViewState.WAITING
    await world.tick(5)
    assert (await world.status(late)).state is ViewState.WAITING
    assert (await world.check(browsers[5])).verdict is Verdict.ADMITTED


@pytest.mark.req("ENG-187")
async def test_it_gives_free_slots_to_the_oldest_and_the_others_a_paid_pass_without(world: World) -> None:
    await world.create(**SLOW, max_concurrent=3)
    browsers = await crowd(world, 7)
    await world.leave(browsers[1])

    await world.admin.flush(ROOM, actor="ann")
    before = await world.figures()
    await world.tick()

    records = [await world.ticket(browser.ticket) for browser in browsers]
    figures = await world.figures()
    assert [record.flags & BOTH for record in records] == [BOTH, 0, BOTH, BOTH, Flag.PAID, Flag.PAID, Flag.PAID]
    assert [record.state for record in records[:3]] == [TicketState.PASSED, TicketState.EXPIRED, TicketState.PASSED]
    for one in (before, figures):
        assert (one.waiting, one.pending_entry, one.passes_outstanding, one.occupancy) == (0, 3, 3, 3)
    checks = [await world.check(browser) for browser in browsers]
    assert [check.verdict for check in checks].count(Verdict.ADMITTED) == 3
    assert checks[4].reason is Reason.AT_CAPACITY
    await world.leave(browsers[0])
    assert (await world.check(browsers[4])).verdict is Verdict.ADMITTED, "it is paid: rate 0 does not keep it out"


@pytest.mark.req("ENG-187")
async def test_it_exceeds_no_cap_that_is_used_up_and_serves_the_door_first(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=1, passed_ttl_sec=6000, presence_sec=3600)
    (late,) = await world.joined()
    await world.status(late)
    await world.tick(125)
    inside, *line = await crowd(world, 3)
    await world.tick(1)
    await world.check(inside)
    await world.status(late)

    await world.admin.flush(ROOM, actor="ann")
    full = await world.figures()
    await world.leave(inside)
    (new,) = await world.joined()
    await world.update(rate_per_minute=0)
    await world.admin.flush(ROOM, actor="ann")

    (given,) = await world.facts(SlotGiven)
    assert (full.occupancy, full.passes_outstanding) == (1, 3)
    assert given.tickets == (late.ticket,), "an older ticket at the door goes before the line"
    assert [(await world.status(browser)).claim_until for browser in (*line, new)] == [0, 0, 0]
    assert (await world.figures()).occupancy == 1


@pytest.mark.req("ENG-262")
async def test_it_records_one_fact_for_any_number(world: World) -> None:
    await world.create(**SLOW, max_concurrent=2)
    browsers = await crowd(world, 5)
    await world.leave(browsers[1])
    before = len(await world.facts())

    await world.admin.flush(ROOM, actor="Zoë")

    added = (await world.facts())[before:]
    assert len(added) == 1
    fact = added[0]
    assert isinstance(fact, Promoted)
    assert (fact.by, fact.runs) == (PromotedBy.FLUSH, (Run(1, 3, BOTH), Run(4, 2, Flag.PAID)))
    assert (fact.flushed, fact.actor) == (4, "Zoë")
    assert fact.claim_end - (fact.pass_end - 600_000) == 120_000


async def test_it_needs_no_tick_to_be_there_for_whoever_asks(world: World) -> None:
    await world.create(**SLOW, max_concurrent=1)
    browsers = await crowd(world, 8)
    await world.admin.flush(ROOM, actor="ann")

    entered = await world.check(browsers[0])
    again = await world.join(browsers[1])
    left = await world.leave(browsers[2])
    ejected = await world.admin.eject(ROOM, browsers[3].ticket, actor="ann")
    figures = await world.figures()
    await world.tick()

    assert entered.verdict is Verdict.ADMITTED
    assert again.view is not None
    assert (again.view.ticket, again.view.state) == (browsers[1].ticket, ViewState.AT_CAPACITY)
    assert (left.was, ejected.was) == (TicketState.PASSED, TicketState.PASSED)
    assert (figures.active, figures.pending_entry, figures.passes_outstanding) == (1, 0, 5)
    states = [(await world.ticket(browser.ticket)).state for browser in browsers[:5]]
    assert states == [
        TicketState.ACTIVE, TicketState.PASSED, TicketState.EXPIRED, TicketState.EJECTED, TicketState.PASSED,
    ]  # fmt: skip
    assert (await world.door(browsers[0].ticket)).admission_seq > 0, "what happened meanwhile is not overwritten"


async def test_it_goes_in_bounded_steps_that_no_caller_has_to_live_through(world: World) -> None:
    await world.create(**SLOW, max_concurrent=10)
    browsers = await crowd(world, 2600)

    await world.admin.flush(ROOM, actor="ann")
    first = await world.jobs.tick(ROOM)
    states = [(await world.ticket(n)).state for n in (1, 1000, 1100, 2600)]
    figures = await world.figures()
    await world.tick()

    assert first.again
    assert states == [TicketState.PASSED, TicketState.PASSED, TicketState.WAITING, TicketState.WAITING]
    assert (figures.waiting, figures.pending_entry, figures.passes_outstanding) == (0, 10, 2590)
    assert (await world.ticket(2600)).state == TicketState.PASSED
    assert (await world.door(2600)).pass_end == (await world.door(1)).pass_end > 0
    assert await world.valkey.execute("ZCARD", world.keys.deadlines(1)) == 2600
    assert await world.valkey.execute("EXISTS", world.keys.flushes(1)) == 0
    assert (await world.header())["flush_up_to"] == 0
    assert (await world.status(browsers[1700])).state is ViewState.AT_CAPACITY


async def test_it_keeps_apart_two_flushes_and_a_purge_of_one_moment(world: World) -> None:
    await world.create(**SLOW, max_concurrent=2)
    first = await crowd(world, 3)
    await world.admin.flush(ROOM, actor="ann")
    await world.advance(100)
    dropped = await crowd(world, 3)
    await world.admin.purge(ROOM, actor="ann")
    second = await crowd(world, 3)
    await world.admin.flush(ROOM, actor="ann")

    views = [[await world.status(b, told=False, seen=False) for b in part[1:]] for part in (first, dropped, second)]
    await world.tick()
    after = [[await world.status(b, told=False, seen=False) for b in part] for part in (first, dropped, second)]

    for shown in (views, after):
        assert {view.state for view in shown[0]} <= {ViewState.PASSED, ViewState.AT_CAPACITY}
        assert {(view.state, view.reason, view.by_purge) for view in shown[1]} == {
            (ViewState.GONE, Reason.EJECTED, True)
        }
        assert {view.state for view in shown[2]} == {ViewState.AT_CAPACITY}
    assert after[2][0].pass_expires_at - after[0][0].pass_expires_at >= 100_000, "each flush has its own end"
    assert (await world.figures()).waiting == 0


async def test_it_frees_the_places_of_every_address(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=2)
    await world.joined(2, address="office")

    await world.admin.flush(ROOM, actor="ann")

    assert [(await world.join(Browser(address="office"))).code for _ in range(3)] == [1, 1, 3]


@pytest.mark.req("ENG-188")
async def test_it_flushes_active_and_paused_rooms_and_no_bypassed_one(world: World) -> None:
    await world.create(**SLOW)
    (early,) = await world.joined()
    await world.update(state=2)
    before = (await world.header())["seq"]

    refused = await world.admin.flush(ROOM, actor="ann")
    untouched = (await world.header())["seq"]
    await world.update(state=1)
    paused = await world.admin.flush(ROOM, actor="ann")
    (later,) = await world.joined()
    await world.update(state=0)
    active = await world.admin.flush(ROOM, actor="ann")

    assert (refused.code, refused.waiting) == (LineCode.BYPASSED, 0)
    assert untouched == before
    assert (paused.code, paused.waiting, active.code, active.waiting) == (LineCode.OK, 1, LineCode.OK, 1)
    assert {(await world.status(b)).state for b in (early, later)} == {ViewState.PASSED}


@pytest.mark.req("ENG-188")
async def test_it_never_flushes_a_scheduled_room_nor_its_pre_queue(world: World) -> None:
    await world.create(**SLOW)
    (early,) = await world.joined()
    await world.update(opens_at=(await world.figures()).now + 3_600_000)
    (placed,) = await world.joined()
    before = (await world.header())["seq"]

    refused = await world.admin.flush(ROOM, actor="ann")

    assert (refused.code, refused.waiting) == (LineCode.SCHEDULED, 0)
    assert (await world.header())["seq"] == before
    assert {(await world.status(browser)).state for browser in (early, placed)} == {ViewState.SCHEDULED}


async def test_it_lets_an_unused_pass_of_a_flush_lapse_with_its_time(world: World) -> None:
    await world.create(**SLOW | {"presence_sec": 20}, passed_ttl_sec=60, max_concurrent=1)
    told, ghost = await crowd(world, 2)
    await world.admin.flush(ROOM, actor="ann")
    assert (await world.status(told)).state is ViewState.PASSED

    await world.tick(30)
    kept = (await world.figures()).pending_entry
    await world.tick(31)

    figures = await world.figures()
    assert kept == 1
    assert (figures.pending_entry, figures.passes_outstanding) == (0, 0)
    assert (await world.status(ghost)).reason is Reason.EXPIRED


async def test_it_answers_a_repeated_flush_after_the_first_is_stored(world: World) -> None:
    await world.create(**SLOW)
    await crowd(world, 2)
    first = await world.admin.flush(ROOM, actor="ann")

    again = await world.admin.flush(ROOM, actor="ann")
    await world.commit()
    stored = await world.admin.flush(ROOM, actor="ann")

    assert (again.waiting, again.seq) == (0, first.seq)
    assert (stored.waiting, stored.seq) == (0, 0)
