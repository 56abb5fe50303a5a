"""Leaving others their share of the live store during long work that goes in slices."""

from __future__ import annotations

import asyncio
from typing import Final

from app.core.clock import mono

REST_MAX_SEC: Final = 0.005
"""A slice is a few ms; one that took longer had itself to wait for others."""


async def rest(began: float) -> None:
    """Rest as long as the slice took that began at ``began`` (``mono()``), so that long work takes half the store."""
    await asyncio.sleep(min(mono() - began, REST_MAX_SEC))
