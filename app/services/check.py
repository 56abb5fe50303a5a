"""The check of a page: pass or queue. The hottest use case of the server.

Belongs here: what each decision of the engine is answered, the commit of an admission. Not here: CORS, limits and
parsing (the blueprint), the decision itself (``fn/check.lua``). Source: VIS-120 … VIS-130, ENG-144 … ENG-159.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from app.core.clock import wall_ms
from app.core.errors import StorageUnavailable
from app.domain.fingerprint import arrival, fingerprints
from app.domain.from_tokens import FromTokens
from app.domain.room import RoomState
from app.infrastructure.engine import Engine
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_errors import StaleRoom
from app.infrastructure.engine_pack import PackedCheck
from app.infrastructure.engine_results import (
    CheckAnswer,
    CheckItem,
    Presented,
    Reason,
    Verdict,
    Via,
    ViewState,
    VisitorView,
)
from app.services.asking import Told
from app.services.checking import CheckAsking
from app.services.commit import CommitWaiter, committed_or_undone
from app.services.visitor import REASONS, VisitorAnswer
from app.services.visitor_counts import Counted, VisitorCounts
from app.services.visitor_proof import Identifier, Identity, SecretMaker, Visitor
from app.services.visitor_room import Covered, VisitorRoom, VisitorRooms
from app.services.visitor_tokens import TokenIssuer

# Asking an enum for a member costs as much as a call.
_QUEUE, _SESSION, _ADMITTED = Verdict.QUEUE, Verdict.SESSION, Verdict.ADMITTED
_VALID, _ACTIVE, _DIRECT = Presented.VALID, ViewState.ACTIVE, Via.DIRECT
_NO_DOOR: Final = bytes(16)
_SAMPLE_KEY: Final = "A" * 43
"""Stands for the door key where an answer only has to have the right length (``HEAD``)."""
_PASS_BY_STATE: Final = {ViewState.PASSED: Verdict.ADMITTED, ViewState.BYPASS: Verdict.BYPASS}
_QUEUE_REASON: Final = {
    ViewState.WAITING: Reason.WAITING,
    ViewState.PAUSED: Reason.PAUSED,
    ViewState.SCHEDULED: Reason.SCHEDULED,
    ViewState.AT_CAPACITY: Reason.AT_CAPACITY,
}


class CommitsFail(StorageUnavailable):
    """503: an admission would not be recorded at present, so it is not made (VIS-210)."""


class BackendDown(StorageUnavailable):
    """503: the room's live state cannot be asked (INL-187)."""


class Gated(NamedTuple):
    """What the gate decided about a request."""

    room: VisitorRoom
    answer: CheckAnswer
    cookies: Sequence[bytes]
    """``Set-Cookie`` values that the answer brings."""
    token: str = ""
    """The token signed anew, when it was due."""
    door: str = ""
    """The door key of an admission."""


