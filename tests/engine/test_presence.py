"""Presence: who counts as being there, and what an absent holder loses."""

from __future__ import annotations

import pytest

from app.domain.facts_of_passes import Promoted, SlotGiven
from app.infrastructure.engine_results import Reason, TicketState, Verdict, Via, ViewState
from tests.engine.world import ROOM, Browser, World


async def promoted(world: World, browser: Browser) -> bool:
    """Whether his pass was paid: he was there when his turn came."""
    await world.update(rate_per_minute=60_000)
    await world.tick(0.1)
    await world.update(rate_per_minute=0)
    return bool((await world.ticket(browser.ticket)).flags & 1)


@pytest.mark.req("ENG-138")
@pytest.mark.parametrize(("silent_sec", "is_present"), [(20, True), (29.5, True), (31, False), (60, False)])
async def test_it_counts_a_holder_as_absent_once_he_is_silent_for_longer(
    world: World, silent_sec: float, is_present: bool
) -> None:
    await world.create(rate_per_minute=0, presence_sec=30)
    (browser,) = await world.joined()
    await world.status(browser)

    await world.advance(silent_sec)

    assert await promoted(world, browser) is is_present


@pytest.mark.req("ENG-138")
async def test_it_never_counts_a_page_as_absent_that_asks_every_five_seconds(world: World) -> None:
    await world.create(rate_per_minute=0, presence_sec=15)
    (browser,) = await world.joined()

    for _ in range(20):
        await world.tick(5)
        await world.status(browser)
    await world.advance(4.8)

    assert await promoted(world, browser)


@pytest.mark.req("ENG-137", "INL-084")
async def test_it_sees_a_holder_by_join_and_status_but_not_by_a_check(world: World) -> None:
    await world.create(rate_per_minute=0, presence_sec=30)
    joining, asking, checking, gated = await world.joined(4)
    await world.advance(25)
    await world.join(joining)
    await world.status(asking)
    await world.check(checking)
    await world.check(gated, via=Via.INLINE)
    await world.advance(10)

    await world.update(rate_per_minute=60_000)
    await world.tick(0.1)

    people = (joining, asking, checking, gated)
    assert [(await world.ticket(b.ticket)).flags & 1 for b in people] == [1, 1, 0, 0]


@pytest.mark.req("ENG-139")
async def test_it_takes_no_place_from_an_absent_holder_and_lets_him_in_when_he_comes_back(world: World) -> None:
    await world.create(rate_per_minute=0, presence_sec=30, max_concurrent=1, passed_ttl_sec=600)
    locked, other = await world.joined(2)
    await world.tick(300)
    still = [(await world.status(b, seen=False)).ahead for b in (locked, other)]
    await world.status(other)

    await world.update(rate_per_minute=60_000)
    await world.tick(0.1)
    order = [run.first for fact in await world.facts(Promoted) for run in fact.runs]
    await world.check(other)
    back = await world.status(locked)
    refused = await world.check(locked)
    await world.leave(other)
    await world.tick(1)

    assert still == [0, 1]
    assert order == [1, 2]
    assert (back.state, back.ahead, refused.reason) == (ViewState.AT_CAPACITY, 0, Reason.AT_CAPACITY)
    assert [fact.tickets for fact in await world.facts(SlotGiven)] == [(locked.ticket,)]
    assert (await world.check(locked)).verdict is Verdict.ADMITTED


@pytest.mark.req("ENG-143")
async def test_it_writes_no_fact_about_presence(world: World) -> None:
    await world.create(rate_per_minute=0)
    browsers = await world.joined(3)
    before = (await world.header())["seq"]

    for _ in range(5):
        await world.advance(20)
        await world.status(browsers[0])
        await world.join(browsers[1])
        await world.jobs.tick(ROOM)

    assert (await world.header())["seq"] == before


@pytest.mark.req("ENG-126")
async def test_it_lets_a_pass_be_used_until_its_time_is_over(world: World) -> None:
    await world.create(rate_per_minute=60_000, state=1, passed_ttl_sec=200)
    in_time, late = await world.joined(2)
    await world.update(state=0)
    await world.tick(0.1)
    (door, _) = [await world.door(b.ticket) for b in (in_time, late)]

    await world.tick(199)
    entered = await world.check(in_time)
    await world.advance(1.5)
    too_late = await world.check(late)
    await world.tick(0.1)

    assert door.pass_end - door.claim_end == 800
    assert entered.verdict is Verdict.ADMITTED
    assert too_late.reason is Reason.EXPIRED, "before any tick has seen it"
    assert (await world.ticket(late.ticket)).state == TicketState.EXPIRED


@pytest.mark.req("ENG-132")
async def test_it_admits_nobody_without_a_slot_before_an_older_present_one(world: World) -> None:
    await world.create(rate_per_minute=60_000, max_concurrent=2, passed_ttl_sec=6000, presence_sec=60)
    older, newer = await world.joined(2)
    await world.tick(1)
    for browser in (older, newer):
        await world.status(browser)
    await world.tick(125)
    inside = await world.joined(2)
    await world.tick(1)
    for browser in inside:
        await world.check(browser)
    for browser in (older, newer):
        await world.status(browser)

    await world.leave(inside[0])
    refused = await world.check(newer)
    await world.advance(61)
    gone_away = await world.check(newer)

    assert refused.reason is Reason.AT_CAPACITY
    assert gone_away.verdict is Verdict.ADMITTED, "the older one is absent now"


@pytest.mark.req("ENG-134")
async def test_it_counts_claims_without_a_cap_and_stops_nobody_by_them(world: World) -> None:
    await world.create(rate_per_minute=60_000, max_concurrent=None, queue_max_per_ip=None, presence_sec=3600)
    browsers = await world.joined(300)

    await world.tick(1)
    claims = await world.figures()
    await world.check(browsers[0])
    one_inside = await world.figures()
    await world.tick(121)

    assert (claims.pending_entry, claims.occupancy, claims.waiting) == (300, 300, 0)
    assert (one_inside.pending_entry, one_inside.active, one_inside.occupancy) == (299, 1, 300)
    assert (await world.figures()).pending_entry == 0
