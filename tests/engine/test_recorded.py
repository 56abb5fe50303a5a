"""What the engine records of passes, slots and sessions, and what it does not."""

from __future__ import annotations

import pytest

from app.domain.facts_of_passes import Lapsed, Released, SlotGiven, SlotReleased
from app.domain.layout import Flag
from app.domain.ticket_state import Why
from app.infrastructure.engine_results import ViewState
from tests.engine.world import ROOM, Browser, World


@pytest.mark.req("ENG-268")
async def test_it_keeps_which_tickets_lapsed_and_why(world: World) -> None:
    await world.create(
        rate_per_minute=6000, presence_sec=3600, passed_ttl_sec=60, session_ttl_sec=100, session_max_sec=150
    )
    unused, idle, busy = await world.joined(3)
    await world.tick(1)
    for browser in (idle, busy):
        await world.check(browser)
    for _ in range(8):
        await world.tick(20)
        await world.check(busy)

    found = [(fact.why, fact.tickets) for fact in await world.facts(Lapsed)]

    assert found == [(Why.PASS_OVER, (unused.ticket,)), (Why.SESSION_IDLE, (2,)), (Why.SESSION_MAX, (3,))]


@pytest.mark.req("ENG-263")
async def test_it_keeps_slots_that_pass_from_one_to_another_at_the_door(world: World) -> None:
    """Released when the claim window ran out and when an untold holder was absent; given to who stands at the door."""
    await world.create(rate_per_minute=6000, max_concurrent=1, passed_ttl_sec=600, presence_sec=30)
    absent, slow = await world.joined(2)
    for _ in range(4):
        await world.tick(10)
        await world.status(slow)
    back = await world.status(absent)
    bases = []
    for second in range(1, 131):
        await world.tick(1)
        if not bases and await world.facts(SlotGiven):
            header = await world.header()  # at once: the test's own time moves the wall clock alone
            bases.append(header["wall"] - header["mono"])
        if second % 10 == 0:
            for browser in (absent, slow):
                await world.status(browser)

    released = [(fact.why, fact.tickets) for fact in await world.facts(SlotReleased)]
    (given,) = await world.facts(SlotGiven)

    assert back.state is ViewState.AT_CAPACITY
    assert released == [(Released.ABSENT, (1,)), (Released.CLAIM_OVER, (2,))]
    assert given.tickets == (1,)
    claim_end = (await world.door(1)).claim_end * 100 + bases[0]
    assert abs(given.claim_end - claim_end) <= 100
    assert (await world.ticket(1)).flags & Flag.SLOT


@pytest.mark.req("ENG-271")
async def test_it_journals_neither_presence_nor_what_slides(world: World) -> None:
    """Seen and told marks, credit, sliding sessions, checks that only count: no fact."""
    await world.create(rate_per_minute=60, presence_sec=3600)
    inside, passed, waiting = await world.joined(3)
    await world.tick(1)
    await world.check(inside)
    before = await world.elements()
    told_before = (await world.ticket(passed.ticket)).flags & Flag.TOLD
    credit = (await world.header())["credit"]

    for _ in range(5):
        await world.advance(0.1)
        for browser in (passed, waiting):
            await world.status(browser)
        for browser in (inside, waiting, Browser()):
            await world.check(browser)
            await world.check(browser, covered=False)
    await world.join(waiting)
    await world.jobs.tick(ROOM)

    assert await world.elements() == before
    assert not told_before
    assert (await world.ticket(passed.ticket)).flags & Flag.TOLD
    assert (await world.header())["credit"] > credit
    assert (await world.door(inside.ticket)).used_at > (await world.door(inside.ticket)).admitted
