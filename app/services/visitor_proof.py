"""Who asks: the token, cookies and fingerprints of a request, brought into the form the engine judges.

Belongs here: reading of what was presented, the choice among several values of one name. Not here: whether it
proves anything (the engine decides, ENG-107). Source: ENG-100 … ENG-112, VIS-227.
"""

from __future__ import annotations

import asyncio
import secrets
from binascii import b2a_base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.core.metrics import TOKENS_PRESENTED
from app.domain.client_address import Client
from app.domain.fingerprint import fingerprints
from app.domain.tokens import Cause, Claims, VisitorTokens, handle_bytes
from app.infrastructure.engine import Engine
from app.infrastructure.engine_pack import PackedCheck
from app.infrastructure.engine_results import Presented, Proof, ViewState, VisitorView
from app.services.visitor_counts import VisitorCounts
from app.services.visitor_room import VisitorRoom

SECRET_BYTES: Final = 32
"""Size of a session value and of a door key (ENG-102, ENG-152)."""
MAX_SESSIONS: Final = 4
MAX_DOORS: Final = 4
_SPARE_SECRETS: Final = 64
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
# Asking an enum for a member costs as much as a call.
_NONE, _REFUSED, _VALID = Presented.NONE, Presented.REFUSED, Presented.VALID


@dataclass(slots=True)
class Visitor:
    """What one request says of its sender. All values are text as sent; none is believed yet."""

    client: Client
    agent: bytes
    """``User-Agent``."""
    tokens: Sequence[str]
    """The token of body or query alone, or else all values of ``qm_<room>``, at most 4."""
    sessions: Sequence[str] = ()
    """Values of ``qms_<room>``, at most 4."""
    doors: Sequence[str] = ()
    """Presented door keys, at most 4."""
    crowd: Sequence[tuple[str, str]] = ()
    """Name and value of all ``qm_…`` cookies, filled in only when they are so many that some may have to go."""
    is_vouched: bool = False
    """A connector that holds a key says so of him (VIS-132)."""
    known: Known | None = None
    """What was read of him last."""
    packed: PackedCheck | None = None
    """His question at the door, packed for the last copy of a room that he asked."""
    packed_status: tuple[Proof, bytes] | None = None
    """His question for his place, with the proof that is packed in it."""


@dataclass(slots=True)
class Identity:
    """One visitor as the engine is asked about him. ``claims`` and ``token`` belong to the token in ``proof``."""

    proof: Proof
    claims: Claims | None
    token: str
    others: Sequence[tuple[Claims, str]] = ()
    """Further good tokens of the request, for other tickets."""


Known = tuple[VisitorRoom, int, int, Identity]
"""What was read of a visitor for a copy of a room; until when (wall ms) that holds, and his token is fresh."""


class SecretMaker:
    """Makes session values and door keys: 43 characters of base64url. Draws from the system in larger pieces."""

    __slots__ = ("_spare",)

    def __init__(self) -> None:
        self._spare = b""

    def make(self) -> str:
        """A new secret; never the same bytes twice."""
        if not self._spare:
            self._spare = secrets.token_bytes(SECRET_BYTES * _SPARE_SECRETS)
        raw, self._spare = self._spare[:SECRET_BYTES], self._spare[SECRET_BYTES:]
        return b2a_base64(raw, newline=False).translate(_TO_URL)[:43].decode()


