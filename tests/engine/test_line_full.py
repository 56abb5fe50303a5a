"""No room for newcomers: the line is at its longest, or the live store is short of memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from app.infrastructure.engine_results import JoinCode, TicketState, Verdict, ViewState
from tests.engine.test_prequeue import scheduled
from tests.engine.world import ROOM, Browser, World


@asynccontextmanager
async def short_of_memory(world: World) -> AsyncIterator[None]:
    """A live store that takes no write which needs memory."""
    await world.valkey.execute("CONFIG", "SET", "maxmemory", "1")
    try:
        yield
    finally:
        await world.valkey.execute("CONFIG", "SET", "maxmemory", "0")


@pytest.mark.req("ENG-294")
async def test_it_refuses_newcomers_of_a_full_line_and_serves_everybody_who_has_a_place(world: World) -> None:
    small = World(world.valkey, world.prefix, line_max=3)
    await small.create(rate_per_minute=60, max_concurrent=1)
    inside, waiting, *_ = await small.joined(4)
    last_ticket = (await small.header())["last_ticket"]

    refused = [(await small.join(Browser())) for _ in range(2)]
    entered = await small.check(inside)
    views = [await small.status(b) for b in (inside, waiting)]
    again = await small.join(waiting)

    assert [(answer.code, answer.view, answer.seq) for answer in refused] == [(JoinCode.LINE_FULL, None, 0)] * 2
    assert (await small.header())["last_ticket"] == last_ticket
    assert entered.verdict is Verdict.ADMITTED
    assert [view.state for view in views] == [ViewState.ACTIVE, ViewState.WAITING]
    assert again.code is JoinCode.EXISTING
    await small.leave(waiting)
    assert (await small.join(Browser())).code is JoinCode.CREATED


@pytest.mark.req("ENG-294")
async def test_it_counts_places_in_the_pre_queue_too(world: World) -> None:
    small = World(world.valkey, world.prefix, line_max=3)
    await small.create(rate_per_minute=0)
    await small.joined(1)
    await small.update(opens_at=await small.now() + 3_600_000)
    holder, _ = await small.joined(2)

    refused = await small.join(Browser())

    assert refused.code is JoinCode.LINE_FULL
    assert (await small.join(holder)).code is JoinCode.EXISTING


@pytest.mark.req("ENG-294")
async def test_it_gives_no_place_while_memory_is_short_and_goes_on_with_everything_else(world: World) -> None:
    await world.create(rate_per_minute=60, queue_max_per_ip=None)
    entering, waiting, leaving, ejected = await world.joined(4)
    await world.advance(1.5)

    async with short_of_memory(world):
        refused = await world.join(Browser())
        entered = await world.check(entering)
        session = await world.check(entering)
        view = await world.status(waiting)
        left = await world.leave(leaving)
        out = await world.admin.eject(ROOM, ejected.ticket, actor="op")
        again = await world.join(waiting)
        ticked = await world.jobs.tick(ROOM)
        why = (await world.figures()).joins_refused

    assert (refused.code, refused.view) == (JoinCode.LINE_FULL, None)
    assert (entered.verdict, session.verdict) == (Verdict.ADMITTED, Verdict.SESSION)
    assert (view.state, left.was, out.was) == (ViewState.WAITING, TicketState.WAITING, TicketState.WAITING)
    assert again.code is JoinCode.EXISTING
    assert (ticked.promoted, why) == (1, "memory")
    assert (await world.join(Browser())).code is JoinCode.CREATED


@pytest.mark.req("ENG-294")
async def test_it_remembers_for_a_minute_that_joins_were_refused(world: World) -> None:
    small = World(world.valkey, world.prefix, line_max=1)
    await scheduled(small, rate_per_minute=0)
    await small.joined(1)
    before = (await small.figures()).joins_refused

    await small.join(Browser())

    assert (before, (await small.figures()).joins_refused) == (None, "line")
    assert 55_000 < await world.valkey.execute("PTTL", small.keys.refused_joins) <= 60_000
