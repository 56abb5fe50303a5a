"""Leaving others their share of the live store, or of a worker, during long work that goes in slices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

from app.core.clock import mono

REST_MAX_SEC: Final = 0.005
"""A slice is a few ms; one that took longer had itself to wait for others."""


_T = TypeVar("_T")


async def rest(began: float) -> None:
    """Rest as long as the slice took that began at ``began`` (``mono()``): long work takes half of what it uses."""
    await asyncio.sleep(min(mono() - began, REST_MAX_SEC))


async def in_turns(things: Iterable[_T], size: int) -> AsyncIterator[_T]:
    """``things`` one by one, for work that takes a while with each, with a ``rest`` after every ``size`` of them."""
    began = mono()
    for number, thing in enumerate(things, 1):
        yield thing
        if number % size == 0:
            await rest(began)
            began = mono()
