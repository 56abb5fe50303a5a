"""Turns that others get on the loop while something long is made."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def visitors_beside() -> AsyncIterator[list[float]]:
    """Processor time between two turns of a visitor's requests, s.

    By the processor's clock of this thread, and without the collector that sees all other tests' objects too.
    """
    gaps = [0.0]

    async def visitor() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - before)
            before = time.thread_time()

    gc.collect()
    gc.disable()
    beside = asyncio.ensure_future(visitor())
    try:
        yield gaps
    finally:
        gc.enable()
        beside.cancel()
