"""Page files of all builds that are in use, in the shared store. Source: FLT-137, FLT-151.

Belongs here: keys and commands. Not here: which names may be asked for and whether a file is what its name says
(services/asset_share.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from app.core.clock import wall_ms
from app.infrastructure.keys import page_file_keys
from app.infrastructure.lua_loader import Commands

KEPT_SEC: Final = 7 * 86_400
"""How long a file stays after an instance last said that it hands it out."""
MOST: Final = 64


class PageFiles:
    """Reads and writes. Methods raise StorageUnavailable."""

    def __init__(self, valkey: Commands, prefix: str) -> None:
        self._valkey = valkey
        self._prefix, self._order = page_file_keys(prefix)

    async def put(self, files: Mapping[str, bytes]) -> None:
        """Say that this instance hands out these files; the ones handed out longest ago go beyond MOST."""
        now = wall_ms()
        commands: list[tuple[object, ...]] = []
        for name, body in files.items():
            commands += [("SET", self._prefix + name, body, "EX", KEPT_SEC), ("ZADD", self._order, now, name)]
        await self._valkey.pipeline([*commands, ("EXPIRE", self._order, KEPT_SEC)])
        surplus = await self._valkey.execute("ZRANGE", self._order, 0, -MOST - 1)
        for name in surplus:
            await self.drop(name.decode())

    async def get(self, name: str) -> bytes | None:
        """The bytes of a file."""
        body: bytes | None = await self._valkey.execute("GET", self._prefix + name)
        return body

    async def drop(self, name: str) -> None:
        """Delete a file."""
        await self._valkey.pipeline([("DEL", self._prefix + name), ("ZREM", self._order, name)])
