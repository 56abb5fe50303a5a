"""One timer for the deadlines of all exchanges of a process: none of them costs a timer of its own."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

EVERY_SEC: Final = 0.25


class Expiring(Protocol):
    """What is watched."""

    def expire(self, now: float) -> None:
        """Look whether it is over time; ``now``: the loop's clock."""


class Sweeper:
    """Looks at everything watched, four times a second while there is something."""

    __slots__ = ("_timer", "_watched")

    def __init__(self) -> None:
        self._watched: set[Expiring] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many are watched."""
        return len(self._watched)

    def watch(self, one: Expiring) -> None:
        """Look at it from now on."""
        self._watched.add(one)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_SEC, self._sweep)

    def forget(self, one: Expiring) -> None:
        """Look at it no longer."""
        self._watched.discard(one)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        now = loop.time()
        for one in tuple(self._watched):
            one.expire(now)
        if self._watched:
            self._timer = loop.call_later(EVERY_SEC, self._sweep)
