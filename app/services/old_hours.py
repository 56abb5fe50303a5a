"""The leader deletes rows of reports that are older than HISTORY_RETAIN_DAYS (FLT-117, OBS-160)."""

from __future__ import annotations

import asyncio
from typing import Final

from app.core.clock import wall_ms
from app.domain.hour_record import HOUR_MS
from app.infrastructure.hour_store import HourStore
from app.services.heavy_pauses import Rest, never
from app.services.leadership import Term

EVERY_SEC: Final = 1800.0


class OldHours:
    """The duty."""

    name = "old_hours"

    def __init__(self, store: HourStore, *, days: int, rest: Rest = never) -> None:
        """``rest`` is awaited before each step."""
        self._store = store
        self._rest = rest
        self._days = days

    async def run(self, term: Term) -> None:
        """Delete now and then until the term is over."""
        while True:
            await self._rest()
            term.check()
            if not await self._store.drop(wall_ms() // HOUR_MS - self._days * 24):
                await asyncio.sleep(EVERY_SEC)
