"""Answers of ``GET /api/admin/history``: the points of charts, a room at a time (ADM-193, ADM-194).

All rooms of a big deployment are a hundred megabytes, so the answer is made in pieces. Not here: measuring
(sampler.py), HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final

import ujson

from app.core.errors import NoRoom, StorageUnavailable, camel
from app.core.ids import RoomId
from app.domain.chart import STEP_SEC, SUM, Point, points_of
from app.domain.csv_text import csv_line, iso_time
from app.infrastructure.chart_store import ChartStore
from app.infrastructure.room_directory import RoomDirectory

MEMBERS: Final = tuple(camel(name) for name in Point._fields)
COLUMNS: Final = ("roomId", "ts", "tsIso", *MEMBERS[1:])
ROOMS_A_PIECE: Final = 10

_Charts = AsyncIterator[tuple[str, list[Point]]]


class History:
    """Charts of this deployment's rooms. Raises NoRoom, StorageUnavailable."""

    def __init__(self, *, rooms: RoomDirectory, store: ChartStore) -> None:
        self._rooms = rooms
        self._store = store

    async def json(self, room_id: str | None) -> AsyncGenerator[str]:
        """The JSON text of one room's chart, of all rooms together (SUM), or of each of them (None), in pieces."""
        charts = await self._asked(room_id)
        yield f'{{"stepSec":{STEP_SEC},"rooms":{{'
        glue = ""
        async for room, points in charts:
            objects = [dict(zip(MEMBERS, point, strict=True)) for point in points]
            yield f"{glue}{ujson.dumps(room)}:{ujson.dumps(objects)}"
            glue = ","
        yield "}}"

    async def csv(self, room_id: str | None) -> AsyncGenerator[str]:
        """The same as a file, in pieces."""
        charts = await self._asked(room_id)
        yield csv_line(COLUMNS)
        async for room, points in charts:
            yield "".join(csv_line((room, point.ts, iso_time(point.ts), *point[1:])) for point in points)

    async def _asked(self, room_id: str | None) -> _Charts:
        return self._sum() if room_id == SUM else self._charts(await self._named(room_id))

    async def _named(self, room_id: str | None) -> list[tuple[RoomId, int]]:
        if room_id is None:
            rooms = self._rooms.all()
            if not rooms and not self._rooms.is_loaded:
                raise StorageUnavailable
            return [(room.id, room.generation) for room in rooms]
        room = await self._rooms.find(room_id)
        if room is None:
            raise NoRoom
        return [(room.id, room.generation)]

    async def _sum(self) -> _Charts:
        now = await self._store.now_ms()
        yield SUM, points_of(await self._store.ring_of_sum(), now)

    async def _charts(self, rooms: Sequence[tuple[RoomId, int]]) -> _Charts:
        for start in range(0, max(1, len(rooms)), ROOMS_A_PIECE):
            some = rooms[start : start + ROOMS_A_PIECE]
            now = await self._store.now_ms()
            for (room_id, _), ring in zip(some, await self._store.rings(some), strict=True):
                yield room_id, points_of(ring, now)
                await asyncio.sleep(0)
