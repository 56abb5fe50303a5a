"""Waiting for something to become true, with a deadline and no fixed sleeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

DEADLINE_SEC = 20.0


async def until(claim: Callable[[], object], *, deadline_sec: float = DEADLINE_SEC) -> None:
    """Return when ``claim()`` holds; AssertionError at the deadline."""
    end = time.monotonic() + deadline_sec
    while not claim():
        assert time.monotonic() < end, "it did not become true in time"
        await asyncio.sleep(0.01)


def until_sync(claim: Callable[[], object], *, deadline_sec: float = DEADLINE_SEC) -> None:
    """``until`` for a test without an event loop."""
    end = time.monotonic() + deadline_sec
    while not claim():
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.01)
