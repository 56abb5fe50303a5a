"""What an operator does to a running line: pause, resume, bypass, rate, schedule, flush, purge, eject.

Not here: whole rooms (rooms.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from app.core import metrics
from app.core.clock import wall_ms
from app.core.errors import BadRequest, InvalidField, NoRoom, NoTicket, QmError
from app.core.ids import RoomId, Ticket
from app.domain.opening import Moment
from app.domain.room import Room, RoomState
from app.domain.room_fields import BY_NAME, parse_patch
from app.infrastructure.engine_admin import EjectCode, EngineAdmin, LineAnswer, LineCode
from app.infrastructure.engine_errors import StaleRoom
from app.infrastructure.engine_results import TicketState
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.room_directory import RoomDirectory
from app.services.commit import CommitWaiter
from app.services.rooms import CommitsFail, NotRecorded, RoomService, Saved
from app.services.tickets import PreviousGeneration, TicketLookup, read_ref_field

TICKET_MAX: Final = 2**32 - 1


class RoomScheduled(QmError):
    """409 ``room_scheduled``: the doors of the room are not open yet (ENG-188)."""

    status = 409
    code = "room_scheduled"
    sentence = "The doors of this room are not open yet. Nobody was let in."


class RoomBypassed(QmError):
    """409 ``room_bypassed``: the queue of the room is off (ENG-188)."""

    status = 409
    code = "room_bypassed"
    sentence = "The queue of this room is off: everybody walks in already."


class LineService:
    """Acts on one line. State and rate act at once; the others answer after their commit (ADM-134, ADM-135)."""

    def __init__(
        self,
        *,
        service: RoomService,
        engine: EngineAdmin,
        rooms: RoomDirectory,
        commits: CommitWaiter,
        tickets: TicketLookup,
        book: MetricBook | None = None,
    ) -> None:
        """``book``: where passes and ejections are counted."""
        self._service = service
        self._engine = engine
        self._rooms = rooms
        self._commits = commits
        self._tickets = tickets
        self._book = book or MetricBook.alone()

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

    async def schedule(self, room_id: str, body: dict[str, Any], *, actor: str) -> Saved:
        """``{"opensAt": …}`` and/or ``{"preQueueMaxPerIp": …}``; fields that are left out stay (ADM-155, ADM-156).

        Raises BadRequest, NoRoom, StorageUnavailable; answers after its commit.
        """
        room = await self._found(room_id)
        if not body:
            raise BadRequest("Send opensAt and/or preQueueMaxPerIp", code="nothing_to_change")
        moment = Moment(wall_ms(), room.config.opens_at)
        values = _only(body, "opensAt", "preQueueMaxPerIp", moment=moment)
        return await self._service.change(room_id, values, actor=actor)

    async def flush(self, room_id: str, *, actor: str) -> int:
        """Let everybody in who waits now; how many they are (ENG-187).

        Raises NoRoom, RoomScheduled, RoomBypassed, StorageUnavailable. Repeated, it lets in those who wait then.
        """
        answer = await self._sweep(room_id, lambda room: self._engine.flush(room, actor=actor))
        if answer.waiting:
            self._book.add(metrics.PASSES, room_id, number=answer.waiting)
        return answer.waiting

    async def purge(self, room_id: str, *, actor: str) -> tuple[int, int]:
        """Drop everybody in line and in the pre-queue; how many of each (ENG-189).

        Raises NoRoom, StorageUnavailable.
        """
        answer = await self._sweep(room_id, lambda room: self._engine.purge(room, actor=actor))
        return answer.waiting, answer.pre_queue

    async def _sweep(self, room_id: str, act: Callable[[RoomId], Awaitable[LineAnswer]]) -> LineAnswer:
        """Do ``act`` to a whole line and wait for its commit, or for that of an act it found unfinished."""
        room = await self._found(room_id)
        answer = await act(room.id)
        if answer.code is LineCode.NO_ROOM:
            raise NoRoom
        if answer.code is LineCode.SCHEDULED:
            raise RoomScheduled
        if answer.code is LineCode.BYPASSED:
            raise RoomBypassed
        if not await self._commits.wait(room.id, answer.generation, answer.seq):
            raise NotRecorded
        return answer

    async def _found(self, room_id: str) -> Room:
        """The room, read anew: its generation may have ended a moment ago. Refuses while commits fail."""
        known = await self._rooms.find(room_id)
        room = None if known is None else await self._rooms.reload(known.id)
        if room is None:
            raise NoRoom
        if self._commits.refusing():
            raise CommitsFail
        return room

    async def eject(self, room_id: str, body: dict[str, Any], *, actor: str) -> tuple[Ticket, str]:
        """Cancel the pass and session of ``{"ticket": n}`` and send its holder to the back (ENG-191).

        ``{"ref": …}`` names the ticket too, where it is the only one (ADM-163). Returns the number and the word for
        what it was. Raises BadRequest, NoRoom, NoTicket, AmbiguousRef, PreviousGeneration, StorageUnavailable.
        """
        ticket, ref = _named(body)
        room = await self._found(room_id)  # the commit is waited for by generation
        if ref is not None:
            ticket = await self._tickets.holder_of(room, ref)
        try:
            answer = await self._engine.eject(room.id, ticket, actor=actor, expect_gen=room.generation)
        except StaleRoom:  # made anew in between: the number was that of somebody else
            raise PreviousGeneration from None
        if answer.code is EjectCode.NO_ROOM:
            raise NoRoom
        if answer.code is EjectCode.NO_TICKET or answer.was is TicketState.NONE:
            raise NoTicket
        if not await self._commits.wait(room.id, room.generation, answer.seq):
            raise NotRecorded
        self._book.add(metrics.EJECTIONS, room_id)
        return ticket, _was(answer.was)


def _only(body: dict[str, Any], *names: str, moment: Moment | None = None) -> dict[str, Any]:
    """The checked values of a body that may hold ``names`` only; the checks are those of the room itself."""
    unknown = [name for name in body if name not in names]
    if unknown:
        sentence = f'"{unknown[0]}" is not a field of this request'
        raise BadRequest(sentence, code="unknown_field", fields=unknown)
    if not body:
        raise InvalidField(names[0], f"Send {names[-1]}", code=BY_NAME[names[0]].error_code)
    return dict(parse_patch({"id": "x", **body}, moment=moment).values)


def _named(body: dict[str, Any]) -> tuple[Ticket, str | None]:
    """The number, or the ref beside 0."""
    unknown = [name for name in body if name not in ("ticket", "ref")]
    if unknown:
        sentence = f'"{unknown[0]}" is not a field of this request'
        raise BadRequest(sentence, code="unknown_field", fields=unknown)
    if len(body) == 2:
        raise InvalidField("ticket", "Send one of ticket and ref", fields=["ticket", "ref"])
    if "ref" in body:
        return Ticket(0), read_ref_field(body["ref"])
    ticket = body.get("ticket")
    if type(ticket) is not int or not 1 <= ticket <= TICKET_MAX:
        raise InvalidField("ticket", f"ticket must be a whole number from 1 to {TICKET_MAX}")
    return Ticket(ticket), None


def _was(state: TicketState) -> str:
    """Word of a state before the eject; a withdrawn join was never anybody's place, so it is as over as one can be."""
    return "expired" if state is TicketState.WITHDRAWN else state.name.lower()
