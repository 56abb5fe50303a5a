"""Which function libraries running instances use, and the end of those that nobody uses any more.

Every release has a library of its own (lua_bundle.py); without this the ones of past releases would stay in Valkey for
ever. Only libraries that an instance of this prefix has noted are ever removed. Removing one that somebody calls after
all does no harm: it is loaded again by the next call (lua_loader.py).
"""

from __future__ import annotations

from typing import Final

import structlog
from redis.exceptions import ResponseError

from app.infrastructure.keys import libraries_key
from app.infrastructure.lua_loader import Commands

NOTE_SEC: Final = 600.0
"""How often an instance says that it runs."""
UNUSED_MS: Final = 24 * 3600 * 1000
"""Age of the last note from which a library is removed: an instance that was cut off for a night is no past release."""

log = structlog.get_logger(__name__)


class LuaLibraries:
    """Notes of use in the live store. ``library``: name of this build's own."""

    def __init__(self, valkey: Commands, prefix: str, library: str) -> None:
        self._valkey = valkey
        self._key = libraries_key(prefix)
        self._library = library

    async def note_use(self) -> None:
        """Say that an instance with this build runs now. StorageUnavailable passes."""
        await self._valkey.execute("ZADD", self._key, await self._now_ms(), self._library)

    async def drop_unused(self) -> list[str]:
        """Remove the libraries that no instance has noted for a day; their names. StorageUnavailable passes."""
        limit = await self._now_ms() - UNUSED_MS
        names = [name.decode() for name in await self._valkey.execute("ZRANGEBYSCORE", self._key, "-inf", limit)]
        for name in names:
            try:
                await self._valkey.execute("FUNCTION", "DELETE", name)
            except ResponseError as error:
                if "not found" not in str(error):
                    raise
            await self._valkey.execute("ZREM", self._key, name)
            log.info("engine_library_removed", library=name)
        return names

    async def _now_ms(self) -> int:
        seconds, micros = await self._valkey.execute("TIME")
        return int(seconds) * 1000 + int(micros) // 1000
