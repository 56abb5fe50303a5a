"""The leader seals the audit trail every minute and compares seals and trail every hour (ADM-299)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from app.core.clock import mono
from app.infrastructure.seal_store import SealStore
from app.services.leadership import Term

EVERY_SEC: Final = 60.0
CHECK_EVERY_SEC: Final = 3600.0

log = structlog.get_logger(__name__)


class AuditSeals:
    """The duty."""

    name = "audit_seals"

    def __init__(self, store: SealStore, *, now: Callable[[], int]) -> None:
        """``now``: wall clock in epoch ms."""
        self._store = store
        self._now = now
        self._check_at = mono()

    async def run(self, term: Term) -> None:
        """Seal and compare until the term is over; the first comparison at once."""
        while True:
            await self.work(term.check)
            await asyncio.sleep(EVERY_SEC)

    async def work(self, check_in: Callable[[], object]) -> None:
        """One round. ``check_in`` may raise to end it."""
        check_in()
        while await self._store.seal(self._now()):
            check_in()
        if mono() < self._check_at:
            return
        bad_from = await self._store.check(check_in)
        await self._store.note_checked(self._now(), bad_from)
        self._check_at = mono() + CHECK_EVERY_SEC
        if bad_from is not None:
            log.error("audit_trail_was_changed", first_id=bad_from)
