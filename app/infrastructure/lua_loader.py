"""Calls of the engine's functions: the library is loaded when Valkey does not have it, once per call at most.

Not here: what the functions do (lua/), batching (engine.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import structlog
from redis.exceptions import ResponseError

from app.infrastructure.lua_bundle import LuaBundle, engine_bundle

CALLS_A_TRIP: Final = 20
"""Calls that are sent together: one takes 25 to 60 µs of the live store, which serves nobody else meanwhile."""

log = structlog.get_logger(__name__)


class Commands(Protocol):
    """What is needed of ``valkey.Valkey``."""

    async def execute(self, *command: Any) -> Any:
        """Run one command; raises StorageUnavailable or redis' ResponseError."""

    async def pipeline(self, commands: list[Sequence[Any]]) -> list[Any]:
        """Run commands in one trip; a command's own error stands in its place."""


class LuaFailure(Exception):
    """A function of the library failed: a bug here. The message names the place in the Lua files."""


class LuaLoader:
    """One process's way to call library functions by their short names."""

    def __init__(self, valkey: Commands, bundle: LuaBundle | None = None) -> None:
        self._valkey = valkey
        self.bundle = bundle or engine_bundle()
        self._names: dict[str, str] = {}

    async def load(self) -> None:
        """Give Valkey the library. It is harmless when another process has done so."""
        try:
            await self._valkey.execute("FUNCTION", "LOAD", self.bundle.code)
        except ResponseError as error:
            if "already exists" not in str(error):
                raise LuaFailure(self.bundle.explain(str(error))) from error
        else:
            log.info("engine_library_loaded", library=self.bundle.name)

    async def call(self, name: str, key: str, *args: Any) -> Any:
        """Call function ``name`` on the room whose header key is ``key``; the reply as it is."""
        command = ("FCALL", self._full(name), 1, key, *args)
        try:
            return await self._valkey.execute(*command)
        except ResponseError as error:
            self._reraise_unless_missing(error)
        await self.load()
        try:
            return await self._valkey.execute(*command)
        except ResponseError as error:
            raise LuaFailure(self.bundle.explain(str(error))) from error

    async def call_many(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls ``(name, key, *args)``, a few in each trip; the error of one is a LuaFailure in its place.

        Visitors' calls wait behind a trip, in the store and on the connection.
        """
        replies: list[Any] = []
        for start in range(0, len(calls), CALLS_A_TRIP):
            replies += await self._trip(calls[start : start + CALLS_A_TRIP])
        return replies

    async def _trip(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        commands = [("FCALL", self._full(name), 1, *rest) for name, *rest in calls]
        replies = await self._valkey.pipeline(list(commands))
        missing = [index for index, reply in enumerate(replies) if _is_missing(reply)]
        if missing:
            await self.load()
            again = await self._valkey.pipeline([commands[index] for index in missing])
            for index, reply in zip(missing, again, strict=True):
                replies[index] = reply
        return [self._failure(reply) if isinstance(reply, Exception) else reply for reply in replies]

    def _full(self, name: str) -> str:
        full = self._names.get(name)
        if full is None:
            full = self._names[name] = self.bundle.function(name)
        return full

    def _reraise_unless_missing(self, error: ResponseError) -> None:
        if not _is_missing(error):
            raise LuaFailure(self.bundle.explain(str(error))) from error

    def _failure(self, error: Exception) -> Exception:
        if isinstance(error, ResponseError):
            return LuaFailure(self.bundle.explain(str(error)))
        return error


def _is_missing(reply: Any) -> bool:
    return isinstance(reply, ResponseError) and "Function not found" in str(reply)
