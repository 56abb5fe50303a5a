"""Handing out tokens with their cookies: for a new ticket, and anew for one that grows old.

Belongs here: when a token is renewed and which cookies go with it. Not here: signing (domain/tokens.py).
Source: ENG-091, VIS-050, VIS-051, VIS-056.
"""

from __future__ import annotations

from typing import NamedTuple

from app.core.clock import wall_ms
from app.domain.cookies import CookiePolicy, RoomCookies, surplus_rooms
from app.domain.tokens import Claims, VisitorTokens, handle_text
from app.infrastructure.engine_results import VisitorView
from app.services.visitor_proof import Identifier, Identity, Visitor
from app.services.visitor_room import VisitorRoom

Place = tuple[int, int | str]
"""Generation, and the ticket's number or the handle's text."""


def place_of(generation: int, view: VisitorView) -> Place:
    """What a view shows its owner: his ticket, or his place in the pre-queue."""
    return generation, view.ticket or handle_text(view.handle)


class Issued(NamedTuple):
    """A token and the ``Set-Cookie`` values that bring it to the browser."""

    token: str
    cookies: list[bytes]


class TokenIssuer:
    """Signs tickets and prolongs the cookies that belong to them."""

    __slots__ = ("_cookies", "_identifier", "_tokens")

    def __init__(self, *, tokens: VisitorTokens, identifier: Identifier, cookies: CookiePolicy) -> None:
        self._tokens = tokens
        self._identifier = identifier
        self._cookies = cookies

    def is_due(self, identity: Identity, now_ms: int, ticket: int = 0) -> bool:
        """Tell whether the token that was presented has to be signed anew: it is old, or one of a handle that has
        become ``ticket`` (ENG-181)."""
        claims = identity.claims
        return claims is not None and ((ticket > 0 and claims.handle != "") or self._tokens.is_due(claims, now_ms))

    def token(self, room_id: str, place: Place) -> str:
        """Token of ``place``, issued now."""
        generation, what = place
        if isinstance(what, str):
            return self._tokens.sign_handle(room_id, generation, what, wall_ms())
        return self._tokens.sign(room_id, generation, what, wall_ms())

    def issue(self, room: VisitorRoom, visitor: Visitor, place: Place, session: str | None) -> Issued:
        """Token of ``place`` with its cookies. ``session``: the ``qms_`` value to set beside it, if any."""
        token = self.token(room.id, place)
        scheme = visitor.client.scheme
        cookies = [room.cookies.ticket(token, scheme)]
        if session is not None:
            cookies.append(room.cookies.session(session, scheme))
        if visitor.crowd:
            for other in surplus_rooms(visitor.crowd, room.id, self._issued_at):
                cookies += RoomCookies(other, self._cookies, session_max_sec=0).clear_all(scheme)
        return Issued(token, cookies)

    async def renew(
        self, room: VisitorRoom, visitor: Visitor, identity: Identity, place: Place, *, by_cookie: bool
    ) -> Issued:
        """Token of an owner's ``place`` signed anew; the cookie that proved him is prolonged with it."""
        session = await self._identifier.own_session(room, visitor, identity) if by_cookie else None
        return self.issue(room, visitor, place, session)

    def _issued_at(self, room_id: str, token: str) -> int | None:
        verdict = self._tokens.verify(token, room_id, wall_ms())
        return verdict.iat if isinstance(verdict, Claims) else None