class CheckService:
    """Answers ``/api/check``: one engine call, and the commit when it admits."""

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
    ) -> None:
        self._froms = froms
        self._engine = engine
        self._engine_admin = engine_admin
        self._commits = commits
        self._rooms = rooms
        self._identifier = identifier
        self._issuer = issuer
        self._counts = counts
        self._secrets = SecretMaker()
        self._tasks: set[asyncio.Task[Gated]] = set()

    async def check(
        self, room: VisitorRoom, visitor: Visitor, url: str | None, *, is_alike: bool = False
    ) -> VisitorAnswer:
        """Decide about one page. ``is_alike``: visitors of this peer cannot be told apart (ENG-298).

        Raises NoRoom, StorageUnavailable; an admission is in the journal when it returns.
        """
        try:
            return await self._check(room, visitor, url, is_alike)
        except StaleRoom:
            return await self._rooms.again(room, lambda fresh: self._check(fresh, visitor, url, is_alike))

    async def preview(self, room: VisitorRoom, visitor: Visitor, url: str | None) -> VisitorAnswer:
        """What ``check`` would answer, changing nothing (``HEAD``, VIS-039): same shape, same length, no cookie."""
        return await self._rooms.current(room, lambda current: self._preview(current, visitor, url))

    async def gate(self, room: VisitorRoom, visitor: Visitor, url: str | None, *, is_alike: bool = False) -> Gated:
        """The same decision for a request to an inline host (INL-077); an admission is in the journal on return.

        Raises NoRoom; BackendDown when the engine cannot be asked, CommitsFail when an admission cannot be recorded.
        """
        try:
            try:
                return await self._gate(room, visitor, url, is_alike)
            except StaleRoom:
                return await self._rooms.again(room, lambda fresh: self._gate(fresh, visitor, url, is_alike))
        except CommitsFail:
            raise
        except StorageUnavailable as error:
            raise BackendDown from error

    def ask_direct(
        self, room: VisitorRoom, visitor: Visitor, url: str | None, told: Told[Gated], *, is_alike: bool
    ) -> bool:
        """``ask`` for a page that asks by itself."""
        return self.ask(room, visitor, url, told, _DIRECT, is_alike=is_alike)

    def ask(
        self,
        room: VisitorRoom,
        visitor: Visitor,
        url: str | None,
        told: Told[Gated],
        via: Via,
        *,
        is_alike: bool = False,
    ) -> bool:
        """``gate`` or ``check`` by the shortest way, for a visitor who was read before; False = nothing was done.

        ``told`` hears StaleRoom, on which ``gate`` or ``check`` is to be asked, and StorageUnavailable as it is.
        """
        if self._commits.refusing():
            return False
        now_ms = wall_ms()
        identity = self._identifier.known(room, visitor, now_ms)
        if identity is None:
            return False
        packed = visitor.packed
        if (
            packed is None
            or packed.proof is not identity.proof
            or packed.via is not via
            or packed.is_alike is not is_alike
        ):
            came = arrival(room.digests, visitor.client, visitor.agent)
            visitor.packed = packed = PackedCheck.of(identity.proof, via, came, is_alike=is_alike)
        covered, door = room.covers(url), self._door(room)
        asking = CheckAsking(self, told, room, visitor, identity, covered, door, now_ms)
        self._engine.ask_check(room.room, packed.item(covered[0], door[1]), asking)
        return True

    def heard(self, asking: CheckAsking, answer: CheckAnswer) -> None:
        """The engine has answered ``ask``. May raise: it is told."""
        room, identity, now_ms = asking.room, asking.identity, asking.now_ms
        self._note(room, asking.covered, answer, asking.door, now_ms)
        verdict = answer.verdict
        is_done = verdict is _QUEUE
        if not is_done and verdict is not _ADMITTED:
            # The token is fresh, or ``ask`` would not have been answered.
            is_done = verdict is not _SESSION or self._commits.is_stored(room.id, answer.generation, answer.seq)
        if is_done:
            asking.told(Gated(room, answer, ()), None)
        else:
            rest = self._rest(room, asking.visitor, identity, answer, asking.door[0], now_ms)
            asking.go_on(rest, self._tasks, "gate")

    async def _gate(self, room: VisitorRoom, visitor: Visitor, url: str | None, is_alike: bool) -> Gated:
        now_ms = wall_ms()
        identity, answer, door = await self._decide(room, visitor, url, Via.INLINE, now_ms, is_alike=is_alike)
        if answer.verdict is _QUEUE:
            return Gated(room, answer, ())
        return await self._rest(room, visitor, identity, answer, door, now_ms)

    async def _rest(
        self, room: VisitorRoom, visitor: Visitor, identity: Identity, answer: CheckAnswer, door: str, now_ms: int
    ) -> Gated:
        """What an answer that lets in still needs. Raises CommitsFail."""
        try:
            cookies, token = await self._passed(room, visitor, identity, answer, door, now_ms)
        except StorageUnavailable as error:
            raise CommitsFail from error
        return Gated(room, answer, cookies, token, door)

    async def _check(self, room: VisitorRoom, visitor: Visitor, url: str | None, is_alike: bool) -> VisitorAnswer:
        now_ms = wall_ms()
        via = Via.VOUCHED if visitor.is_vouched else Via.DIRECT
        identity, answer, door = await self._decide(room, visitor, url, via, now_ms, is_alike=is_alike)
        gated = Gated(room, answer, ())
        if answer.verdict is not _QUEUE:
            gated = await self._rest(room, visitor, identity, answer, door, now_ms)
        return VisitorAnswer(self.body(gated, visitor, url), () if visitor.is_vouched else gated.cookies)

    def body(self, gated: Gated, visitor: Visitor, url: str | None) -> bytes:
        """The answer to a check as JSON (VIS-124 … VIS-126)."""
        room, answer = gated.room, gated.answer
        if answer.verdict is _QUEUE:
            return _queue_json(room, answer.reason, answer.room_state, self._waiting_page(room, visitor, url))
        return _pass_json(room, answer.verdict, gated.door, gated.token, answer.session_expires_at)

    async def _decide(
        self, room: VisitorRoom, visitor: Visitor, url: str | None, via: Via, now_ms: int, *, is_alike: bool = False
    ) -> tuple[Identity, CheckAnswer, str]:
        """What the engine says, for whom, and the door key that an admission would have."""
        covered = room.covers(url)
        identity = self._identifier.identify(room, visitor, now_ms)
        if identity.others:
            identity = await self._identifier.settle(room, visitor, identity)
        door, digest = "", _NO_DOOR
        if identity.proof.presented >= _VALID:
            if self._commits.refusing():
                await self._refuse_admission(room, identity)
            door, digest = self._door(room)
        came = arrival(room.digests, visitor.client, visitor.agent)
        item = CheckItem(identity.proof, covered[0], digest, via, came, is_alike)
        answer = await self._engine.check(room.room, item)
        self._note(room, covered, answer, (door, digest), now_ms)
        return identity, answer, door

    def _note(
        self, room: VisitorRoom, covered: Covered, answer: CheckAnswer, door: tuple[str, bytes], now_ms: int
    ) -> None:
        """Count what a check was, and keep its door key when nobody was admitted by it."""
        _, is_readable, rule = covered
        if rule is not None:
            self._counts.rule_hit(rule, now_ms)
        if not is_readable:
            self._counts.count(Counted.CHECKS_WITHOUT_URL, room.id)
        if door[0] and answer.verdict is not _ADMITTED:
            room.spare_doors.append(door)
        if answer.is_shared:
            self._counts.count(Counted.SHARED_SESSIONS, room.id)

    async def _passed(
        self, room: VisitorRoom, visitor: Visitor, identity: Identity, answer: CheckAnswer, door: str, now_ms: int
    ) -> tuple[list[bytes], str]:
        """Cookies and new token of an answer that lets in, once what it rests on is committed."""
        if answer.seq:
            await self._commit(room, answer)
        cookies: list[bytes] = []
        if answer.verdict is _ADMITTED:
            self._counts.admitted(room.id)
            cookies.append(room.cookies.door(door, visitor.client.scheme))
        token = ""
        if answer.ticket and self._issuer.is_due(identity, now_ms):
            place = (answer.generation, answer.ticket)
            issued = await self._issuer.renew(room, visitor, identity, place, by_cookie=True)
            token, cookies = issued.token, cookies + issued.cookies
        return cookies, token

    def _door(self, room: VisitorRoom) -> tuple[str, bytes]:
        """A door key that nobody has seen, and its digest."""
        if room.spare_doors:
            return room.spare_doors.pop()
        door = self._secrets.make()
        return door, room.digests.door(door)

    async def _commit(self, room: VisitorRoom, answer: CheckAnswer) -> None:
        """Return once the admission that the answer rests on is in the journal (ENG-146).

        Raises StorageUnavailable otherwise; an admission of this very check is then withdrawn. A page that needs no
        admission waits for none.
        """
        room_id, generation, mark = room.room.id, answer.generation, answer.seq
        if answer.verdict is _ADMITTED:
            await committed_or_undone(
                self._commits.wait(room_id, generation, mark),
                lambda: self._engine_admin.undo_admission(room_id, generation, mark, answer.ticket),
            )
        elif answer.verdict is _SESSION and not await self._commits.wait(room_id, generation, mark):
            raise StorageUnavailable

    async def _refuse_admission(self, room: VisitorRoom, identity: Identity) -> None:
        """While commits fail, refuse what would be an admission before it is made; sessions go on (VIS-210)."""
        view = await self._engine.status(room.room, identity.proof, told=False, seen=False)
        if view.state is ViewState.PASSED:
            raise CommitsFail

    def _waiting_page(self, room: VisitorRoom, visitor: Visitor, url: str | None) -> str:
        page = room.waiting_page(self._rooms.public_base or visitor.client.base, url)
        if not visitor.is_vouched or room.room.config.is_inline:
            return page
        _, loose = fingerprints(room.digests, visitor.client, visitor.agent)
        return f"{page}{'&' if '?' in page else '?'}qm_from={self._froms.sign(room.id, loose, wall_ms())}"

    async def _preview(self, room: VisitorRoom, visitor: Visitor, url: str | None) -> VisitorAnswer:
        identity = self._identifier.identify(room, visitor, wall_ms())
        if identity.others:
            identity = await self._identifier.settle(room, visitor, identity)
        view = await self._engine.status(room.room, identity.proof, told=False, seen=False)
        if not room.covers(url)[0]:
            return VisitorAnswer(_pass_json(room, Verdict.NOT_TARGETED, "", "", 0), [])
        if view.state is _ACTIVE and await self._holds_key(room, identity):
            return VisitorAnswer(_pass_json(room, _SESSION, "", "", view.session_expires_at), [])
        verdict = _PASS_BY_STATE.get(view.state)
        if verdict is not None:
            expires = view.now + room.room.config.session_ttl_sec * 1000
            return VisitorAnswer(_pass_json(room, verdict, _SAMPLE_KEY, "", expires), [])
        location = self._waiting_page(room, visitor, url)
        return VisitorAnswer(_queue_json(room, _reason_of(view), view.room_state, location), [])

    async def _holds_key(self, room: VisitorRoom, identity: Identity) -> bool:
        """Tell whether the door key alone opens the running session."""
        if not identity.proof.doors:
            return False
        proof = identity.proof._replace(cookies=b"")
        view = await self._engine.status(room.room, proof, told=False, seen=False)
        return view.state is _ACTIVE


