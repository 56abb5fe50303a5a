"""Openings of the doors that a rebuilt room has gone through as the live one has."""

from __future__ import annotations

import pytest

from app.core.clock import wall_ms
from app.infrastructure.engine_results import JoinCode, Presented
from app.services.draws import draw_room
from tests.journal.history import SHOP, advance, keep_the_time, lose_and_rebuild, settled
from tests.journal.house import House, holder
from tests.journal.snapshot import assert_alike, snapshot, without_fresh


async def join(house: House, who: object) -> JoinCode:
    return (await house.join("shop", who, address="office")).code


async def leave_at(house: House, handles: list[bytes]) -> None:
    """Everybody leaves by his handle, whatever he has by now."""
    for who, handle in enumerate(handles):
        proof = holder(who, 0)._replace(presented=Presented.HANDLE, handle=handle)
        await house.engine.leave(house.rooms["shop"], proof)


async def opened(house: House, people: int, **config: object) -> list[bytes]:
    """The handles of people from one address whose doors have just opened."""
    await house.create("shop", opens_at=wall_ms() + 3_600_000, **config)
    answers = [await house.join("shop", who, address="office") for who in range(people)]
    await house.admin.update(SHOP, {"opens_at": None}, actor="ann")
    await house.read("shop")
    await advance(house, "shop", 1)
    return [answer.view.handle for answer in answers if answer.view is not None]


async def rebuilt_alike(house: House) -> None:
    before = without_fresh(await settled(house))
    await lose_and_rebuild(house)
    await keep_the_time(house, "shop")
    assert_alike(before, without_fresh(await snapshot(house.valkey, house.prefix, "shop")))


@pytest.mark.req("ENG-293", "ENG-166")
async def test_it_counts_a_number_that_was_left_before_it_was_told_with_the_line(house: House) -> None:
    handles = await opened(house, 6, queue_max_per_ip=2, pre_queue_max_per_ip=6)
    await draw_room(house.jobs, SHOP)

    await leave_at(house, handles)  # the sixth is churn by the cap of the line
    await rebuilt_alike(house)

    assert [await join(house, who) for who in ("a", "b")] == [JoinCode.CREATED, JoinCode.IDENTITY_LIMIT]
    await advance(house, "shop", 61)
    assert await join(house, "b") is JoinCode.CREATED


@pytest.mark.req("ENG-278")
async def test_it_knows_of_an_opening_without_anybody_when_the_next_was_called_off(house: House) -> None:
    await house.create("shop")
    await house.join("shop", 1)
    for hours in (0, 1):
        await house.admin.update(SHOP, {"opens_at": wall_ms() + 1 + hours * 3_600_000}, actor="ann")
        await advance(house, "shop", 1)
        await house.drain("shop")
    await house.admin.update(SHOP, {"opens_at": None}, actor="ann")

    await rebuilt_alike(house)
