"""The state of a place, for a page that polls. Source: VIS-157 … VIS-162, VIS-057, VIS-058.

Belongs here: status by token or cookies, also without a room. Not here: streams (streams.py), parsing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.core.clock import wall_ms
from app.core.errors import BadRequest, StorageUnavailable
from app.domain.tokens import Claims, VisitorTokens
from app.infrastructure.engine import Engine
from app.infrastructure.engine_errors import StaleRoom
from app.infrastructure.engine_pack import pack_status
from app.infrastructure.engine_results import VisitorView
from app.services.asking import Asking, Told
from app.services.commit import CommitWaiter
from app.services.visitor import VisitorAnswer, holds_ticket, needs_location, state_json
from app.services.visitor_proof import Identifier, Identity, Visitor
from app.services.visitor_room import VisitorRoom, VisitorRooms
from app.services.visitor_tokens import TokenIssuer, place_of


class _Asking(Asking[VisitorAnswer]):
    """One question by the shortest way; it stands where the engine keeps a future."""

    __slots__ = ("identity", "now_ms", "return_url", "room", "visitor")

    def __init__(
        self,
        service: StatusService,
        told: Told[VisitorAnswer],
        room: VisitorRoom,
        visitor: Visitor,
        identity: Identity,
        return_url: str | None,
        now_ms: int,
    ) -> None:
        self.told = told
        self._service = service
        self.room = room
        self.visitor = visitor
        self.identity = identity
        self.return_url = return_url
        self.now_ms = now_ms


class StatusService:
    """Answers ``GET /api/status``; one engine call, no commit to wait for."""

    def __init__(
        self,
        *,
        engine: Engine,
        rooms: VisitorRooms,
        identifier: Identifier,
        issuer: TokenIssuer,
        tokens: VisitorTokens,
        commits: CommitWaiter,
    ) -> None:
        self._engine = engine
        self._rooms = rooms
        self._identifier = identifier
        self._issuer = issuer
        self._tokens = tokens
        self._commits = commits
        self._tasks: set[asyncio.Task[VisitorAnswer]] = set()

    def room_named_by(self, token: str | None, candidates: Sequence[tuple[str, str]]) -> str:
        """Room of a request that names none: that of its token, or of the first good ticket cookie (VIS-057).

        ``candidates``: (room id, value) as ``cookies.ticket_candidates`` orders them. Raises 400 ``missing_room``.
        """
        now_ms = wall_ms()
        for room_id, text in [(None, token)] if token else candidates:
            verdict = self._tokens.verify(text, room_id, now_ms)
            if isinstance(verdict, Claims):
                return verdict.room
        raise BadRequest("Name the room in the query", code="missing_room")

    async def status(
        self, room_id: str, visitor: Visitor, return_url: str | None, *, read_only: bool = False
    ) -> VisitorAnswer:
        """The visitor state. ``read_only`` (``HEAD``): neither seen nor told (VIS-039).

        Raises NoRoom, StorageUnavailable.
        """
        room = self._rooms.peek(room_id) or await self._rooms.find(room_id)
        try:
            return await self._status(room, visitor, return_url, changes=not read_only)
        except StaleRoom:
            return await self._rooms.again(
                room, lambda fresh: self._status(fresh, visitor, return_url, changes=not read_only)
            )

    async def _status(
        self, room: VisitorRoom, visitor: Visitor, return_url: str | None, *, changes: bool
    ) -> VisitorAnswer:
        now_ms = wall_ms()
        identity = self._identifier.identify(room, visitor, now_ms)
        if identity.others:
            identity = await self._identifier.settle(room, visitor, identity)
        view = await self._engine.status(room.room, identity.proof, told=changes, seen=changes, bind=changes)
        if self._is_due(identity, view, now_ms):
            return await self._renewed(room, visitor, identity, return_url, view)
        return _answer(room, identity, return_url, view)

    def ask(self, room: VisitorRoom, visitor: Visitor, return_url: str | None, told: Told[VisitorAnswer]) -> bool:
        """``status`` by the shortest way, for a visitor who was read before; False = nothing was done.

        ``told`` hears StaleRoom, on which ``status`` is to be asked.
        """
        now_ms = wall_ms()
        identity = self._identifier.known(room, visitor, now_ms)
        if identity is None:
            return False
        proof = identity.proof
        packed = visitor.packed_status
        if packed is None or packed[0] is not proof:
            visitor.packed_status = packed = proof, pack_status(proof, told=True, seen=True, bind=True)
        asking = _Asking(self, told, room, visitor, identity, return_url, now_ms)
        self._engine.ask_status(room.room, packed[1], asking)
        return True

    def heard(self, asking: _Asking, view: VisitorView) -> None:
        """The engine has answered ``ask``. May raise: it is told."""
        room, identity, return_url = asking.room, asking.identity, asking.return_url
        if self._is_due(identity, view, asking.now_ms):
            asking.go_on(self._renewed(room, asking.visitor, identity, return_url, view), self._tasks, "status")
        else:
            asking.told(_answer(room, identity, return_url, view), None)

    def _is_due(self, identity: Identity, view: VisitorView, now_ms: int) -> bool:
        """Tell whether the holder's token has to be signed anew. Raises StorageUnavailable when he may not be told."""
        if self._hides_draw(view):
            raise StorageUnavailable
        return holds_ticket(view) and self._issuer.is_due(identity, now_ms, view.ticket)

    async def _renewed(
        self, room: VisitorRoom, visitor: Visitor, identity: Identity, return_url: str | None, view: VisitorView
    ) -> VisitorAnswer:
        generation = identity.proof.generation
        place = place_of(generation, view)
        token, cookies = await self._issuer.renew(room, visitor, identity, place, by_cookie=view.owner_by_cookie)
        location, extra = state_location(room, view, return_url, token), b',"token":"%b"' % token.encode()
        return VisitorAnswer(state_json(room, view, generation=generation, location=location, extra=extra), cookies)

    def _hides_draw(self, view: VisitorView) -> bool:
        """The doors have opened, and what this holder waits for cannot be recorded just now (VIS-160)."""
        schedule = view.schedule
        return schedule is not None and schedule.opens_at <= view.now and self._commits.refusing()


def _answer(room: VisitorRoom, identity: Identity, return_url: str | None, view: VisitorView) -> VisitorAnswer:
    location = state_location(room, view, return_url, identity.token)
    return VisitorAnswer(state_json(room, view, generation=identity.proof.generation, location=location), ())


def state_location(room: VisitorRoom, view: VisitorView, return_url: str | None, token: str) -> str:
    """Where a state sends its holder: with his token if he has a pass or session, without in ``bypass``."""
    if not needs_location(view):
        return ""
    if holds_ticket(view):
        return room.destination_with_token(return_url, token)
    return room.destination(return_url)
