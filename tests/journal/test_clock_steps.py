"""A room whose host's clock was moved comes back from its journal with the rest of every pass and session it had."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.facts import FactType
from app.infrastructure.engine_results import TicketState, Verdict
from tests.journal.folds import assert_checkpoints_agree
from tests.journal.history import HISTORY, SHOP, advance, keep_the_time, lose_and_rebuild, step
from tests.journal.house import House, entry

HOUR_MS = 3_600_000


async def rests(house: House) -> list[Any]:
    """Of every ticket its state, and how long (ds) its pass and its claim still last, and since when it is admitted."""
    header = await house.jobs.header(RoomId(SHOP))
    assert header is not None
    now = int(header["mono"]) // 100
    doors = await house.doors(SHOP, int(header["last_ticket"]))
    return [
        (ticket.state, *(end and end - now for end in (door.pass_end, door.claim_end, door.first_admitted)))
        for ticket, door in zip(await house.tickets(SHOP), doors, strict=True)
    ]


async def populated(house: House) -> None:
    """Two sessions, two passes, two in line."""
    await house.create("shop", **{**HISTORY, "max_concurrent": None, "presence_sec": 3600, "rate_per_minute": 60})
    for who in range(4):
        await house.join("shop", who)
    await advance(house, "shop", 5)
    for who in (0, 1):
        assert (await house.engine.check(house.rooms["shop"], entry(who, who + 1))).verdict is Verdict.ADMITTED
    await house.admin.update(RoomId(SHOP), {"rate_per_minute": 0}, actor="ann")
    await house.read("shop")
    for who in (4, 5):
        await house.join("shop", who)


async def note(house: House) -> None:
    """A fact of now: a rebuild takes no earlier moment than the last one for the present; the time here is false."""
    await house.admin.update(RoomId(SHOP), {"name": secrets.token_hex(4)}, actor="ann")
    await house.read("shop")


def assert_same_rests(after: list[Any], before: list[Any], *, slack: int) -> None:
    for n, (then, now) in enumerate(zip(before, after, strict=True), 1):
        assert now[0] == then[0], f"ticket {n}"
        for was, left in zip(then[1:], now[1:], strict=True):
            assert bool(left) == bool(was), f"ticket {n}"
            assert 0 <= was - left <= slack, f"ticket {n}: {was} before, {left} after"


@pytest.mark.req("ENG-303", "FLT-154", "ENG-272")
@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS, 2 * HOUR_MS, 6000])
async def test_it_leaves_passes_and_sessions_their_rest_when_the_clock_was_moved(house: House, step_ms: int) -> None:
    await populated(house)
    await step(house, step_ms)
    await house.jobs.tick(RoomId(SHOP))
    await advance(house, "shop", 12)
    await note(house)
    before = await rests(house)

    await lose_and_rebuild(house)

    states = [state for state, *_ in before]
    assert states == [TicketState.ACTIVE] * 2 + [TicketState.PASSED] * 2 + [TicketState.WAITING] * 2
    assert_same_rests(await rests(house), before, slack=60)
    assert len(await house.journaled(SHOP, FactType.CLOCK_MOVED)) >= 1
    await assert_checkpoints_agree(house)


@pytest.mark.req("ENG-303")
async def test_it_lays_what_comes_between_two_steps_on_the_clock_of_its_time(house: House) -> None:
    await populated(house)
    for by_ms in (HOUR_MS, -2 * HOUR_MS, HOUR_MS // 2):
        await step(house, by_ms)
        await house.join("shop", ("late", by_ms))
        await house.admin.update(RoomId(SHOP), {"rate_per_minute": 60}, actor="ann")
        await advance(house, "shop", 2)
        await house.admin.update(RoomId(SHOP), {"rate_per_minute": 0}, actor="ann")
        await note(house)
    before = await rests(house)
    once = [door.passed_at for door in await house.doors(SHOP, len(before))]

    await lose_and_rebuild(house)
    first = await rests(house)
    await keep_the_time(house, "shop")
    await lose_and_rebuild(house)

    assert [state for state, *_ in before].count(TicketState.PASSED) >= 6
    assert_same_rests(first, before, slack=60)
    assert_same_rests(await rests(house), before, slack=120)
    assert [door.passed_at for door in await house.doors(SHOP, len(before))] == once


@pytest.mark.req("ENG-303")
async def test_it_records_nothing_where_the_clocks_go_together(house: House) -> None:
    await populated(house)
    await advance(house, "shop", 30)
    await house.drain("shop")

    assert await house.journaled(SHOP, FactType.CLOCK_MOVED) == []


@pytest.mark.req("ENG-303")
async def test_it_records_no_more_than_it_needs_while_the_recorded_clock_stands(house: House) -> None:
    await house.create("shop", rate_per_minute=0)
    await step(house, -HOUR_MS)
    await advance(house, "shop", 20)
    await house.drain("shop")
    assert await house.journaled(SHOP, FactType.CLOCK_MOVED) == [], "nobody has anything that ends"

    await house.join("shop", 1)
    await house.drain("shop")

    assert len(await house.journaled(SHOP, FactType.CLOCK_MOVED)) == 1
