"""What bot protection refused, as marks of the timeline: one a room and minute (ADM-197). A duty of the leader.

How far a room's count was told is kept in the live store beside the count, so a new leader tells neither twice. Not
here: counting (visitor_counts.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from app.core.ids import RoomId
from app.domain.notes import blocked_note
from app.infrastructure.block_counts import BlockCounts
from app.infrastructure.notes_store import NotesStore
from app.infrastructure.room_directory import RoomDirectory
from app.services.leadership import Term

MINUTE_MS: Final = 60_000
LATE_MS: Final = 3000
"""Counts of web workers come this late at most."""


class BlockMarks:
    """The duty."""

    name = "block_marks"

    def __init__(self, *, rooms: RoomDirectory, counts: BlockCounts, notes: NotesStore) -> None:
        self._rooms = rooms
        self._counts = counts
        self._notes = notes

    async def run(self, term: Term) -> None:
        """Tell of each minute when it is over, until the term is."""
        while True:
            into = (await self._counts.now_ms() - LATE_MS) % MINUTE_MS
            await asyncio.sleep((MINUTE_MS - into) / 1000)
            await self.tell(term, await self._counts.now_ms() - LATE_MS)

    async def tell(self, term: Term, now_ms: int) -> None:
        """Marks for the minute before the one of ``now_ms``. Raises TermOver, Overtaken, StorageUnavailable."""
        minute = (now_ms // MINUTE_MS - 1) * MINUTE_MS
        rooms = [(room.id, int(room.generation)) for room in self._rooms.all()]
        news = await self._counts.news(rooms)
        for room_id, number in news.items():
            term.check()
            await self._notes.add_mark(room_id, blocked_note(minute, number))
        await self._counts.told(term.check(), rooms, gone=await self._gone(rooms))

    async def _gone(self, rooms: Sequence[tuple[RoomId, int]]) -> set[str]:
        return await self._counts.known() - {room_id for room_id, _ in rooms}
