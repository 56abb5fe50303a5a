"""Audit entries of what is no transaction of its own: sign-ins, sign-outs, locked addresses.

An entry is written before the act is answered where Postgres answers within a second; else it is kept and written as
soon as it can be (ADM-253). Not here: entries of acts that are committed, which stand in the same transaction
(access_store.py, notes_store.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import structlog

from app.core.clock import wall_ms
from app.core.errors import StorageUnavailable
from app.domain.actor import Actor
from app.infrastructure.audit_store import Entry, add_entry
from app.infrastructure.postgres import Postgres

WRITE_SEC: Final = 1.0
"""How long whoever acts waits for his entry."""
AGAIN_SEC: Final = 1.0
AGAIN_MAX_SEC: Final = 15.0
KEPT_MAX: Final = 10_000
"""Entries kept while Postgres is away; what would be more goes to the log alone."""
STOP_SEC: Final = 2.0

log = structlog.get_logger(__name__)


class AuditTrail:
    """Writes entries in the order in which they came."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._kept: deque[Entry] = deque()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.write_errors = 0
        """Attempts that failed."""

    @property
    def kept(self) -> int:
        """Entries that wait to be written."""
        return len(self._kept)

    async def note(
        self, actor: Actor, action: str, detail: str = "", *, room: str | None = None, ok: bool = True
    ) -> None:
        """Write an entry, or keep it: never fails, and returns within about a second."""
        self.note_soon(actor, action, detail, room=room, ok=ok)
        try:
            async with asyncio.timeout(WRITE_SEC):
                await self._write_kept()
        except TimeoutError:
            self._failed()

    def note_soon(
        self, actor: Actor, action: str, detail: str = "", *, room: str | None = None, ok: bool = True
    ) -> None:
        """Write an entry in the background."""
        entry = Entry(wall_ms(), actor, action, detail, room, ok)
        if len(self._kept) >= KEPT_MAX:
            _lost(entry)
            return
        self._kept.append(entry)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_all(), name="audit-trail")

    async def stop(self) -> None:
        """Write what is kept, as far as that can be done in a moment; the rest goes to the log."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=STOP_SEC)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for entry in self._kept:
            _lost(entry)

    async def _write_all(self) -> None:
        pause = AGAIN_SEC
        while self._kept:
            await self._write_kept()
            if self._kept:
                await asyncio.sleep(pause)
                pause = min(pause * 2, AGAIN_MAX_SEC)

    async def _write_kept(self) -> None:
        """Write until nothing is left, or the first failure."""
        async with self._writing:
            while self._kept:
                try:
                    async with self._postgres.acquire() as link:
                        await add_entry(link, self._kept[0])
                except StorageUnavailable:
                    self._failed()
                    return
                except (
                    Exception
                ):  # what Postgres refuses for itself it will never take: the others must not wait for it
                    log.exception("audit_entry_refused")
                    _lost(self._kept[0])
                self._kept.popleft()

    def _failed(self) -> None:
        self.write_errors += 1
        log.warning("audit_entry_not_written", kept=len(self._kept))


def _lost(entry: Entry) -> None:
    log.error("audit_entry_lost", action=entry.action, actor=str(entry.actor), detail=entry.detail)
