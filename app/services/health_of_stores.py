"""What ``GET /api/admin/health`` tells of the stores, the seals of the audit trail, memory and clock.

Not here: the answer as a whole (admin_health.py), how the instance stands (standing.py). Source: OBS-032, OBS-036.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from app.core import metrics
from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.core.runtime import Runtime
from app.infrastructure.journal_size import JournalSize
from app.infrastructure.memory_limits import container_limit
from app.infrastructure.metric_book import MetricBook, signed
from app.infrastructure.postgres import Postgres
from app.infrastructure.seal_store import SealState, SealStore
from app.services.recovery_notes import read_notes
from app.services.room_object import RoomView
from app.services.standing import Stand

CLOCK_OFF_SEC: Final = 5.0
POSTGRES_TRIAL_SEC: Final = 1.0
SEALS_SEC: Final = 60.0


class HealthOfStores:
    """Blocks about what this instance stands on."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        book: MetricBook,
        postgres: Postgres,
        seals: SealStore | None,
        now: Callable[[], int],
    ) -> None:
        """``seals``: of the audit trail; None: nothing is told of them. ``now``: wall clock in epoch ms."""
        self._runtime = runtime
        self._book = book
        self._postgres = postgres
        self._seals = seals
        self._seals_read_at = -SEALS_SEC
        self.last_seals = SealState()
        """As they were last read."""
        self._now = now

    async def try_postgres(self) -> str:
        """``up`` or ``down``: it is asked, because nothing else tells an idle server."""
        try:
            await asyncio.wait_for(self._postgres.fetchval("SELECT 1"), POSTGRES_TRIAL_SEC)
        except (StorageUnavailable, TimeoutError):
            return "down"
        return "up"

    async def seal_state(self) -> SealState:
        """What is known of the seals of the audit trail; nothing while Postgres is away."""
        if self._seals is None:
            return SealState()
        self._seals_read_at = mono()
        try:
            self.last_seals = await asyncio.wait_for(self._seals.state(), POSTGRES_TRIAL_SEC)
        except (StorageUnavailable, TimeoutError):
            return SealState()
        return self.last_seals

    async def refresh_seals(self) -> None:
        """Read them anew if that was not done lately."""
        if mono() - self._seals_read_at >= SEALS_SEC:
            await self.seal_state()

    def storage_block(
        self, stand: Stand, postgres: str, views: Sequence[RoomView] | None, size: JournalSize
    ) -> dict[str, Any]:
        """``storage``: what was committed, what waits for it, what went wrong."""
        book = self._book
        error_at, oldest = book.latest(metrics.LAST_ERROR_AT), book.latest(metrics.OLDEST_AT)
        figures = [view.figures for view in views or () if view.figures is not None]
        return {
            "ok": stand.storage_ok and postgres == "up",
            "writeErrors": book.total(metrics.WRITE_ERRORS),
            "lastError": book.text("storage_error") or None,
            "lastErrorAt": error_at or None,
            "lastCommitAt": book.latest(metrics.LAST_COMMIT_AT) or None,
            "pendingEvents": sum(max(0, room.seq - room.committed) for room in figures) if views is not None else None,
            "oldestPendingMs": max(0, self._now() - oldest) if oldest else 0,
            "databaseBytes": size.database_bytes,
            "journalRowsPerHour": size.rows_per_hour,
        }

    def backend_block(self, stand: Stand, postgres: str) -> dict[str, Any]:
        """``backend``: the live store and the rooms that are being rebuilt."""
        book = self._book
        ids = [one.room_id for one in stand.incidents if one.code == "room_recovering"]
        policy = book.text("valkey_policy")
        ahead, failed = read_notes(book)
        return {
            "store": self._runtime.settings.store,
            "valkey": stand.valkey,
            "recoveringRooms": len(ids),
            "recoveringRoomIds": ids,
            "ok": stand.valkey == "up" and not ids,
            "valkeyEverConnected": stand.valkey_ever_connected,
            "maxmemoryPolicy": policy or None,
            "usedMemoryBytes": book.latest(metrics.VALKEY_USED) or None,
            "maxMemoryBytes": book.latest(metrics.VALKEY_MAX) or None,
            "postgres": postgres,
            "aheadRooms": [one.to_json() for one in ahead],
            "failedRebuilds": [{"roomId": room, "reason": reason} for room, reason in failed.items()],
            **({"stale": True} if stand.valkey == "down" else {}),
        }

    def memory_block(self) -> dict[str, Any]:
        """``memory`` of all processes of the instance."""
        return {"rssBytes": self._book.total(metrics.MEMORY) or None, "limitBytes": container_limit()}

    def clock_block(self) -> dict[str, Any]:
        """``clock``: its last jump, and how far it is from the live store's."""
        book = self._book
        at = book.latest(metrics.JUMP_AT)
        return {
            "lastJumpAt": at or None,
            "lastJumpMs": signed(book.latest(metrics.JUMP_MS)) if at else None,
            "offsetFromValkeyMs": signed(book.latest(metrics.CLOCK_OFFSET)) if book.has(metrics.CLOCK_OFFSET) else None,
        }


def audit_block(seals: SealState) -> dict[str, Any]:
    """``audit``: how far the trail is sealed, and whether the seals still fit (ADM-299)."""
    return {
        "sealedTo": seals.sealed_to,
        "sealedAt": seals.sealed_at,
        "seal": None if seals.digest is None else seals.digest.hex(),
        "ok": None if seals.checked_at is None else seals.bad_from is None,
    }


def audit_warnings(seals: SealState) -> list[str]:
    """What is said of a trail that does not fit its seals."""
    if seals.bad_from is None:
        return []
    return [f"The audit trail was changed: from id {seals.bad_from} on it does not fit its seals."]


def clock_warnings(book: MetricBook) -> list[str]:
    """What is said of a wall clock that is not that of Valkey (FLT-130)."""
    off_sec = signed(book.latest(metrics.CLOCK_OFFSET)) / 1000 if book.has(metrics.CLOCK_OFFSET) else 0.0
    if abs(off_sec) <= CLOCK_OFF_SEC:
        return []
    return [f"clock of this instance differs from Valkey's by {abs(off_sec):.0f} s"]
