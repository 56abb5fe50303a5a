"""What an operator does to a running line: pause, resume, bypass, rate, eject. Not here: whole rooms (rooms.py)."""

from __future__ import annotations

from typing import Any, Final

from app.core.errors import BadRequest, InvalidField, NoRoom, NoTicket
from app.core.ids import Ticket
from app.domain.room import RoomState
from app.domain.room_fields import BY_NAME, parse_patch
from app.infrastructure.engine_admin import EjectCode, EngineAdmin
from app.infrastructure.engine_results import TicketState
from app.infrastructure.room_directory import RoomDirectory
from app.services.commit import CommitWaiter
from app.services.rooms import CommitsFail, NotRecorded, RoomService, Saved

TICKET_MAX: Final = 2**32 - 1


class LineService:
    """Acts on one line. State and rate act at once; an eject answers after its commit (ADM-134, ADM-135)."""

    def __init__(
        self, *, service: RoomService, engine: EngineAdmin, rooms: RoomDirectory, commits: CommitWaiter
    ) -> None:
        self._service = service
        self._engine = engine
        self._rooms = rooms
        self._commits = commits

    async def pause(self, room_id: str, *, actor: str) -> Saved:
        """Let nobody in from now on; works from every state."""
        return await self._service.change(room_id, {"state": RoomState.PAUSED}, actor=actor)

    async def resume(self, room_id: str, *, actor: str) -> Saved:
        """Set a paused room active; of any other room nothing changes (ADM-151)."""
        paused = {"state": RoomState.PAUSED}
        return await self._service.change(room_id, {"state": RoomState.ACTIVE}, actor=actor, expect=paused)

    async def set_state(self, room_id: str, body: dict[str, Any], *, actor: str) -> Saved:
        """``{"state": …}``. Raises BadRequest."""
        return await self._service.change(room_id, _only(body, "state"), actor=actor)

    async def set_rate(self, room_id: str, body: dict[str, Any], *, actor: str) -> Saved:
        """``{"ratePerMinute": …}`` or ``{"rate": …}``. Raises BadRequest."""
        return await self._service.change(room_id, _only(body, "rate", "ratePerMinute"), actor=actor)

    async def eject(self, room_id: str, body: dict[str, Any], *, actor: str) -> tuple[Ticket, str]:
        """Cancel the pass and session of ``{"ticket": n}`` and send its holder to the back (ENG-191).

        Returns the number and the word for what it was. Raises BadRequest, NoRoom, NoTicket, StorageUnavailable.
        """
        ticket = _ticket(body)
        known = await self._rooms.find(room_id)
        # Read anew: the commit is waited for by generation, and the copy's may have ended a moment ago.
        room = None if known is None else await self._rooms.reload(known.id)
        if room is None:
            raise NoRoom
        if self._commits.refusing():
            raise CommitsFail
        answer = await self._engine.eject(room.id, ticket, actor=actor)
        if answer.code is EjectCode.NO_ROOM:
            raise NoRoom
        if answer.code is EjectCode.NO_TICKET or answer.was is TicketState.NONE:
            raise NoTicket
        if not await self._commits.wait(room.id, room.generation, answer.seq):
            raise NotRecorded
        return ticket, _was(answer.was)


def _only(body: dict[str, Any], *names: str) -> dict[str, Any]:
    """The checked values of a body that may hold ``names`` only; the checks are those of the room itself."""
    unknown = [name for name in body if name not in names]
    if unknown:
        sentence = f'"{unknown[0]}" is not a field of this request'
        raise BadRequest(sentence, code="unknown_field", fields=unknown)
    if not body:
        raise InvalidField(names[0], f"Send {names[-1]}", code=BY_NAME[names[0]].error_code)
    return dict(parse_patch({"id": "x", **body}).values)


def _ticket(body: dict[str, Any]) -> Ticket:
    unknown = [name for name in body if name not in ("ticket", "ref")]
    if unknown:
        sentence = f'"{unknown[0]}" is not a field of this request'
        raise BadRequest(sentence, code="unknown_field", fields=unknown)
    if "ref" in body:
        raise BadRequest("ref is not in this build; send ticket", code="not_in_this_build", fields=["ref"])
    ticket = body.get("ticket")
    if type(ticket) is not int or not 1 <= ticket <= TICKET_MAX:
        raise InvalidField("ticket", f"ticket must be a whole number from 1 to {TICKET_MAX}")
    return Ticket(ticket)


def _was(state: TicketState) -> str:
    """Word of a state before the eject; a withdrawn join was never anybody's place, so it is as over as one can be."""
    return "expired" if state is TicketState.WITHDRAWN else state.name.lower()
