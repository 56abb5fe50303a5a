"""Saying that many visitor tokens of a room are refused: a wrong signing key or clock shows itself like this first.

Source: ENG-094. Not here: counting for metrics (visitor_counts.py).
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from app.core.clock import wall_ms
from app.core.errors import StorageUnavailable
from app.domain.tokens import Cause
from app.infrastructure.refused_tokens import MANY, RefusedTokens

GATHER_SEC: Final = 1.0
"""Refusals are told to the other processes at most once in this time: a flood of bad tokens costs one trip a second."""

log = structlog.get_logger(__name__)


class ManyRefused:
    """Watches the refusals of one process together with those of all others."""

    def __init__(self, store: RefusedTokens) -> None:
        self._store = store
        self._times: dict[str, list[int]] = {}
        self._causes: dict[str, Cause] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, room_id: str, cause: Cause) -> None:
        """A token of ``room_id``, a room that exists, was refused. Costs no trip."""
        times = self._times.setdefault(room_id, [])
        if len(times) == MANY:
            del times[0]
        times.append(wall_ms())
        self._causes[room_id] = cause
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._tell(), name="refused-tokens")

    async def stop(self) -> None:
        """Say nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _tell(self) -> None:
        while self._times:
            await asyncio.sleep(GATHER_SEC)
            times, self._times = self._times, {}
            causes, self._causes = self._causes, {}
            try:
                for room_id in times:
                    await self._tell_of(room_id, times[room_id], causes[room_id])
            except StorageUnavailable:
                log.debug("refusals_not_told")
            except Exception:
                log.exception("refusals_not_told")
        self._task = None

    async def _tell_of(self, room_id: str, times: list[int], cause: Cause) -> None:
        if await self._store.add(room_id, times):
            log.warning("many tickets rejected: signing key or clock?", room=room_id, cause=str(cause))
