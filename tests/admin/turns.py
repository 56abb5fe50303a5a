"""Turns that others get on the loop while something long is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Turns:
    """How often a visitor's request had its turn."""

    count: int = 0


@asynccontextmanager
async def visitors_beside() -> AsyncIterator[Turns]:
    """Count the turns that are given to others: one after every few pieces of work, however fast the machine is."""
    turns = Turns()

    async def visitor() -> None:
        while True:
            await asyncio.sleep(0)
            turns.count += 1

    beside = asyncio.ensure_future(visitor())
    try:
        yield turns
    finally:
        beside.cancel()
