"""Handing out tokens with their cookies: for a new ticket, and anew for one that grows old.

Belongs here: when a token is renewed and which cookies go with it. Not here: signing (domain/tokens.py).
Source: ENG-091, VIS-050, VIS-051, VIS-056.
"""

from __future__ import annotations

from typing import NamedTuple

from app.core.clock import wall_ms
from app.domain.cookies import CookiePolicy, RoomCookies, surplus_rooms
from app.domain.tokens import Claims, VisitorTokens
from app.services.visitor_proof import Identifier, Identity, Visitor
from app.services.visitor_room import VisitorRoom


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

    def is_due(self, identity: Identity, now_ms: int) -> bool:
        """Tell whether the token that was presented has to be signed anew."""
        return identity.claims is not None and self._tokens.is_due(identity.claims, now_ms)

    def issue(self, room: VisitorRoom, visitor: Visitor, place: tuple[int, int], session: str | None) -> Issued:
        """Token of ``place`` (generation, ticket). ``session``: the ``qms_`` value to set beside it, if any."""
        generation, ticket = place
        token = self._tokens.sign(room.id, generation, ticket, wall_ms())
        scheme = visitor.client.scheme
        cookies = [room.cookies.ticket(token, scheme)]
        if session is not None:
            cookies.append(room.cookies.session(session, scheme))
        if visitor.crowd:
            for other in surplus_rooms(visitor.crowd, room.id, self._issued_at):
                cookies += RoomCookies(other, self._cookies, session_max_sec=0).clear_all(scheme)
        return Issued(token, cookies)

    async def renew(
        self, room: VisitorRoom, visitor: Visitor, identity: Identity, place: tuple[int, int], *, by_cookie: bool
    ) -> Issued:
        """Token of an owner's ``place`` signed anew; the cookie that proved him is prolonged with it."""
        session = await self._identifier.own_session(room, visitor, identity) if by_cookie else None
        return self.issue(room, visitor, place, session)

    def _issued_at(self, room_id: str, token: str) -> int | None:
        verdict = self._tokens.verify(token, room_id, wall_ms())
        return verdict.iat if isinstance(verdict, Claims) else None
