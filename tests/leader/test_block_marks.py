"""What bot protection refused stands on the timeline: one mark a room and minute, with the number."""

from __future__ import annotations

import pytest

from app.core.ids import RoomId
from app.domain.notes import blocked_note
from app.infrastructure.block_counts import BlockCounts
from app.infrastructure.engine_auto import Overtaken
from app.infrastructure.engine_counts import EngineCounts
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.notes_store import NotesStore
from app.infrastructure.room_directory import RoomDirectory
from app.services.block_marks import BlockMarks
from app.services.leadership import Term, TermOver
from app.services.tally import Tally
from app.services.visitor_counts import VisitorCounts
from tests.journal.house import House
from tests.leader.conftest import lease_of

SHOP, SALE = RoomId("shop"), RoomId("sale")
MINUTE = 60_000
AT = 1_790_000_000_000 // MINUTE * MINUTE


class Refusals:
    """Web workers of one instance that refuse newcomers."""

    def __init__(self, house: House) -> None:
        self.counts = VisitorCounts()
        engine = EngineCounts(house.prefix, LuaLoader(house.valkey))
        self.tally = Tally(counts=self.counts, engine=engine)

    async def refuse(self, room: str, number: int) -> None:
        for _ in range(number):
            self.counts.protection(room, ("blocked",), ("declared_automation",), is_scored=True)
        await self.tally.hand_over()


def duty_of(house: House, directory: RoomDirectory) -> BlockMarks:
    counts = BlockCounts(house.valkey, house.prefix, LuaLoader(house.valkey))
    return BlockMarks(rooms=directory, counts=counts, notes=NotesStore(house.postgres))


async def marks(house: House) -> list[tuple[str, int, str]]:
    rows = await house.postgres.fetch(
        "SELECT room, ts, text FROM timeline WHERE kind = 'protection_block' AND actor = 'system' ORDER BY id"
    )
    return [(row["room"], (row["ts"] - AT) // MINUTE, row["text"]) for row in rows]


def text(number: int) -> str:
    return f"{number} newcomer{'' if number == 1 else 's'} refused by bot protection"


@pytest.mark.req("ADM-197", "OBS-182", "VIS-205")
async def test_it_tells_of_each_room_once_a_minute_whoever_leads(house: House, directory: RoomDirectory) -> None:
    for room in ("shop", "sale"):
        await house.create(room)
        await house.drain(room)
        await directory.reload(RoomId(room))
    one, other, refusals = lease_of(house, "one", ms=60_000), lease_of(house, "other", ms=60_000), Refusals(house)
    assert await one.take()
    term, duty = Term(one), duty_of(house, directory)

    await refusals.refuse("shop", 3)
    await refusals.refuse("shop", 1)
    await duty.tell(term, AT + MINUTE + 1)
    await duty.tell(term, AT + 2 * MINUTE + 1)
    await refusals.refuse("shop", 1)
    await refusals.refuse("sale", 2)
    await duty.tell(term, AT + 3 * MINUTE + 1)
    await one.give()
    assert await other.take()
    await duty_of(house, directory).tell(Term(other), AT + 4 * MINUTE)
    await refusals.refuse("sale", 7)
    await duty_of(house, directory).tell(Term(other), AT + 5 * MINUTE)

    assert await marks(house) == [
        ("shop", 0, text(4)), ("shop", 2, text(1)), ("sale", 2, text(2)), ("sale", 4, text(7)),
    ]  # fmt: skip
    with pytest.raises(TermOver):
        await duty.tell(term, AT + 6 * MINUTE)


@pytest.mark.req("ADM-197")
async def test_a_minute_that_was_told_is_not_told_again_and_a_new_room_begins_at_nothing(
    house: House, directory: RoomDirectory
) -> None:
    await house.create("shop")
    await house.drain("shop")
    await directory.reload(SHOP)
    lease, refusals, duty = lease_of(house, "one", ms=60_000), Refusals(house), duty_of(house, directory)
    assert await lease.take()
    term = Term(lease)
    await refusals.refuse("shop", 5)

    for _ in range(2):  # it fell between the mark and the note of how far it came
        news = await duty._counts.news([(SHOP, 1)])
        assert news == {SHOP: 5}
        await duty._notes.add_mark(SHOP, blocked_note(AT, 5))
    assert await marks(house) == [("shop", 0, text(5))]
    await duty.tell(term, AT + MINUTE)
    assert await marks(house) == [("shop", 0, text(5))]
    assert await duty._counts.news([(SHOP, 2)]) == {}, "another generation has refused nobody yet"
    late = BlockCounts(house.valkey, house.prefix, LuaLoader(house.valkey))
    with pytest.raises(Overtaken):
        await late.told(term.epoch - 1, [(SHOP, 1)], gone=["x"])
    await late.told(term.epoch, [], gone=["shop"])
    assert await late.known() == set()
