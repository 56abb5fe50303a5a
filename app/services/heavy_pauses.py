"""Rest of heavy work while the machine has no CPU to spare (BUD-077).

Not here: what contention is (domain/contention.py) and who finds it (cpu_watch.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from app.core.clock import mono

Rest = Callable[[], Awaitable[None]]
"""Awaited between the steps of work that can wait."""
PAUSE_MAX_SEC: Final = 300.0
WORK_SEC: Final = 30.0
"""After the longest pause work goes on for so long before it rests again."""
LOOK_SEC: Final = 1.0


class HeavyPauses:
    """Asked between the steps of a piece of work."""

    def __init__(
        self,
        is_contended: Callable[[], bool],
        *,
        show: Callable[[bool], None] = lambda _: None,
        now: Callable[[], float] = mono,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """``show`` is told whether anything rests; ``now``: seconds of a clock that only goes forward."""
        self._is_contended = is_contended
        self._show = show
        self._now = now
        self._sleep = sleep
        self._free_until = now()
        self._resting = 0

    async def let_pass(self) -> None:
        """Return at once without contention, else when it is over or has lasted for PAUSE_MAX_SEC."""
        began = self._now()
        if began < self._free_until or not self._is_contended():
            return
        self._count(1)
        try:
            while self._is_contended():
                await self._sleep(LOOK_SEC)
                if self._now() - began >= PAUSE_MAX_SEC:
                    self._free_until = self._now() + WORK_SEC
                    return
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        self._resting += more
        self._show(self._resting > 0)


async def never() -> None:
    """The rest of what never rests."""
