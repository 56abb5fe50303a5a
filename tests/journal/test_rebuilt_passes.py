"""Passes and presence after a room was lost: what was decided is repeated, not decided again."""

from __future__ import annotations

import pytest

from app.core.ids import RoomId
from app.domain.facts import FactType
from app.infrastructure.engine_results import TicketState
from tests.journal.history import SHOP, advance, lose_and_rebuild
from tests.journal.house import House


async def states(house: House) -> list[tuple[int, int]]:
    """State, and flags without those that are not journaled, of every ticket."""
    return [(record.state, record.flags & 3) for record in await house.tickets(SHOP)]


async def set_rate(house: House, rate: int) -> None:
    await house.admin.update(SHOP, {"rate_per_minute": rate}, actor="ann")


@pytest.mark.req("ENG-125")
async def test_it_repeats_promotions_and_decides_none_again(house: House) -> None:
    await house.create("shop", rate_per_minute=60, max_concurrent=2, passed_ttl_sec=600, presence_sec=3600)
    for who in range(4):
        await house.join("shop", who)
    await advance(house, "shop", 5)
    await house.admin.update(SHOP, {"passed_ttl_sec": 60, "max_concurrent": None}, actor="ann")
    await house.read("shop")
    before = await states(house)
    ends = [(door.passed_at, door.pass_end, door.claim_end) for door in await house.doors(SHOP, 2)]

    await lose_and_rebuild(house)

    passed, waiting = (TicketState.PASSED, 3), (TicketState.WAITING, 0)
    assert await states(house) == before == [passed, passed, waiting, waiting]
    assert [(door.passed_at, door.pass_end, door.claim_end) for door in await house.doors(SHOP, 2)] == ends
    assert len(await house.journaled(SHOP, FactType.PROMOTED)) == 2
    header = await house.jobs.header(RoomId(SHOP))
    assert header is not None
    assert header["credit"] <= 1


@pytest.mark.req("ENG-142")
@pytest.mark.req("FLT-087")
async def test_it_counts_everybody_as_seen_at_the_rebuild_and_for_one_presence_time(house: House) -> None:
    await house.create("shop", presence_sec=20, passed_ttl_sec=6000)
    for who in range(2):
        await house.join("shop", who)
    await advance(house, "shop", 60)

    await lose_and_rebuild(house)
    await set_rate(house, 60)
    await advance(house, "shop", 1)
    await set_rate(house, 0)
    at_once = await states(house)
    await advance(house, "shop", 25)
    await set_rate(house, 60)
    await advance(house, "shop", 2)

    assert at_once == [(TicketState.PASSED, 3), (TicketState.WAITING, 0)], "there when the turn came"
    assert (await states(house))[1] == (TicketState.PASSED, 0), "absent again"
