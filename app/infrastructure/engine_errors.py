"""What a call of the engine may raise besides StorageUnavailable: three refusals that concern a whole room.

A caller reloads its copy and retries once on StaleRoom. RoomGone and RoomFenced are answers of the API already.
"""

from __future__ import annotations

from app.core.errors import NoRoom, StorageUnavailable


class StaleRoom(Exception):
    """The caller's copy of the room (generation or cfg_ver) is not the current one."""

    def __init__(self, room_id: str) -> None:
        super().__init__(room_id)
        self.room_id = room_id


class RoomGone(NoRoom):
    """404 ``no_room``: the room was deleted."""


class RoomFenced(StorageUnavailable):
    """503: the room's live state is missing, fenced, or written by a newer build (ENG-275)."""
