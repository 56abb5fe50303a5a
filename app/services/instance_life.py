"""What the audit trail says of the life of an instance: that it started, how the run before ended, that it stopped.

Not here: starting and stopping (app/process). Source: CFG-192, CFG-197 … CFG-200, ADM-170, ADM-254 … ADM-256.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from app.core.errors import StorageUnavailable
from app.core.runtime import Runtime
from app.core.version import VERSION
from app.domain.actor import SYSTEM, Actor
from app.infrastructure.audit_store import AuditStore, Entry

AGAIN_SEC: Final = 1.0
LAST_WORD_SEC: Final = 1.0
"""A Postgres that hangs must not keep the instance from ending in time."""
STOPPED: Final = "server.stop"

log = structlog.get_logger(__name__)


class InstanceLife:
    """Writes ``server.start``, ``server.shutdown`` and ``server.stop``. ``now``: wall clock in epoch ms."""

    def __init__(self, audit: AuditStore, runtime: Runtime, *, now: Callable[[], int]) -> None:
        self._audit = audit
        self._runtime = runtime
        self._now = now
        self._me = Actor(SYSTEM, kind=SYSTEM, instance=runtime.instance_id)

    async def tell_start(self) -> None:
        """Once per start of the instance, however often its processes are started again; waits for Postgres."""
        if self._runtime.is_start_told.is_set():
            return
        while True:
            try:
                # A private Postgres has seen this instance alone, whose name may be another at each start.
                before = await self._audit.last_of_life(None if self._runtime.is_private else self._runtime.instance_id)
                await self._audit.add(self._entry("server.start", f"v{VERSION}; {_ended(before)}"))
            except StorageUnavailable:
                await asyncio.sleep(AGAIN_SEC)
            else:
                self._runtime.is_start_told.set()
                return

    async def tell_stop(self, *, is_clean: bool) -> None:
        """The last act of an orderly stop. Without Postgres the line goes to the log instead (ADM-256)."""
        cause = "request" if self._runtime.is_stop_requested.is_set() else "SIGTERM"
        detail = f"shutdown ({cause}), clean"
        if not is_clean:
            detail = (
                f"shutdown ({cause}) WITH STORAGE FAILING: changes since the last good commit are not in the events "
                "journal"
            )
        try:
            async with asyncio.timeout(LAST_WORD_SEC):
                await self._audit.add(self._entry(STOPPED, detail, ok=is_clean))
        except (StorageUnavailable, TimeoutError):
            log.error("stop_not_in_the_audit_trail", detail=detail)  # noqa: TRY400 - the sentence says it all

    async def request_stop(self, actor: Actor, detail: str = "") -> None:
        """Note who asks for a stop, before it begins. A Postgres that is away does not keep a server running."""
        self._runtime.is_stop_requested.set()
        try:
            await self._audit.add(Entry(self._now(), actor, "server.shutdown", detail))
        except StorageUnavailable:
            log.error("shutdown_not_in_the_audit_trail", actor=str(actor))  # noqa: TRY400

    def _entry(self, action: str, detail: str, *, ok: bool = True) -> Entry:
        return Entry(self._now(), self._me, action, detail, ok=ok)


def _ended(before: str | None) -> str:
    """How the run before ended, by the last entry of its life."""
    if before is None:
        return "first run"
    return "previous run: closed cleanly" if before == STOPPED else "previous run: not closed cleanly"
