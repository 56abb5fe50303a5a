"""Records of rooms' hours: read from the live store, kept in Postgres, read again for reports.

Not here: when they are kept (services/hour_keeper.py), what a record is (domain/hour_record.py).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from app.core.ids import RoomId
from app.domain.hour_record import HourRecord, read_hour
from app.domain.report import Life
from app.infrastructure.engine_pack import RoomCode
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.postgres import Postgres
from app.infrastructure.queries import QUERIES

STEP_ROWS: Final = 1000
"""Most rows of one read of a list (BUD-076)."""
_WAIT: Final = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class RoomHour:
    """The record of one hour of one generation of a room."""

    room_id: str
    generation: int
    record: HourRecord


class LiveHours:
    """Records in the live store. Raises StorageUnavailable."""

    def __init__(self, prefix: str, loader: LuaLoader) -> None:
        self._prefix = prefix
        self._loader = loader

    async def read(self, room_ids: Sequence[RoomId], drop: dict[RoomId, list[int]]) -> dict[RoomId, list[RoomHour]]:
        """Records of rooms that answer, the running hour first. ``drop``: hours of a room that are kept elsewhere."""
        calls = [("hours", RoomKeys(self._prefix, one).header, *drop.get(one, ())) for one in room_ids]
        found: dict[RoomId, list[RoomHour]] = {}
        for room_id, reply in zip(room_ids, await self._loader.call_many(calls), strict=True):
            if isinstance(reply, Exception):
                raise reply
            if reply[0] == RoomCode.OK:
                _, generation, *records = reply
                read = map(read_hour, records)
                found[room_id] = [RoomHour(room_id, generation, record) for record in read if record is not None]
        return found


class HistoryUnreadable(Exception):
    """The records in Postgres cannot be read by this build; the text is Postgres' own."""


class HourStore:
    """Records in Postgres. Raises StorageUnavailable."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    async def prove(self) -> None:
        """Read the latest record, so that nothing is written beside records nobody can read. HistoryUnreadable."""
        try:
            await self._postgres.fetch(QUERIES["hours_latest"])
        except asyncpg.PostgresError as error:
            raise HistoryUnreadable(str(error)) from error

    async def keep(self, hours: Sequence[RoomHour]) -> None:
        """Write records; writing one again does no harm."""
        rows = [(hour.room_id, hour.generation, *_columns(hour.record)) for hour in hours]
        if rows:
            await self._postgres.execute(QUERIES["hours_keep"], *(list(column) for column in zip(*rows, strict=True)))

    async def read(self, first: int, end: int, room_ids: Sequence[str] | None = None) -> list[RoomHour]:
        """Records of the hours from ``first`` up to and without ``end``, by room and hour. None = all rooms."""
        rows = await self._postgres.fetch_long(QUERIES["hours_read"], first, end, _listed(room_ids))
        return [RoomHour(row["room"], row["gen"], _record(row)) for row in rows]

    async def rooms(self, first: int, end: int, room_ids: Sequence[str] | None = None) -> list[str]:
        """Rooms with records of the hours from ``first`` up to and without ``end``. ``room_ids``: of these only."""
        found: list[str] = []
        while True:
            behind = found[-1] if found else ""
            rows = await self._postgres.fetch_long(
                QUERIES["hours_rooms"], first, end, _listed(room_ids), behind, STEP_ROWS
            )
            found += [row["room"] for row in rows]
            if len(rows) < STEP_ROWS:
                return found

    async def count(self, first: int, end: int, unit: int, room_ids: Sequence[str] | None, limit: int) -> int:
        """How many buckets of ``unit`` hours have records, up to ``limit`` + 1."""
        (row,) = await self._postgres.fetch_long(QUERIES["hours_count"], first, end, unit, _listed(room_ids), limit)
        return int(row[0])

    async def first_hour(self) -> int | None:
        """The oldest hour that is kept."""
        (row,) = await self._postgres.fetch_long(QUERIES["hours_first"])
        return None if row[0] is None else int(row[0])

    async def lives(self, generations: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Life]:
        """When rooms' generations began and ended, of those that the journal knows."""
        rooms, gens = [room for room, _ in generations], [gen for _, gen in generations]
        rows = await self._postgres.fetch_long(QUERIES["hours_lives"], rooms, gens)
        return {(row["room"], row["gen"]): Life(row["created_at"], row["deleted_at"]) for row in rows}

    async def drop(self, before: int) -> bool:
        """Delete some records of hours before ``before``; True = there may be more."""
        return bool(await self._postgres.execute(QUERIES["hours_drop"], before) == "DELETE 1000")


def _columns(record: HourRecord) -> tuple[Any, ...]:
    return (
        record.hour, record.since, record.covered_ms, record.joins, record.passes, record.peak_depth,
        record.peak_active, record.samples, record.depth_sum, record.blocked, record.warned, record.waits,
        record.wait_sum_ms, record.wait_max_ms, b"".join(_WAIT.pack(*pair) for pair in record.kept),
    )  # fmt: skip


def _record(row: Any) -> HourRecord:
    names = [name for name in HourRecord.__slots__ if name != "kept"]
    kept = tuple(_WAIT.iter_unpack(row["kept"]))
    return HourRecord(**{name: row[name] for name in names}, kept=kept)


def _listed(room_ids: Sequence[str] | None) -> list[str] | None:
    return None if room_ids is None else list(room_ids)
