"""A loop over rooms that outlives any one of them.

A room whose step fails is pushed back, longer each time, and logged; the others go on (style habit 15).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog

from app.core.clock import mono
from app.core.ids import RoomId

log = structlog.get_logger(__name__)

_FIRST_PAUSE_SEC: Final = 2.0
_LAST_PAUSE_SEC: Final = 60.0


class PushedBack:
    """Rooms that failed, and when each is tried again."""

    def __init__(self) -> None:
        self._until: dict[RoomId, tuple[float, float]] = {}

    def ready(self, rooms: Iterable[RoomId]) -> list[RoomId]:
        """``rooms`` without those that are pushed back just now; forgets rooms that are no longer there."""
        wanted = list(rooms)
        self._until = {room: self._until[room] for room in wanted if room in self._until}
        now = mono()
        return [room for room in wanted if room not in self._until or self._until[room][0] <= now]

    def note_failure(self, room: RoomId) -> float:
        """Push ``room`` back; returns for how many seconds."""
        pause = min(self._until.get(room, (0.0, _FIRST_PAUSE_SEC / 2))[1] * 2, _LAST_PAUSE_SEC)
        self._until[room] = (mono() + pause, pause)
        return pause

    def note_success(self, room: RoomId) -> None:
        """The room works: its next failure is a first one."""
        self._until.pop(room, None)
