"""The leader blanks readable visitor addresses in the journal that are older than QM_ADDRESS_RETAIN_DAYS (FLT-150)."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from app.core.clock import wall_ms
from app.core.ids import EpochMs
from app.infrastructure.address_store import AddressStore
from app.services.heavy_pauses import Rest, never
from app.services.leadership import Term

EVERY_SEC: Final = 3600.0
REST_SEC: Final = 0.02
"""Pause after a step: a long journal is not to keep Postgres from its commits."""
DAY_MS: Final = 86_400_000

log = structlog.get_logger(__name__)


class OldAddresses:
    """The duty. ``days``: QM_ADDRESS_RETAIN_DAYS, not 0."""

    name = "old_addresses"

    def __init__(self, store: AddressStore, *, days: int, rest: Rest = never) -> None:
        """``rest`` is awaited before each step."""
        self._store = store
        self._rest = rest
        self._days = days

    async def run(self, term: Term) -> None:
        """Blank every hour until the term is over."""
        while True:
            await self.round(term)
            await asyncio.sleep(EVERY_SEC)

    async def round(self, term: Term) -> None:
        """Blank everything that is too old now."""
        before = EpochMs(wall_ms() - self._days * DAY_MS)
        for history in await self._store.histories():
            await self._rest()
            term.check()
            steps = 0
            while await self._store.blank(history, before):
                steps += 1
                await asyncio.sleep(REST_SEC)
                await self._rest()
                term.check()
            if steps:
                log.info("addresses_blanked", room=history.room, generation=history.gen, steps=steps)
