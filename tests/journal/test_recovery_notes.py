"""What health tells of rooms that are ahead of their journal, and of rebuilds that fail."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from app.core.ids import RoomId
from app.infrastructure.engine_errors import RoomFenced
from app.infrastructure.engine_results import ViewState
from app.services import recovery
from app.services.recovery_notes import Ahead, read_notes
from tests.journal.house import House, holder

SHOP = RoomId("shop")


class Hands:
    """A steady clock that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.req("FLT-084", "CFG-213")
async def test_a_room_that_stays_ahead_of_its_journal_is_named_and_not_rebuilt(house: House) -> None:
    """An older Postgres was restored under a newer Valkey."""
    clock = house.recovery._notes.steady = Hands()
    book = house.recovery._book
    await house.create("shop")
    for who in range(5):
        await house.join("shop", who)
    await house.drain("shop")
    await house.tamper("DELETE FROM events WHERE seq > 3")
    await house.postgres.execute("UPDATE room_heads SET seq = 3")

    shown = []
    for seconds in (0, 59, 2):
        clock.now += seconds
        assert await house.recovery.ensure_all() == 0
        shown.append(read_notes(book)[0])

    assert shown == [[], [], [Ahead("shop", 6, 3)]]
    assert shown[-1][0].to_json() == {"roomId": "shop", "liveSeq": 6, "journalSeq": 3}
    assert "further in Valkey (6) than in the journal (3)" in shown[-1][0].warning
    assert "Restore the newer one, or empty the room's keys" in shown[-1][0].warning
    assert (await house.engine.status(house.rooms["shop"], holder(4, 5))).ahead == 4
    await house.postgres.execute("UPDATE room_heads SET seq = 4")
    assert await house.recovery.ensure_all() == 0
    assert read_notes(book)[0] == [], "the journal moves"
    clock.now += 61
    await house.recovery.ensure_all()
    assert read_notes(book)[0] == [Ahead("shop", 6, 4)]
    await house.lose_everything()
    await house.recovery.ensure_all()
    await house.recovery.ensure_all()
    assert read_notes(book)[0] == []


@pytest.mark.req("FLT-100", "FLT-090")
@pytest.mark.parametrize(("column", "value", "word"), [("type", 99, "type 99"), ("lv", 9, "lv 9")])
async def test_what_this_build_cannot_read_keeps_its_room_shut_and_is_named(
    house: House, monkeypatch: pytest.MonkeyPatch, column: str, value: int, word: str
) -> None:
    monkeypatch.setattr(recovery, "RETRY_SEC", (0.0, 0.0))
    await house.create("shop")
    await house.join("shop", 1)
    await house.drain("shop")
    was = await house.postgres.fetchval(f"SELECT {column} FROM events WHERE seq = 2")
    await house.tamper(f"UPDATE events SET {column} = $1 WHERE seq = 2", value)
    await house.lose_everything()

    with capture_logs() as logs:
        assert not await house.recovery.ensure(SHOP)
    _, failed = read_notes(house.recovery._book)
    with pytest.raises(RoomFenced):
        await house.engine.status(house.rooms["shop"], holder(1, 1))
    await house.tamper(f"UPDATE events SET {column} = $1 WHERE seq = 2", was)
    with capture_logs() as later:
        assert await house.recovery.ensure(SHOP)

    assert word in failed["shop"]
    assert [entry["event"] for entry in logs] == ["room_fenced", "rebuild_started", "rebuild_failed"]
    assert (logs[0]["reason"], word in logs[2]["reason"], "next_try_sec" in logs[2]) == ("missing", True, True)
    assert [entry["event"] for entry in later] == ["rebuild_started", "rebuild_ended"]
    assert (later[1]["events"], later[1]["tickets"], later[1]["seconds"] >= 0) == (2, 1, True)
    assert read_notes(house.recovery._book)[1] == {}
    assert (await house.engine.status(house.rooms["shop"], holder(1, 1))).state is ViewState.WAITING
