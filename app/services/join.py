"""Joining a line: the one place where a ticket is given to a visitor.

Belongs here: the order of steps of a join and what each outcome is answered. Not here: limits and parsing (the
blueprint), the decision itself (``fn/join.lua``). Source: VIS-146 … VIS-156, VIS-231, ENG-069 … ENG-075.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Final

from app.core.clock import wall_ms
from app.core.errors import Forbidden, RateLimited, StorageUnavailable, Unavailable
from app.core.ids import RoomId
from app.domain.from_tokens import FromTokens
from app.infrastructure.engine import Engine
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_errors import StaleRoom
from app.infrastructure.engine_results import JoinAnswer, JoinCode, JoinItem, Reason, ViewState, VisitorView
from app.services.commit import CommitWaiter, committed_or_undone
from app.services.protection import Asker, Assessment, Protection
from app.services.visitor import REASONS, needs_location, state_json
from app.services.visitor_counts import Counted, VisitorCounts
from app.services.visitor_proof import Identifier, SecretMaker, Visitor
from app.services.visitor_room import VisitorRoom, VisitorRooms
from app.services.visitor_tokens import TokenIssuer, place_of

LIMIT_RETRY_SEC: Final = 30
"""``Retry-After`` of a refused place (VIS-150, VIS-231)."""
_CREATED: Final = {JoinCode.CREATED: ',"created":true', JoinCode.EXISTING: ',"created":false'}


@dataclass(slots=True)
class VisitorAnswer:
    """A ``200``: its JSON body and ``Set-Cookie`` values."""

    body: bytes
    cookies: Sequence[bytes]


class JoinService:
    """Answers ``POST /api/join`` after the commit of the ticket it gives."""

    def __init__(
        self,
        *,
        engine: Engine,
        engine_admin: EngineAdmin,
        commits: CommitWaiter,
        rooms: VisitorRooms,
        identifier: Identifier,
        issuer: TokenIssuer,
        counts: VisitorCounts,
        froms: FromTokens,
        protection: Protection,
    ) -> None:
        self._engine = engine
        self._engine_admin = engine_admin
        self._commits = commits
        self._rooms = rooms
        self._identifier = identifier
        self._issuer = issuer
        self._counts = counts
        self._froms = froms
        self._protection = protection
        self._secrets = SecretMaker()

    async def join(
        self,
        room_id: str,
        visitor: Visitor,
        return_url: str | None,
        came_from: str | None = None,
        *,
        asker: Asker | None = None,
    ) -> VisitorAnswer:
        """Give ``visitor`` his place: the one he has, or a new one at the end. ``came_from``: ``qm_from`` (VIS-139).

        ``asker``: what bot protection goes by; None = it is not asked.
        Raises NoRoom; RateLimited ``queue_identity_limit`` or ``prequeue_identity_limit``; Unavailable ``line_full``;
        StorageUnavailable, and then he has no place by this call.
        """
        room = self._rooms.peek(room_id) or await self._rooms.find(room_id)
        if self._commits.refusing():
            raise StorageUnavailable
        try:
            return await self._join(room, visitor, return_url, came_from, asker)
        except StaleRoom:
            return await self._rooms.again(room, lambda fresh: self._join(fresh, visitor, return_url, came_from, asker))

    async def _join(
        self, room: VisitorRoom, visitor: Visitor, return_url: str | None, came_from: str | None, asker: Asker | None
    ) -> VisitorAnswer:
        now_ms = wall_ms()
        identity = self._identifier.identify(room, visitor, now_ms)
        if identity.others:
            identity = await self._identifier.settle(room, visitor, identity)
        assessed = None
        if asker is not None:
            has_cookie = identity.claims is not None
            assessed = self._protection.assess(room, visitor, asker, has_cookie=has_cookie)
        digests, session = room.digests, self._secrets.make()
        address, net = digests.place(visitor.client.packed)
        item = JoinItem(
            proof=identity.proof,
            cookie=digests.cookie(session),
            address=address,
            ip=visitor.client.packed,
            net=net,
            from_loose=self._froms.read(came_from, room.id, now_ms),
            is_barred=assessed is not None and assessed.is_barred,
        )
        answer = await self._engine.join(room.room, item)
        if assessed is not None:
            self._protection.note(room, visitor, assessed, answer)
        if answer.code is JoinCode.LINE_FULL:
            self._counts.join_refused(room.id, is_memory=answer.seq != 0)
        view = _given(room, answer, assessed)
        destination = self._destination(room, return_url)
        if answer.code is JoinCode.BYPASS:
            body = state_json(room, view, generation=answer.generation, location=destination, extra=b',"created":false')
            return VisitorAnswer(body, [])
        await self._commit(room.room.id, answer, view)
        place = place_of(answer.generation, view)
        if answer.code is JoinCode.CREATED:
            self._counts.joined(room.id, is_passed=view.state is ViewState.PASSED)
            issued = self._issuer.issue(room, visitor, place, session)
        else:
            issued = await self._issuer.renew(room, visitor, identity, place, by_cookie=view.owner_by_cookie)
        reason = REASONS[answer.reason] if answer.reason is not Reason.NONE else ""
        extra = f'{_CREATED[answer.code]}{reason},"token":"{issued.token}"'.encode()
        location = room.tokened(destination, issued.token) if needs_location(view) else ""
        body = state_json(room, view, generation=answer.generation, location=location, extra=extra)
        return VisitorAnswer(body, issued.cookies)

    async def _commit(self, room_id: RoomId, answer: JoinAnswer, view: VisitorView) -> None:
        """Return once the ticket is in the journal; else withdraw it and raise StorageUnavailable."""
        waiting = self._commits.wait(room_id, answer.generation, answer.seq)
        if answer.code is not JoinCode.CREATED:
            # The ticket stands; at worst its owner asks again, and nothing of his may be withdrawn.
            if not await waiting:
                raise StorageUnavailable
            return
        await committed_or_undone(waiting, lambda: self._undo(room_id, answer, view))

    def _undo(self, room_id: RoomId, answer: JoinAnswer, view: VisitorView) -> Awaitable[bool]:
        if view.handle:
            return self._engine_admin.undo_prejoin(room_id, answer.generation, answer.seq, view.handle)
        return self._engine_admin.undo_join(room_id, answer.generation, answer.seq, view.ticket)

    def _destination(self, room: VisitorRoom, return_url: str | None) -> str:
        """Where the pass will lead; a refused return URL is counted once per join (VIS-153)."""
        judged = room.accepted_return(return_url) if return_url else None
        if return_url and judged is None:
            self._counts.count(Counted.BLOCKED_RETURN_URLS, room.id)
        return judged or room.target


def _identity_limit(cap: int | None, where: str, code: str) -> RateLimited:
    sentence = f"This address already holds {cap} places {where}"
    return RateLimited(sentence, code=code, headers={"Retry-After": str(LIMIT_RETRY_SEC)})


def _given(room: VisitorRoom, answer: JoinAnswer, assessed: Assessment | None) -> VisitorView:
    """The view of a join that was not refused."""
    if answer.code is JoinCode.BARRED and assessed is not None:
        raise Forbidden(
            "No place in line is given to automated clients",
            code="blocked_by_protection",
            headers={"X-QM-Protection": f"block score={assessed.score}"},
        )
    if answer.code is JoinCode.IDENTITY_LIMIT:
        raise _identity_limit(room.room.config.queue_max_per_ip, "in this line", "queue_identity_limit")
    if answer.code is JoinCode.PRE_IDENTITY_LIMIT:
        cap = room.room.config.pre_queue_max_per_ip
        raise _identity_limit(cap, "for the opening of this line", "prequeue_identity_limit")
    if answer.code is JoinCode.LINE_FULL or answer.view is None:
        raise Unavailable(
            "This line is full just now. Try again shortly.",
            code="line_full",
            retry_after_sec=LIMIT_RETRY_SEC,
            headers={"X-QM-Queued": "1"},
        )
    return answer.view
