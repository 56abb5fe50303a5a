"""Long reads over real stores: no step reads more than a thousand rows, however much there is (BUD-076)."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from app.core.clock import wall_ms
from app.core.ids import RoomId
from app.domain.hour_record import HOUR_MS
from app.infrastructure.hour_store import HourStore, LiveHours, RoomHour
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.notes_store import AuditQuery, NotesStore
from app.infrastructure.postgres import Postgres
from app.infrastructure.room_directory import RoomDirectory
from app.services.heavy_works import HeavyWorks, Work, audit_file, audit_page, report, timeline
from app.services.history import History
from app.services.notes import NARROW_ROWS, Notes
from app.services.ref_search import RefsHere
from app.services.reports import Reports, report_query
from tests.journal.house import House
from tests.leader.test_reports import record

ROWS = 2300
_AUDIT = """
INSERT INTO audit (ts, actor, actor_kind, role, action, detail, room, ok)
SELECT n, 'Ann', 'operator', 'owner', 'room.rate', 'x', 'shop', TRUE FROM generate_series(1, $1::integer) AS n
"""
_MARKS = """
INSERT INTO timeline (ts, room, kind, text, actor)
SELECT $2::bigint - n / 3, 'shop', 'rate', n::text, 'Ann' FROM generate_series(1, $1::integer) AS n
"""


class Counting(Postgres):
    """Notes how many rows each read gave."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, max_size=1)
        self.read: list[int] = []

    async def fetch(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        """As Postgres."""
        rows = await super().fetch(sql, *args)
        self.read.append(len(rows))
        return rows

    async def fetch_long(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        """As Postgres."""
        rows = await super().fetch_long(sql, *args)
        self.read.append(len(rows))
        return rows


async def nothing() -> None:
    return


@pytest.mark.req("BUD-076", "BUD-075")
async def test_no_step_of_a_long_read_has_more_than_a_thousand_rows(house: House, directory: RoomDirectory) -> None:
    await house.create("shop")
    now = int(wall_ms())
    hour = now // HOUR_MS
    await house.postgres.execute(_AUDIT, ROWS)
    await house.postgres.execute(_MARKS, ROWS, now - 1000)
    await HourStore(house.postgres).keep(
        [RoomHour("shop", 1, record(one)) for one in range(hour - ROWS, hour)]
        + [RoomHour(f"r{n:04}", 1, record(hour - 1)) for n in range(ROWS)]
    )
    await directory.reload(RoomId("shop"))
    postgres = Counting(house.postgres.dsn)
    notes = Notes(NotesStore(postgres), directory)
    nobody: Any = None
    refs: RefsHere = nobody
    live = LiveHours(house.prefix, LuaLoader(house.valkey))
    history: History = nobody
    reports = Reports(rooms=directory, live=live, store=HourStore(postgres))
    works = HeavyWorks(notes=notes, reports=reports, history=history, refs=refs, look_again=nothing)

    async def answer(work: Work | None) -> str:
        assert work is not None
        postgres.read.clear()
        text = "".join([piece async for piece in works.pieces(work)])
        assert max(postgres.read) <= 1000, work.kind
        return text

    def query(*parameters: tuple[str, str]) -> Work | None:
        return report(report_query(parameters, now))

    def lines(text: str) -> int:
        return text.count("\r\n")

    mine = AuditQuery(action="room.rate")
    assert lines(await answer(audit_file(mine))) == 1 + ROWS
    assert (await answer(audit_page(AuditQuery(action="room.rate", limit=1000)))).count('"id"') == 1000
    marks = await answer(timeline({"roomId": "shop"}, with_names=True))
    told = [int(part.partition('"')[0]) for part in marks.split('"text":"')[1:] if part[0].isdigit()]
    assert sorted(told) == list(range(1, ROWS + 1)), "marks of one moment are neither left out nor told twice"
    assert lines(await answer(query(("format", "csv"), ("roomId", "shop"), ("from", "0")))) >= 1 + ROWS
    assert (await answer(query(("from", str(now - 2 * HOUR_MS))))).count('"startIso"') >= ROWS

    postgres.read.clear()
    assert audit_page(AuditQuery(limit=NARROW_ROWS - 1)) is None
    await notes.audit(AuditQuery(limit=NARROW_ROWS - 1))
    assert await notes.narrow_timeline({"roomId": "shop"}, with_names=True) is None, "that is too much for a web worker"
    assert await notes.narrow_timeline({"roomId": "shop", "from": str(now)}, with_names=True) is not None
    assert await notes.narrow_timeline({}, with_names=True) is None
    assert max(postgres.read) == NARROW_ROWS == 500
    await postgres.close()
