"""Leaving a line, a pass or a session. Source: VIS-175, VIS-176, VIS-055, ENG-077.

Belongs here: the answer to a visitor who leaves. Not here: the end of presence (a closed page leaves nothing).
"""

from __future__ import annotations

from typing import Final

from app.core.clock import wall_ms
from app.infrastructure.engine import Engine
from app.infrastructure.engine_results import TicketState
from app.services.visitor import VisitorAnswer
from app.services.visitor_proof import Identifier, Visitor
from app.services.visitor_room import VisitorRoom, VisitorRooms

_LEFT: Final = {
    TicketState.PREQUEUED: b'"prequeued"',
    TicketState.WAITING: b'"waiting"',
    TicketState.PASSED: b'"passed"',
    TicketState.ACTIVE: b'"active"',
}


class LeaveService:
    """Answers ``POST /api/leave``; journaled in the background (ENG-005)."""

    def __init__(self, *, engine: Engine, rooms: VisitorRooms, identifier: Identifier) -> None:
        self._engine = engine
        self._rooms = rooms
        self._identifier = identifier

    async def leave(self, room_id: str, visitor: Visitor) -> VisitorAnswer:
        """End what the owner has; ``left`` null when there is nothing of his. Raises NoRoom, StorageUnavailable."""
        room = await self._rooms.find(room_id)
        return await self._rooms.current(room, lambda current: self._leave(current, visitor))

    async def _leave(self, room: VisitorRoom, visitor: Visitor) -> VisitorAnswer:
        identity = self._identifier.identify(room, visitor, wall_ms())
        if identity.others:
            identity = await self._identifier.settle(room, visitor, identity)
        answer = await self._engine.leave(room.room, identity.proof)
        body = b'{"ok":true,"left":%b}' % _LEFT.get(answer.was, b"null")
        if answer.was is TicketState.NONE:
            return VisitorAnswer(body, [])
        return VisitorAnswer(body, room.cookies.clear_ticket_and_door(visitor.client.scheme))
