"""Slow facts of rooms (rule hits, refused origins) as room objects show them, read every few seconds at most.

Not here: the numbers that move all the time (engine_results.RoomFigures), their place in an object (room_object.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.core.clock import mono
from app.core.ids import RoomId
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_detail import RoomDetail
from app.infrastructure.engine_results import RoomFigures

EVERY_SEC: Final = 10.0


@dataclass(frozen=True, slots=True)
class Details:
    """What a room object shows of one room. Equal values make equal objects."""

    room: RoomDetail
    refused_origins: Mapping[str, int] = field(default_factory=dict)
    """Origin → refused checks."""


class RoomDetails:
    """Reads figures, and with them details that are older than ``EVERY_SEC``."""

    def __init__(self, engine: EngineAdmin) -> None:
        self._engine = engine
        self._known: dict[RoomId, tuple[float, RoomDetail]] = {}
        self._origins: tuple[float, Mapping[str, Mapping[str, int]]] = (-EVERY_SEC, {})

    async def figures(self, room_ids: Sequence[RoomId], *, fresh: bool = False) -> dict[RoomId, RoomFigures]:
        """Live figures. ``fresh``: with the details of this moment. Raises StorageUnavailable."""
        now = mono()
        old = -EVERY_SEC if fresh else now - EVERY_SEC
        due = {room_id for room_id in room_ids if fresh or self._known.get(room_id, (old, None))[0] <= old}
        found = await self._engine.figures(room_ids, detailed=due)
        self._known.update((room_id, (now, one.detail)) for room_id, one in found.items() if one.detail is not None)
        if len(self._known) > len(room_ids) and not fresh:
            self._known = {room_id: self._known[room_id] for room_id in room_ids if room_id in self._known}
        if fresh or self._origins[0] <= old:
            self._origins = (now, await self._engine.refused_origins())
        return found

    def of(self, room_id: RoomId) -> Details | None:
        """The details last read; None when none were."""
        known = self._known.get(room_id)
        return None if known is None else Details(known[1], self._origins[1].get(room_id, {}))
