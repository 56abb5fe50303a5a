"""Rest of heavy work while the machine has no CPU to spare (BUD-077).

Not here: what contention is (domain/contention.py) and who finds it (cpu_watch.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from app.core.clock import mono

Rest = Callable[[], Awaitable[None]]
"""Awaited between the steps of work that can wait."""
LOOK_SEC: Final = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How work goes on while there is no CPU to spare: a tenth of the time, in stretches of its own length."""

    rest_sec: float
    """Longest rest at a time."""
    work_sec: float
    """After such a rest work goes on for so long before it rests again."""


OWN: Final = Pace(rest_sec=300.0, work_sec=30.0)
"""Of work for which nobody waits."""
ASKED: Final = Pace(rest_sec=4.0, work_sec=0.4)
"""Of work whose asker waits behind proxies that end a silent answer after 30 or 60 s. As many pieces as have a place
take turns, so each is silent for a few rests in a row."""


class HeavyPauses:
    """Asked between the steps of a piece of work."""

    def __init__(
        self,
        is_contended: Callable[[], bool],
        pace: Pace = OWN,
        *,
        show: Callable[[bool], None] = lambda _: None,
        now: Callable[[], float] = mono,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """``show`` is told whether anything rests; ``now``: seconds of a clock that only goes forward."""
        self._is_contended = is_contended
        self._pace = pace
        self._show = show
        self._now = now
        self._sleep = sleep
        self._free_until = now()
        self._resting = 0

    async def let_pass(self) -> None:
        """Return at once without contention, else when it is over or the rest has lasted long enough."""
        began = self._now()
        if began < self._free_until or not self._is_contended():
            return
        self._count(1)
        try:
            while self._is_contended():
                await self._sleep(LOOK_SEC)
                if self._now() - began >= self._pace.rest_sec:
                    self._free_until = self._now() + self._pace.work_sec
                    return
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        self._resting += more
        self._show(self._resting > 0)


async def never() -> None:
    """The rest of what never rests."""
