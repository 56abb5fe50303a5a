"""How many checks of each room were refused for their key or the origin of their page, since the room exists.

Not here: counting (services/tally.py), by which origin (engine_admin.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from app.core.ids import Generation, RoomId
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import Commands

FIELDS = ("refusedOriginChecks", "refusedKeyChecks")
"""Names under which services/visitor_counts.py counts them."""


async def refused_checks(
    valkey: Commands, prefix: str, rooms: Sequence[tuple[RoomId, Generation]]
) -> dict[RoomId, int]:
    """Numbers by room, in one trip. Raises StorageUnavailable."""
    commands = [("HMGET", RoomKeys(prefix, room_id).counts(generation), *FIELDS) for room_id, generation in rooms]
    replies = await valkey.pipeline(list(commands)) if commands else []
    return {
        room_id: sum(int(number or 0) for number in reply)
        for (room_id, _), reply in zip(rooms, replies, strict=True)
        if isinstance(reply, list)
    }
