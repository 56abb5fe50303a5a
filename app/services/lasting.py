"""Connections that last (joined ones such as WebSockets, event streams) end with what they rest on (INL-147, INL-153).

An open one is no check and slides nothing, so it is not cut when a session idles out. But it ends within 10 s of an
eject of its ticket or of the deletion of its room, and at the longest end of its session. Belongs here: looking, every
few seconds and only while there are any. Not here: the connections (blueprints/edge/inline).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Final, NamedTuple

import structlog

from app.core.errors import NoRoom, StorageUnavailable
from app.core.ids import RoomId
from app.domain.ticket_state import TicketState, Why
from app.infrastructure.engine_lookup import EngineLookup, Looked
from app.services.visitor_room import VisitorRooms

LOOK_SEC: Final = 2.0
LATEST_LOOK_SEC: Final = 8.0
"""Pauses between looks, with few connections and with many (``MANY`` and more); an end comes within 10 s."""
MANY: Final = 10_000
AT_ONCE: Final = 40
"""Tickets asked for in one call."""

log = structlog.get_logger(__name__)


def pause_sec(number: int) -> float:
    """How long to pause before the next look at ``number`` connections."""
    return LOOK_SEC + (LATEST_LOOK_SEC - LOOK_SEC) * min(1.0, number / MANY)


class Place(NamedTuple):
    """What such a connection rests on. ``ticket`` 0: on its room alone, which lets everybody pass."""

    room_id: str
    generation: int
    ticket: int


class _Held:
    """One connection. ``admitted_at``: when its session began (epoch ms of the room), 0 = not known yet."""

    __slots__ = ("admitted_at", "hang_up", "number", "place")

    def __init__(self, number: int, place: Place, hang_up: Callable[[], None]) -> None:
        self.number = number
        self.place = place
        self.hang_up = hang_up
        self.admitted_at = 0


class Lasting:
    """Those of one web worker."""

    def __init__(self, *, rooms: VisitorRooms, lookup: EngineLookup) -> None:
        self._rooms = rooms
        self._lookup = lookup
        self._open: dict[int, _Held] = {}
        self._last = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_looking = False

    def add(self, place: Place, hang_up: Callable[[], None]) -> int:
        """Look after a connection from now on; a number by which it is forgotten."""
        self._last += 1
        held = self._open[self._last] = _Held(self._last, place, hang_up)
        self._start(self._look_at(place.room_id, [held]))  # once over, nobody can tell when a session began
        if not self._is_looking:
            self._is_looking = True
            self._start(self._look())
        return self._last

    def forget(self, number: int) -> None:
        """It has ended."""
        self._open.pop(number, None)

    async def stop(self) -> None:
        """End looking."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="lasting")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self) -> None:
        try:
            while self._open:
                await asyncio.sleep(pause_sec(len(self._open)))
                by_room: dict[str, list[_Held]] = {}
                for held in self._open.values():
                    by_room.setdefault(held.place.room_id, []).append(held)
                for room_id, of_room in by_room.items():
                    await self._look_at(room_id, of_room)
        finally:
            self._is_looking = False

    async def _look_at(self, room_id: str, held: list[_Held]) -> None:
        """Hang up what is over; while nothing can be said, whoever is inside stays."""
        try:
            for start in range(0, len(held), AT_ONCE):
                await self._judge(room_id, held[start : start + AT_ONCE])
        except StorageUnavailable:
            return
        except Exception:
            log.exception("lasting_not_seen", room=room_id)

    async def _judge(self, room_id: str, held: list[_Held]) -> None:
        looked: Looked | None = None
        with contextlib.suppress(NoRoom):
            looked = await self._lookup.tickets(RoomId(room_id), [one.place.ticket for one in held])
        room = self._rooms.peek(room_id)
        for number, one in enumerate(held):
            if one.number not in self._open:
                continue  # it ended while was looked, and what held it may be at something else
            if looked is None or room is None or self._is_over(one, looked, number, room.room.config.session_max_sec):
                one.hang_up()

    @staticmethod
    def _is_over(one: _Held, looked: Looked, number: int, longest_sec: int) -> bool:
        generation, ticket = one.place.generation, one.place.ticket
        if generation not in (0, looked.generation):
            return True
        if not ticket:
            return False
        facts = looked.tickets[number]
        one.admitted_at = facts.admitted_at or one.admitted_at
        is_spent = 0 < one.admitted_at <= looked.now - longest_sec * 1000
        return is_spent or facts.why == Why.SESSION_MAX or facts.state is TicketState.EJECTED
