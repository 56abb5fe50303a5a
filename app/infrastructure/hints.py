"""Hints of other processes, each handed to the handler of its kind without keeping the next one waiting.

A handler that waits for a store holds up only further hints of the very same text: one of these is kept, since what it
would read is what the others would read. Not here: sending, and the resync that makes up for a lost hint
(room_directory.py). Source: ADM-104, FLT-031.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from app.core.errors import StorageUnavailable

HINTS_MAX: Final = 4096
"""Hints under way at once; what comes beyond is left to the resync."""

HintHandler = Callable[[str], Awaitable[None] | None]

log = structlog.get_logger(__name__)


class Hints:
    """Handlers by kind, and what they are at."""

    def __init__(self) -> None:
        self._handlers: dict[str, HintHandler] = {}
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._again: set[tuple[str, str]] = set()

    def on(self, kind: str, handler: HintHandler) -> None:
        """Call ``handler`` with the text of each hint of ``kind``."""
        self._handlers[kind] = handler

    def hear(self, body: bytes) -> None:
        """Take ``kind text``; returns before it is handled. Kinds nobody handles are ignored."""
        kind, _, text = body.decode(errors="replace").partition(" ")
        hint = kind, text
        if kind not in self._handlers:
            return
        if hint in self._running:
            self._again.add(hint)  # what runs may have read before what this one tells of
        elif len(self._running) < HINTS_MAX:
            self._running[hint] = asyncio.get_running_loop().create_task(self._handle(hint))
        else:
            log.warning("hint_left_to_the_resync", kind=kind)

    async def stop(self) -> None:
        """End what is under way."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _handle(self, hint: tuple[str, str]) -> None:
        try:
            await self._call(*hint)
            while hint in self._again:
                self._again.discard(hint)
                await self._call(*hint)
        finally:
            self._again.discard(hint)
            del self._running[hint]  # at once, so that no hint is kept for a task that has looked its last

    async def _call(self, kind: str, text: str) -> None:
        try:
            done = self._handlers[kind](text)
            if done is not None:
                await done
        except StorageUnavailable:
            log.warning("hint_not_handled", kind=kind)
        except Exception:
            log.exception("hint_handler_failed", kind=kind)
