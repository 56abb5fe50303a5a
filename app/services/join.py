"""Joining a line: the one place where a ticket is given to a visitor.

Belongs here: the order of steps of a join and what each outcome is answered. Not here: limits and parsing (the
blueprint), the decision itself (``fn/join.lua``). Source: VIS-146 … VIS-156, VIS-231, ENG-069 … ENG-075.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from app.core.clock import wall_ms
from app.core.errors import Forbidden, QmError, RateLimited, StorageUnavailable, Unavailable
from app.domain.from_tokens import FromTokens
from app.infrastructure.engine import Engine
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_errors import StaleRoom
from app.infrastructure.engine_results import JoinAnswer, JoinCode, JoinItem, ViewState
from app.services.asking import Told
from app.services.commit import CommitWaiter, committed_or_undone
from app.services.joining import Joining, Storing
from app.services.protection import Asker, Assessment, Protection
from app.services.visitor import REASONS, VisitorAnswer, needs_location, state_json
from app.services.visitor_counts import Counted, VisitorCounts
from app.services.visitor_proof import Identifier, SecretMaker, Visitor
from app.services.visitor_room import VisitorRoom, VisitorRooms
from app.services.visitor_tokens import Issued, TokenIssuer, place_of

LIMIT_RETRY_SEC: Final = 30
"""``Retry-After`` of a refused place (VIS-150, VIS-231)."""
_IS_CREATED: Final = {JoinCode.CREATED: ',"created":true', JoinCode.EXISTING: ',"created":false'}
# Asking an enum for a member costs as much as a call.
_CREATED, _BYPASS, _LINE_FULL = JoinCode.CREATED, JoinCode.BYPASS, JoinCode.LINE_FULL
_PASSED: Final = ViewState.PASSED


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
        self._tasks: set[asyncio.Task[VisitorAnswer]] = set()

    async def join(
        self,
        room_id: str,
        visitor: Visitor,
        return_url: str | None,
        came_from: str | None = None,
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

    def ask(
        self,
        room_id: str,
        visitor: Visitor,
        return_url: str | None,
        came_from: str | None,
        asker: Asker | None,
        told: Told[VisitorAnswer],
    ) -> bool:
        """``join`` by the shortest way, for most newcomers; False = nothing was done.

        ``told`` hears what ``join`` would return or raise, and StaleRoom, on which ``join`` is to be asked.
        """
        room = self._rooms.peek(room_id)
        if room is None or len(visitor.tokens) > 1:  # which of several is his may have to be asked
            return False
        if self._commits.refusing():
            raise StorageUnavailable
        now_ms = wall_ms()
        identity = self._identifier.identify(room, visitor, now_ms)
        joining = Joining(self, told, room, visitor, identity, return_url)
        self._engine.ask_join(room.room, self._item(joining, came_from, asker, now_ms), joining)
        return True

    async def _join(
        self, room: VisitorRoom, visitor: Visitor, return_url: str | None, came_from: str | None, asker: Asker | None
    ) -> VisitorAnswer:
        now_ms = wall_ms()
        identity = self._identifier.identify(room, visitor, now_ms)
        if identity.others:
            identity = await self._identifier.settle(room, visitor, identity)
        joining = Joining(self, _nobody, room, visitor, identity, return_url)
        answer = await self._engine.join(room.room, self._item(joining, came_from, asker, now_ms))
        self._take(joining, answer)
        return self._bypassed(joining) if answer.code is _BYPASS else await self._rest(joining)

    # The steps of the shortest way

    def heard(self, joining: Joining, answer: JoinAnswer) -> None:
        """The engine has answered ``ask``. May raise: it is told."""
        self._take(joining, answer)
        if answer.code is _CREATED:
            is_stored = self._commits.ask(joining.room.room.id, answer.generation, answer.seq, Storing(joining))
            if is_stored is not None:
                self.stored(joining, is_stored)
        elif answer.code is _BYPASS:
            joining.told(self._bypassed(joining), None)
        else:
            joining.go_on(self._rest(joining), self._tasks, "join")

    def stored(self, joining: Joining, is_stored: bool) -> None:
        """The ticket of ``heard`` is in the journal, or is not. May raise: it is told."""
        if is_stored:
            joining.told(self._ended(joining), None)
        else:
            joining.go_on(self._undone(joining), self._tasks, "join-undo")

    # What both ways have in common

    def _item(self, joining: Joining, came_from: str | None, asker: Asker | None, now_ms: int) -> JoinItem:
        """What the engine is asked."""
        room, visitor, identity = joining.room, joining.visitor, joining.identity
        is_barred = False
        if asker is not None:
            assessed = self._protection.assess(room, visitor, asker, has_cookie=identity.claims is not None)
            joining.assessed = assessed
            is_barred = assessed is not None and assessed.is_barred
        digests, packed = room.digests, visitor.client.packed
        joining.session = session = self._secrets.make()
        address, net = digests.place(packed)
        from_loose = self._froms.read(came_from, room.id, now_ms) if came_from else b""
        return JoinItem(identity.proof, digests.cookie(session), address, packed, net, from_loose, is_barred)

    def _take(self, joining: Joining, answer: JoinAnswer) -> None:
        """Take in what the engine has given; raises what refuses."""
        room, assessed = joining.room, joining.assessed
        if assessed is not None:
            self._protection.note(room, joining.visitor, assessed, answer)
        if answer.code is _LINE_FULL:
            self._counts.join_refused(room.id, is_memory=answer.seq != 0)
        view = answer.view
        if view is None:
            raise _refusal(room, answer, assessed)
        joining.answer = answer
        joining.view = view
        joining.destination = self._destination(room, joining.return_url)

    def _bypassed(self, joining: Joining) -> VisitorAnswer:
        generation, location = joining.answer.generation, joining.destination
        extra = b',"created":false'
        return VisitorAnswer(
            state_json(joining.room, joining.view, generation=generation, location=location, extra=extra), ()
        )

    async def _rest(self, joining: Joining) -> VisitorAnswer:
        """Return once the ticket is in the journal; else withdraw it and raise StorageUnavailable."""
        room, answer, view = joining.room, joining.answer, joining.view
        waiting = self._commits.wait(room.room.id, answer.generation, answer.seq)
        if answer.code is _CREATED:
            await committed_or_undone(waiting, lambda: self._undo(joining))
            return self._ended(joining)
        # The ticket stands; at worst its owner asks again, and nothing of his may be withdrawn.
        if not await waiting:
            raise StorageUnavailable
        place = place_of(answer.generation, view)
        issued = await self._issuer.renew(
            room, joining.visitor, joining.identity, place, by_cookie=view.owner_by_cookie
        )
        return self._told(joining, issued)

    async def _undone(self, joining: Joining) -> VisitorAnswer:
        """The answer to a newcomer whose ticket was stored after all; else raises StorageUnavailable."""
        if not await self._undo(joining):
            raise StorageUnavailable
        return self._ended(joining)

    def _undo(self, joining: Joining) -> Awaitable[bool]:
        room_id, answer, view = joining.room.room.id, joining.answer, joining.view
        if view.handle:
            return self._engine_admin.undo_prejoin(room_id, answer.generation, answer.seq, view.handle)
        return self._engine_admin.undo_join(room_id, answer.generation, answer.seq, view.ticket)

    def _ended(self, joining: Joining) -> VisitorAnswer:
        """The answer to a newcomer whose ticket is stored."""
        room, view = joining.room, joining.view
        self._counts.joined(room.id, is_passed=view.state is _PASSED)
        place = place_of(joining.answer.generation, view)
        return self._told(joining, self._issuer.issue(room, joining.visitor, place, joining.session))

    def _told(self, joining: Joining, issued: Issued) -> VisitorAnswer:
        room, answer, view = joining.room, joining.answer, joining.view
        reason = answer.reason
        text = f'{_IS_CREATED[answer.code]}{REASONS[reason] if reason else ""},"token":"{issued.token}"'
        location = room.tokened(joining.destination, issued.token) if needs_location(view) else ""
        body = state_json(room, view, generation=answer.generation, location=location, extra=text.encode())
        return VisitorAnswer(body, issued.cookies)

    def _destination(self, room: VisitorRoom, return_url: str | None) -> str:
        """Where the pass will lead; a refused return URL is counted once per join (VIS-153)."""
        judged = room.accepted_return(return_url) if return_url else None
        if return_url and judged is None:
            self._counts.count(Counted.BLOCKED_RETURN_URLS, room.id)
        return judged or room.target


def _nobody(_answer: VisitorAnswer | None, _error: BaseException | None) -> None:
    """Hears what a coroutine says to its caller."""


def _identity_limit(cap: int | None, where: str, code: str) -> RateLimited:
    sentence = f"This address already holds {cap} places {where}"
    return RateLimited(sentence, code=code, headers={"Retry-After": str(LIMIT_RETRY_SEC)})


def _refusal(room: VisitorRoom, answer: JoinAnswer, assessed: Assessment | None) -> QmError:
    """What is raised for a join that the engine refused."""
    code = answer.code
    if code is JoinCode.BARRED and assessed is not None:
        return Forbidden(
            "No place in line is given to automated clients",
            code="blocked_by_protection",
            headers={"X-QM-Protection": f"block score={assessed.score}"},
        )
    if code is JoinCode.IDENTITY_LIMIT:
        return _identity_limit(room.room.config.queue_max_per_ip, "in this line", "queue_identity_limit")
    if code is JoinCode.PRE_IDENTITY_LIMIT:
        cap = room.room.config.pre_queue_max_per_ip
        return _identity_limit(cap, "for the opening of this line", "prequeue_identity_limit")
    return Unavailable(
        "This line is full just now. Try again shortly.",
        code="line_full",
        retry_after_sec=LIMIT_RETRY_SEC,
        headers={"X-QM-Queued": "1"},
    )
