"""The journal is away for long: nobody is promoted any more, so that what waits for it stays bounded."""

from __future__ import annotations

import pytest

from app.domain.layout import pack_header
from tests.engine.world import ROOM, World

MOST = 1_000_000


@pytest.mark.req("FLT-078")
async def test_it_promotes_nobody_while_the_journal_took_nothing_for_ten_minutes(world: World) -> None:
    await world.create(rate_per_minute=600, presence_sec=3600)
    await world.joined(80)

    await world.jobs.tick(ROOM)
    await world.advance(590)
    within = (await world.jobs.tick(ROOM)).promoted
    await world.advance(20)
    beyond = [(await world.jobs.tick(ROOM)).promoted]
    await world.advance(1)
    beyond.append((await world.jobs.tick(ROOM)).promoted)
    facts = await world.valkey.execute("LLEN", world.keys.outbox)
    await world.jobs.drain_next(ROOM, (await world.header())["seq"], 0)
    await world.advance(1)
    after = (await world.jobs.tick(ROOM)).promoted

    assert within > 0
    assert beyond == [0, 0]
    assert await world.valkey.execute("LLEN", world.keys.outbox) < facts
    assert after > 0


@pytest.mark.req("FLT-078")
async def test_it_promotes_nobody_while_a_million_facts_wait(world: World) -> None:
    await world.create(rate_per_minute=600, presence_sec=3600)
    await world.joined(30)
    header = await world.header()
    promoted = {}
    for waiting in (MOST, MOST - 1):
        seq = header["committed"] + waiting
        await world.valkey.execute("SET", world.keys.header, pack_header({**await world.header(), "seq": seq}))
        await world.advance(1)
        promoted[waiting] = (await world.jobs.tick(ROOM)).promoted

    assert promoted[MOST] == 0
    assert promoted[MOST - 1] > 0
