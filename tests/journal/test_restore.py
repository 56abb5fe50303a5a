"""A journal that was brought back: every room is there again as of that point, under another prefix too (a drill)."""

from __future__ import annotations

import pytest

from app.core.ids import RoomId
from tests.journal.house import House

ROOMS = ("shop", "sale")


async def lines(house: House) -> dict[str, tuple[int, int]]:
    """Waiting and last ticket of each room."""
    found = await house.admin.figures([RoomId(room) for room in ROOMS])
    headers = {room: await house.jobs.header(RoomId(room)) for room in ROOMS}
    return {room: (found[RoomId(room)].waiting, (headers[room] or {})["last_ticket"]) for room in ROOMS}


@pytest.mark.req("CFG-212", "CFG-214")
async def test_every_room_is_there_again_beside_an_empty_valkey_or_under_a_new_prefix(
    house: House, valkey_url: str, fresh_schema: str
) -> None:
    for number, room in enumerate(ROOMS):
        await house.create(room)
        for who in range(3 + number):
            await house.join(room, who)
        await house.drain(room)
    before = await lines(house)
    assert before == {"shop": (3, 3), "sale": (4, 4)}
    await house.join("shop", "after the backup")  # never reaches the journal that is restored

    async with House(valkey_url, fresh_schema, f"{house.prefix}drill:") as drill:
        assert await drill.live_rooms() == []
        assert await drill.recovery.ensure_all() == len(ROOMS), "every room is absent, and is rebuilt"
        assert await lines(drill) == before
        assert (await lines(house))["shop"] == (4, 4), "the original is as it was"
        await drill.lose_everything()

    await house.lose_everything()
    assert await house.recovery.ensure_all() == len(ROOMS)
    assert await lines(house) == before
    await house.read("shop")
    await house.join("shop", "the next")
    assert (await lines(house))["shop"] == (4, 4), "it goes on behind the last number that was restored"
