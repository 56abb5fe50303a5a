"""The leader deletes marks of the timeline that are older than a day (ADM-196)."""

from __future__ import annotations

import asyncio
from typing import Final

from app.core.clock import wall_ms
from app.infrastructure.notes_store import KEPT_MS, NotesStore
from app.services.heavy_pauses import Rest, never
from app.services.leadership import Term

EVERY_SEC: Final = 300.0


class OldMarks:
    """The duty."""

    name = "old_marks"

    def __init__(self, store: NotesStore, rest: Rest = never) -> None:
        """``rest`` is awaited before each step."""
        self._store = store
        self._rest = rest

    async def run(self, term: Term) -> None:
        """Delete every few minutes until the term is over."""
        while True:
            await self._rest()
            term.check()
            if not await self._store.drop_marks(wall_ms() - KEPT_MS):
                await asyncio.sleep(EVERY_SEC)
