"""From what a request brings to who it speaks for: credentials, their order, and what each failure costs.

Pure of HTTP: the blueprint hands in the pieces (:class:`Brought`). Order of checks: lockout, credential in the query,
credential; CSRF, role and body come after, in the blueprint (ADM-009). Needs a second reviewer.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final

from app.core.errors import Forbidden, Unauthorized
from app.core.secret import Secret
from app.domain.client_address import Client
from app.domain.operators import operator_of_key
from app.domain.principal import OWNER_BY_KEY, Kind, Principal
from app.domain.roles import Role
from app.services.lockout import Lockout
from app.services.named_keys import NamedKeys
from app.services.sessions import Bad, Sessions

QUERY_CREDENTIALS: Final = frozenset({"key", "admin_key", "api_key", "access_token", "token", "monitor"})
"""Query parameters that look like a credential (ADM-044)."""
CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="queue-manager"'}
_BEARER: Final = re.compile(r"bearer(?: +(.*))?", re.IGNORECASE | re.DOTALL).fullmatch


@dataclass(frozen=True, slots=True)
class Brought:
    """Everything of a request that may prove, or seems to prove, who it speaks for."""

    client: Client
    authorization: str | None
    """The header's value; None = not sent. Several headers come joined by a comma, and fit no key."""
    cookies: tuple[str, ...]
    """Values of the session cookie, in order."""
    in_query: str
    """Name of a query parameter that looks like a credential, or ""."""
    ticket: str | None = None
    """A stream ticket, on the stream's own route only."""
    is_foreign: bool = False
    """The browser says that another site's page caused the request."""


class Access:
    """Judges credentials. ADMIN_KEY as Bearer needs no store (ADM-043)."""

    def __init__(
        self,
        *,
        admin_key: Secret,
        public_key: Secret | None,
        named: NamedKeys,
        sessions: Sessions,
        lockout: Lockout,
    ) -> None:
        """``public_key``: PUBLIC_API_KEY, a right key without any right here (ADM-027)."""
        self._admin_digest = _digest(admin_key.reveal())
        self._public_digest = None if public_key is None else _digest(public_key.reveal())
        self._named = named
        self._sessions = sessions
        self._lockout = lockout

    async def authenticate(self, brought: Brought) -> Principal:
        """Who the request speaks for.

        Raises Unauthorized (401; its ``cookie_failed`` is True when the session cookie was what failed), Forbidden,
        RateLimited (locked address, or a monitor link that asks too much), StorageUnavailable (a credential that
        depends on a record and cannot be confirmed).
        """
        if brought.in_query:
            await self._lockout.check(brought.client, failed=False)
            raise CredentialInQuery
        if brought.authorization is not None:
            return await self._by_header(brought)
        if brought.ticket is not None:
            return await self._by_ticket(brought, brought.ticket)
        if brought.cookies:
            return await self._by_cookie(brought)
        raise NoCredential

    async def sign_in(self, client: Client, key: str) -> Principal:
        """The holder of a key that came in the body of a sign-in (ADM-059, ADM-065). A monitor link has none."""
        holder = await self._by_key(client, key)
        if holder.kind is Kind.MONITOR:
            raise Forbidden("A monitor link is opened, not signed in with.", code="monitor_cannot_sign_in")
        return holder

    async def step_up(self, client: Client, caller: Principal, key: str) -> None:
        """``caller`` presents a key once more: ADMIN_KEY, which is nobody's alone, or the key of his own (WHK-113).

        Raises Unauthorized for a wrong key, which counts, and Forbidden for anybody else's (WHK-115).
        """
        holder = await self._by_key(client, key)
        is_own = holder.kind is Kind.OPERATOR and holder.operator_id == caller.operator_id
        if holder.kind is not Kind.ADMIN_KEY and not is_own:
            raise Forbidden("This is the key of somebody else. Present your own.", code="step_up_other_person")

    async def _by_header(self, brought: Brought) -> Principal:
        match = _BEARER(brought.authorization.strip(" \t")) if brought.authorization is not None else None
        key = (match[1] or "").strip(" \t") if match else ""
        if match and not key:
            raise NoCredential
        return await self._by_key(brought.client, key if match else None)

    async def _by_key(self, client: Client, key: str | None) -> Principal:
        """``key`` None: another scheme than Bearer, a wrong credential (ADM-040)."""
        digest = _digest(key or "")
        is_admin = hmac.compare_digest(digest, self._admin_digest) and bool(key)
        is_public = self._public_digest is not None and hmac.compare_digest(digest, self._public_digest) and bool(key)
        if key and not (is_admin or is_public) and (operator_of_key(key) is not None or "." in key):
            return await self._by_named_key(client, key)
        await self._lockout.check(client, failed=not (is_admin or is_public))
        if is_admin:
            return OWNER_BY_KEY
        if is_public:
            raise needs(Role.VIEWER, has="public")
        raise NoCredential

    async def _by_named_key(self, client: Client, key: str) -> Principal:
        """An operator's key or a monitor token: what has the form of one is looked up in the records."""
        await self._lockout.check(client, failed=False)
        principal = await self._named.holder(key, client)
        if principal is None:
            await self._lockout.check(client, failed=True)
            raise NoCredential
        return principal

    async def _by_ticket(self, brought: Brought, ticket: str) -> Principal:
        if brought.is_foreign:
            raise csrf_required()
        await self._lockout.check(brought.client, failed=False)
        principal = await self._sessions.redeem(ticket)
        if principal is None:
            await self._lockout.check(brought.client, failed=True)
            raise NoCredential
        await self._named.count(principal)
        return principal

    async def _by_cookie(self, brought: Brought) -> Principal:
        await self._lockout.check(brought.client, failed=False)
        session = await self._sessions.find(brought.cookies)
        if session is Bad.FORGED:
            await self._lockout.check(brought.client, failed=True)
        if isinstance(session, Bad):
            raise NoCredential(cookie_failed=True)
        self._named.note_used(session, brought.client)
        return session

    async def sign_out(self, brought: Brought) -> list[Principal]:
        """End the sessions of the cookies brought. With a header the cookie is not looked at (ADM-036)."""
        if brought.in_query or brought.authorization is not None:
            await self.authenticate(brought)
            return []
        if not brought.cookies:
            return []
        await self._lockout.check(brought.client, failed=False)
        ended, was_forged = await self._sessions.end(brought.cookies)
        if was_forged:
            await self._lockout.check(brought.client, failed=True)
        return ended


class NoCredential(Unauthorized):
    """401 ``unauthorized``: none, wrong, expired or revoked; the answer does not tell which (ADM-038)."""

    def __init__(self, *, cookie_failed: bool = False) -> None:
        super().__init__(headers=CHALLENGE)
        self.cookie_failed = cookie_failed


class CredentialInQuery(Unauthorized):
    """401 ``credential_in_query``: an address is logged by everybody on the way (ADM-044)."""

    code = "credential_in_query"
    sentence = "A key must not stand in the address. Send it in the Authorization header."

    def __init__(self) -> None:
        super().__init__(headers=CHALLENGE)


def needs(role: Role, *, has: str) -> Forbidden:
    """403 for a good credential without the right (ADM-039)."""
    return Forbidden(f"This needs the role {role.word}.", code="insufficient_role", role=has, needs=role.word)


def csrf_required() -> Forbidden:
    """403 for what another site's page could have caused (ADM-076, ADM-296)."""
    return Forbidden("This change needs the X-QM-CSRF header from the console's own page.", code="csrf_required")


def _digest(key: str) -> bytes:
    """Equal length for every key, so that comparing tells nothing about it."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
