"""Turns that others get on the loop while something long is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest


@dataclass(slots=True)
class Turns:
    """Pieces of work done in all, and at most between two turns of a visitor's request."""

    pieces: int = 0
    at_once: int = 0
    _since: int = 0

    def work(self) -> None:
        """Note a piece of work."""
        self.pieces += 1
        self._since += 1
        self.at_once = max(self.at_once, self._since)

    def turn(self) -> None:
        """Note that somebody else had his turn."""
        self._since = 0


@asynccontextmanager
async def visitors_beside(monkeypatch: pytest.MonkeyPatch, module: ModuleType, piece: str) -> AsyncIterator[Turns]:
    """See how the calls of ``piece`` in ``module`` leave others their turns, however fast the machine is."""
    turns = Turns()
    original: Callable[..., Any] = getattr(module, piece)

    def counted(*args: Any, **named: Any) -> Any:
        turns.work()
        return original(*args, **named)

    async def visitor() -> None:
        while True:
            await asyncio.sleep(0)
            turns.turn()

    beside = asyncio.ensure_future(visitor())
    with monkeypatch.context() as patched:
        patched.setattr(module, piece, counted)
        try:
            yield turns
        finally:
            beside.cancel()