class Identifier:
    """Turns a Visitor into an Identity, and settles which of several values is his."""

    __slots__ = ("_counts", "_engine", "_presented", "_tokens")

    def __init__(self, *, engine: Engine, tokens: VisitorTokens, counts: VisitorCounts) -> None:
        self._engine = engine
        self._tokens = tokens
        self._counts = counts
        self._presented = counts.book.tally(TOKENS_PRESENTED)

    def known(self, room: VisitorRoom, visitor: Visitor, now_ms: int) -> Identity | None:
        """What ``identify`` would say again of a visitor with one good token that is not to be signed anew yet.

        None = he has to be read.
        """
        known = visitor.known
        if known is None or known[0] is not room or now_ms > known[2]:
            return None
        self._presented.add()
        return known[3]

    def identify(self, room: VisitorRoom, visitor: Visitor, now_ms: int) -> Identity:
        """Read what ``visitor`` presents for ``room``. Costs no trip.

        Good tokens stay good until they are too old, so that a visitor who asks again is not read again.
        """
        if visitor.tokens:
            self._presented.add()
        known = visitor.known
        if known is not None and known[0] is room and now_ms <= known[1]:
            return known[3]
        refused = False
        claims, token = None, ""
        others: list[tuple[Claims, str]] = []
        presented = _REFUSED if visitor.tokens else _NONE
        for text in visitor.tokens:
            verdict = self._tokens.verify(text, room.id, now_ms)
            if isinstance(verdict, Cause):
                self._counts.rejected_token(room.id, verdict, visitor.client.packed)
                refused = True
            elif claims is None:
                claims, token, presented = verdict, text, _VALID
            elif verdict[:4] != claims[:4] and all(verdict[:4] != other[0][:4] for other in others):
                others.append((verdict, text))
        proof = _proof(room, visitor, presented, claims, may_bind=not others and len(visitor.sessions) <= 1)
        identity = Identity(proof, claims, token, others)
        if claims is not None and not refused and not others:
            visitor.known = room, self._tokens.good_until(claims), self._tokens.fresh_until(claims), identity
        return identity

    async def settle(self, room: VisitorRoom, visitor: Visitor, identity: Identity) -> Identity:
        """The identity with the token that is the visitor's own, when he brought several (VIS-227).

        A cookie planted from a sibling host thus neither hides nor replaces his ticket: a live ticket of his wins; of
        two, as when somebody planted a whole pair of cookies, the one bound to this very client; if none is his, the
        first counts. Asks the engine, changing nothing; only called when ``identity.others`` is not empty.
        """
        options = [(identity.claims, identity.token), *identity.others]
        identities = []
        for claims, token in options:
            identities.append(Identity(_proof(room, visitor, Presented.VALID, claims), claims, token))
        views = await self._look_at(room, [each.proof for each in identities])
        own = [each for each, view in zip(identities, views, strict=True) if _is_live(view)]
        if len(own) > 1:
            bare = await self._look_at(room, [each.proof._replace(cookies=b"") for each in own])
            own = [each for each, view in zip(own, bare, strict=True) if _is_live(view)] or own
        return own[0] if own else identities[0]

    async def own_session(self, room: VisitorRoom, visitor: Visitor, identity: Identity) -> str | None:
        """The ``qms_`` value that proved ownership; asked for when an answer prolongs that cookie."""
        values = list(dict.fromkeys(visitor.sessions))
        if len(values) <= 1:
            return values[0] if values else None
        proofs = [
            _proof(room, _with_session(visitor, value), identity.proof.presented, identity.claims) for value in values
        ]
        views = await self._look_at(room, proofs)
        return next((value for value, view in zip(values, views, strict=True) if view.owner_by_cookie), None)

    async def _look_at(self, room: VisitorRoom, proofs: Sequence[Proof]) -> list[VisitorView]:
        """What each proof would show, without being seen."""
        asked = (self._engine.status(room.room, proof, told=False, seen=False) for proof in proofs)
        return await asyncio.gather(*asked)


def _is_live(view: VisitorView) -> bool:
    return view.state < ViewState.BYPASS


def _with_session(visitor: Visitor, value: str) -> Visitor:
    return Visitor(visitor.client, visitor.agent, visitor.tokens, (value,), visitor.doors)


def _proof(
    room: VisitorRoom, visitor: Visitor, presented: Presented, claims: Claims | None, *, may_bind: bool = False
) -> Proof:
    """Digests of what was presented."""
    digests, client, sessions, doors = room.digests, visitor.client, visitor.sessions, visitor.doors
    strict, loose = fingerprints(digests, client, visitor.agent)
    handle = b""
    if claims is not None and claims.handle:
        presented, handle = Presented.HANDLE, handle_bytes(claims.handle)
    return Proof(
        presented,
        0 if claims is None else claims.generation,
        0 if claims is None else claims.ticket,
        b"".join(map(digests.cookie, sessions[:MAX_SESSIONS])) if sessions else b"",
        strict,
        loose,
        b"".join(map(digests.door, doors[:MAX_DOORS])) if doors else b"",
        handle,
        client.declared,
        may_bind,
    )