def _reason_of(view: VisitorView) -> Reason:
    """The reason a check gives for a state that does not pass."""
    if view.state is _ACTIVE:
        return Reason.SESSION_ELSEWHERE
    return _QUEUE_REASON.get(view.state, view.reason)


def _pass_json(room: VisitorRoom, verdict: Verdict, door: str, token: str, expires: int) -> bytes:
    """``{"action":"pass",…}`` (VIS-124). ``door`` and ``expires`` are shown where the verdict has them."""
    members = f',"token":"{token}"' if token else ""
    if verdict is _ADMITTED:
        members += f',"doorKey":"{door}"'
    if verdict in _TIMED:
        members += f',"sessionExpiresAt":{expires}'
    return f'{{"action":"pass"{room.json_id}{_VERDICTS[verdict]}{members},"recheckSec":{room.recheck_sec}}}'.encode()


def _queue_json(room: VisitorRoom, reason: Reason, room_state: RoomState, location: str) -> bytes:
    """``{"action":"queue",…}`` (VIS-125, VIS-126)."""
    return (
        f'{{"action":"queue"{room.json_id}{REASONS[reason]},"roomState":"{_ROOM_STATES[room_state]}",'
        f'"location":"{location}"}}'
    ).encode()


_TIMED: Final = frozenset({_ADMITTED, _SESSION})
_VERDICTS: Final = {verdict: f',"reason":"{verdict.word}"' for verdict in Verdict}
_ROOM_STATES: Final = {state: state.word for state in RoomState}
