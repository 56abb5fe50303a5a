"""Turns of saves that rest on other rooms: over the whole fleet, one is judged and stored after the other."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.infrastructure.keys import inline_turn_key
from app.infrastructure.lua_loader import LuaLoader

TURN_MS: Final = 15_000
"""The turn of a process that has died ends by itself after this."""
WAIT_SEC: Final = 20.0
ASK_SEC: Final = 0.02


class InlineTurn:
    """Two rooms of one host that are saved at the same moment would each be judged without the other (INL-011)."""

    def __init__(self, loader: LuaLoader, prefix: str) -> None:
        self._loader = loader
        self._key = inline_turn_key(prefix)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Wait for the turn and keep it. Raises StorageUnavailable, also when it does not come."""
        holder = secrets.token_hex(8)
        end = mono() + WAIT_SEC
        while (await self._loader.call("lease_take", self._key, holder, TURN_MS))[1] != 1:
            if mono() >= end:
                raise StorageUnavailable
            await asyncio.sleep(ASK_SEC)
        try:
            yield
        finally:
            with contextlib.suppress(StorageUnavailable):
                await self._loader.call("lease_give", self._key, holder)
