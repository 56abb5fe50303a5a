"""Leases over the rooms that a drainer works on, so that the drainers of several instances do not do the same work.

Economy only: two drainers on one room store nothing twice (``journal.py``), they only waste a commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.core.clock import mono
from app.core.ids import RoomId
from app.infrastructure.keys import drain_lease
from app.infrastructure.valkey import Valkey

LEASE_SEC: Final = 1.0
"""How long a room stays with a drainer that has died; its facts wait as long."""


class DrainLeases:
    """``holder``: name of the instance, so that its next drainer goes on at once where a killed one stopped."""

    def __init__(self, valkey: Valkey, prefix: str, holder: str) -> None:
        self._valkey = valkey
        self._prefix = prefix
        self._holder = holder.encode()
        self._until: dict[RoomId, float] = {}

    async def hold(self, rooms: Sequence[RoomId]) -> set[RoomId]:
        """Take or renew the leases of ``rooms``; those that are this instance's now."""
        now = mono()
        self._until = {room: until for room, until in self._until.items() if until > now}
        old = [room for room in rooms if self._until.get(room, 0.0) < now + LEASE_SEC / 2]
        if old:
            replies = await self._valkey.pipeline([self._take(room) for room in old])
            for room, reply in zip(old, replies, strict=True):
                if reply is None or reply == self._holder:
                    self._until[room] = now + LEASE_SEC
                else:
                    self._until.pop(room, None)
        return {room for room in rooms if room in self._until}

    def _take(self, room: RoomId) -> tuple[object, ...]:
        # GET makes SET answer the holder before: nobody (taken now), this instance, or another one.
        how = "XX" if room in self._until else "NX"
        return ("SET", drain_lease(self._prefix, room), self._holder, how, "GET", "PX", int(LEASE_SEC * 1000))
