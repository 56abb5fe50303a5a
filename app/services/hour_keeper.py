"""Keeping what rooms did in each hour: a duty of the leader, so that reports outlive the live store (ENG-237).

The live store has the running hour and those before it until they are kept; the running one is kept once a minute, so
that a loss of the live store costs the counts of a minute at most. Not here: reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from app.core.clock import mono
from app.core.ids import RoomId
from app.domain.hour_record import HourRecord
from app.infrastructure.hour_store import HourStore, LiveHours, RoomHour
from app.infrastructure.room_directory import RoomDirectory
from app.services.leadership import Term

EVERY_SEC: Final = 60.0
ROOMS_A_TRIP: Final = 50

_Counts = tuple[int, ...]


class HourKeeper:
    """The duty; ``keep_last`` is also what a deletion does first."""

    name = "hours"

    def __init__(self, *, rooms: RoomDirectory, live: LiveHours, store: HourStore) -> None:
        self._rooms = rooms
        self._live = live
        self._store = store
        self._kept: dict[tuple[str, int, int, int], _Counts] = {}
        self._over: dict[RoomId, list[int]] = {}

    async def run(self, term: Term) -> None:
        """Keep the hours of all rooms once a minute until the term is over."""
        while True:
            began = mono()
            await self.keep_all(term)
            await asyncio.sleep(max(0.0, began + EVERY_SEC - mono()))

    async def keep_all(self, term: Term) -> None:
        """Keep what is new of every room; also what a leader does last, so that a stop costs no counts (CFG-192)."""
        rooms = [room.id for room in self._rooms.all()]
        for start in range(0, len(rooms), ROOMS_A_TRIP):
            term.check()
            await self.keep(rooms[start : start + ROOMS_A_TRIP])
        self._forget(rooms)

    async def keep(self, room_ids: Sequence[RoomId]) -> None:
        """Keep what is new of these rooms. Raises StorageUnavailable; what was not kept is kept the next time."""
        found = await self._live.read(room_ids, self._over)
        news = [hour for hours in found.values() for hour in hours if self._is_news(hour, hours[0])]
        await self._store.keep(news)
        for hour in news:
            self._kept[_key(hour)] = _counts(hour.record)
        for room_id, hours in found.items():
            # The hour before the running one stays: the waits of the last sixty minutes are partly its.
            self._over[room_id] = [
                hour.record.hour for hour in hours[1:] if hour.record.hour < hours[0].record.hour - 1
            ]

    async def keep_last(self, room_id: RoomId) -> None:
        """Keep the hours of a room that is about to end. Raises StorageUnavailable."""
        await self.keep([room_id])
        self._forget([])

    def _is_news(self, hour: RoomHour, running: RoomHour) -> bool:
        """Idle minutes of a running hour need not be written; its end writes how much of it was covered."""
        known = self._kept.get(_key(hour))
        counts = _counts(hour.record)
        return known is None or (known[1:] if hour is running else known) != (counts[1:] if hour is running else counts)

    def _forget(self, rooms: Sequence[RoomId]) -> None:
        """Of rooms that are gone, and of hours that nobody asks about again."""
        latest = {(room, gen): 0 for room, gen, _, _ in self._kept}
        for room, gen, hour, _ in self._kept:
            latest[room, gen] = max(latest[room, gen], hour)
        alive = set(rooms)
        self._kept = {
            key: counts
            for key, counts in self._kept.items()
            if key[0] in alive and key[2] >= latest[key[0], key[1]] - 1
        }
        self._over = {room: hours for room, hours in self._over.items() if room in alive}


def _key(hour: RoomHour) -> tuple[str, int, int, int]:
    return (hour.room_id, hour.generation, hour.record.hour, hour.record.since)


def _counts(record: HourRecord) -> _Counts:
    return (
        record.covered_ms, record.joins, record.passes, record.waits, record.depth_sum, record.peak_depth,
        record.peak_active, record.blocked, record.warned,
    )  # fmt: skip
