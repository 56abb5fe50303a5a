"""Keeps the last part of Valkey's memory for those who have a place: above the mark nobody new gets one (FLT-147).

So a flood of joins ends in refused joins, and never in an outage on which tags and connectors let everybody in.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import structlog

from app.core.errors import StorageUnavailable
from app.infrastructure.memory_limits import Commands, part_in_use

LOOK_SEC: Final = 5.0
FULL_AT: Final = 0.85
ROOM_AGAIN_BELOW: Final = 0.80

log = structlog.get_logger(__name__)


class MemoryGuard:
    """One process's view of how full Valkey is."""

    def __init__(self, valkey: Commands, *, container_limit: int | None = None) -> None:
        """``container_limit``: bytes that this container may use, for a Valkey that runs in it too."""
        self._valkey = valkey
        self._container_limit = container_limit
        self._task: asyncio.Task[None] | None = None
        self.is_short = False
        """True while nobody new may get a place."""

    async def start(self) -> None:
        """Look now, and every 5 s from now on."""
        await self.look()
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="memory-guard")

    async def stop(self) -> None:
        """End looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """Read how full Valkey is. What it does not tell, or not now, changes nothing."""
        with contextlib.suppress(StorageUnavailable):
            part = await part_in_use(self._valkey, self._container_limit)
            if part is not None:
                self._judge(part)

    def _judge(self, part: float) -> None:
        was_short = self.is_short
        self.is_short = part >= (ROOM_AGAIN_BELOW if was_short else FULL_AT)
        if self.is_short != was_short:
            event = "valkey_short_of_memory" if self.is_short else "valkey_has_memory_again"
            log.warning(event, percent=round(part * 100))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SEC)
            await self.look()
