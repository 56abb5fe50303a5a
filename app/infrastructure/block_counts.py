"""How many newcomers bot protection has refused in each room, and how many of them the timeline has told of.

Not here: the marks themselves (services/block_marks.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from app.core.ids import RoomId
from app.infrastructure.engine_auto import Overtaken
from app.infrastructure.keys import RoomKeys, blocks_told_key
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.valkey import Valkey

FIELD: Final = "blocked"
"""Of the hash of counts (lua/lib/tallies.lua)."""
ROOMS_A_TRIP: Final = 200

Rooms = Sequence[tuple[RoomId, int]]
"""Ids and generations."""


class BlockCounts:
    """Reads and writes. Raises StorageUnavailable; writing raises Overtaken when a later leader has written."""

    def __init__(self, valkey: Valkey, prefix: str, loader: LuaLoader) -> None:
        self._valkey = valkey
        self._loader = loader
        self._prefix = prefix
        self._key = blocks_told_key(prefix)
        self._seen: dict[tuple[RoomId, int], int] = {}

    async def now_ms(self) -> int:
        """The live store's clock."""
        seconds, micros = await self._valkey.execute("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def news(self, rooms: Rooms) -> dict[RoomId, int]:
        """Refused newcomers that were not told of yet, of those rooms that have any."""
        self._seen = await self._counts(rooms)
        found: dict[RoomId, int] = {}
        for (room_id, generation), told in zip(rooms, await self._told(rooms), strict=True):
            number = self._seen[room_id, generation] - told
            if number > 0:
                found[room_id] = number
        return found

    async def told(self, epoch: int, rooms: Rooms, *, gone: Iterable[str] = ()) -> None:
        """All that ``news`` found was told; forget rooms that are ``gone``."""
        pairs: list[str] = []
        for room_id, generation in rooms:
            if number := self._seen.get((room_id, generation), 0):
                pairs += [room_id, f"{generation} {number}"]
        for name in gone:
            pairs += [name, ""]
        for start in range(0, len(pairs), 2 * ROOMS_A_TRIP):
            reply = await self._loader.call("leader_put", self._key, epoch, *pairs[start : start + 2 * ROOMS_A_TRIP])
            if reply[1] != 1:
                raise Overtaken

    async def known(self) -> set[str]:
        """Rooms about which something is kept."""
        names = await self._valkey.execute("HKEYS", self._key)
        return {name.decode() for name in names} - {"epoch"}

    async def _counts(self, rooms: Rooms) -> dict[tuple[RoomId, int], int]:
        found: dict[tuple[RoomId, int], int] = {}
        for start in range(0, len(rooms), ROOMS_A_TRIP):
            some = rooms[start : start + ROOMS_A_TRIP]
            commands = [("HGET", RoomKeys(self._prefix, room_id).counts(gen), FIELD) for room_id, gen in some]
            for room, reply in zip(some, await self._valkey.pipeline(commands), strict=True):
                if isinstance(reply, Exception):
                    raise reply
                found[room] = int(reply or 0)
        return found

    async def _told(self, rooms: Rooms) -> list[int]:
        if not rooms:
            return []
        texts = await self._valkey.execute("HMGET", self._key, *(room_id for room_id, _ in rooms))
        told = []
        for (_, generation), text in zip(rooms, texts, strict=True):
            of, _, number = (text or b"0 0").decode().partition(" ")
            told.append(int(number) if int(of) == generation else 0)
        return told
