"""Counts that web workers hand over to the live store: per room, per rule, and refused origins of all rooms.

Not here: when they are handed over (services/tally.py), how they are read (engine_admin.py, engine_detail.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.core.ids import RoomId
from app.infrastructure.engine_pack import RoomCode
from app.infrastructure.keys import RoomKeys, origins_key
from app.infrastructure.lua_loader import LuaLoader

ROOMS_A_TRIP: Final = 100


@dataclass(slots=True)
class RoomTally:
    """What one process has counted for one copy of a room. ``generation`` 0: whatever the room's is now."""

    room_id: RoomId
    generation: int = 0
    cfg_ver: int = 0
    """Version of the rules that ``rules`` belongs to."""
    plain: dict[str, int] = field(default_factory=dict)
    """Name of the count → increase."""
    rules: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Rule field → increase, time of the last check (epoch ms)."""

    def args(self) -> list[Any]:
        """Arguments of function tally."""
        plain = [part for item in self.plain.items() for part in item]
        rules = [part for name, hits in self.rules.items() for part in (name, *hits)]
        return [self.generation, self.cfg_ver, len(self.plain), *plain, *rules]


class EngineCounts:
    """Calls of one process. They raise StorageUnavailable."""

    def __init__(self, prefix: str, loader: LuaLoader) -> None:
        self._prefix = prefix
        self._loader = loader

    async def add(self, tallies: Sequence[RoomTally]) -> list[RoomTally]:
        """Add counts; those that have to wait because their room is being rebuilt. Of a room that is gone: dropped."""
        later: list[RoomTally] = []
        for start in range(0, len(tallies), ROOMS_A_TRIP):
            part = tallies[start : start + ROOMS_A_TRIP]
            calls = [("tally", RoomKeys(self._prefix, one.room_id).header, *one.args()) for one in part]
            for one, reply in zip(part, await self._loader.call_many(calls), strict=True):
                if isinstance(reply, Exception):
                    raise reply
                if reply[0] in (RoomCode.FENCED, RoomCode.NOHEADER):
                    later.append(one)
        return later

    async def add_origins(self, pairs: Mapping[tuple[str, str], int], *, limit: int) -> None:
        """Add refused checks by (room, origin); at most ``limit`` pairs are kept, further ones under ``other``."""
        args = [part for (room_id, origin), number in pairs.items() for part in (room_id, origin, number)]
        await self._loader.call("tally_origins", origins_key(self._prefix), limit, *args)
