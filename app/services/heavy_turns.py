"""Turns of the work that people ask an instance for: one piece at a time, a few wait, more are refused (BUD-076).

Not here: what the work is (heavy_works.py), when it rests (heavy_pauses.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Final

from app.core import metrics
from app.core.clock import mono
from app.core.errors import QmError
from app.infrastructure.metric_book import MetricBook

WAITING_MAX: Final = 4
PATIENCE_SEC: Final = 0.25
"""How long a piece keeps its turn while whoever asked takes nothing."""
SHARE_SEC: Final = 1.0
"""How long a piece keeps its turn while others wait for theirs: none may leave its asker without a byte for long."""
RETRY_AFTER_SEC: Final = 10


class Busy(QmError):
    """429 ``busy``: one piece of heavy work runs, and as many wait as may."""

    status = 429
    code = "busy"
    sentence = "This server is at work on other exports and long reports. Try again shortly."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": str(RETRY_AFTER_SEC)})


class HeavyTurns:
    """Hands out turns, in the order in which they were asked for."""

    def __init__(self, book: MetricBook) -> None:
        """``book``: where health and metrics read what runs."""
        self._book = book
        self._lock = asyncio.Lock()
        self._inside = 0
        self._running = 0

    @property
    def inside(self) -> int:
        """Pieces that run or wait."""
        return self._inside

    @property
    def is_idle(self) -> bool:
        """Nobody has the turn: all who are inside wait for those who asked them."""
        return not self._lock.locked()

    @asynccontextmanager
    async def place(self, kind: str) -> AsyncIterator[Turn]:
        """A place, held until the block ends; entered when it is this piece's turn. Raises Busy."""
        if self._inside > WAITING_MAX:
            raise Busy
        self._inside += 1
        turn = Turn(self, kind)
        try:
            self.show()
            await turn.take()
            yield turn
        finally:
            turn.give()
            self._inside -= 1
            self.show()

    def show(self) -> None:
        """Tell the other processes how many wait."""
        self._book.put(metrics.HEAVY_WAITING, max(0, self._inside - self._running))


class Turn:
    """The turn of one piece of work."""

    def __init__(self, turns: HeavyTurns, kind: str) -> None:
        self._turns = turns
        self._kind = kind
        self._began: float | None = None
        """Since when it has its turn."""

    async def take(self) -> None:
        """Wait for the turn."""
        turns = self._turns
        await turns._lock.acquire()
        turns._running = 1
        self._began = mono()
        turns._book.put(metrics.HEAVY_RUNNING, 1, self._kind)
        turns.show()

    def give(self) -> None:
        """Give it to the next one; nothing when this piece does not have it."""
        turns = self._turns
        if self._began is None:
            return
        self._began = None
        turns._running = 0
        turns._book.put(metrics.HEAVY_RUNNING, 0, self._kind)
        turns._lock.release()
        turns.show()

    async def share(self) -> None:
        """Between two steps: let the others have their turn, once this piece has had its own for a while."""
        if self._turns.inside > 1 and self._began is not None and mono() - self._began >= SHARE_SEC:
            self.give()
            await self.take()

    async def outlast(self, taking: Awaitable[None]) -> None:
        """Wait for whoever asked to take what was made; when that takes long, others have the turn meanwhile."""
        waiting = asyncio.ensure_future(taking)
        try:
            if not (await asyncio.wait({waiting}, timeout=PATIENCE_SEC))[0]:
                self.give()
                await waiting
                await self.take()
        finally:
            waiting.cancel()
        await waiting
