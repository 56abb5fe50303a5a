"""The mark of the last change of state or rate comes back as it was, whatever the person is called (ADM-121)."""

from __future__ import annotations

import pytest

from app.domain.actor import Actor
from app.domain.fold_marks import LastChange
from app.domain.room import RoomState
from app.infrastructure.keys import RoomKeys
from tests.journal.history import SHOP, lose_and_rebuild
from tests.journal.house import House

NAMES = ["ann", 'Zoë "/,"by":{\\', "", '","by":{}', "\\", "\\\\", "\u2028\x1f"]


@pytest.mark.req("ADM-121")
@pytest.mark.parametrize("is_person", [True, False])
async def test_the_last_change_is_the_same_after_a_rebuild(house: House, is_person: bool) -> None:
    await house.create("shop")
    for number, name in enumerate(NAMES):
        actor = Actor(name, kind="operator", ip="192.0.2.1") if is_person else name
        change = {"rate_per_minute": number + 1} if number % 2 else {"state": RoomState((number + 1) % 3)}
        await house.admin.update(SHOP, change, actor=actor, why="operator" if is_person else "autotune")
        await house.drain("shop")
        before = await mark(house)
        await lose_and_rebuild(house)

        assert await mark(house) == before
        last = LastChange.read(before)
        assert (last.by, last.is_automatic) == (name, not is_person)
        assert last.kind == ("rate" if number % 2 else "state")


async def mark(house: House) -> bytes:
    found = await house.valkey.execute("HGET", RoomKeys(house.prefix, SHOP).config, "mark_last")
    assert isinstance(found, bytes)
    return found
