"""Console sessions and the one-use tickets of the event stream.

A session is a signed cookie: it proves the signing secret, and by a second HMAC the secret of its holder, so that
neither alone can make one (ADM-295). What the server keeps is only which sessions were signed out. Not here: who may
sign in (access.py), HTTP.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from app.core.errors import StorageUnavailable
from app.domain.keyring import Keyring, Purpose
from app.domain.operators import MonitorLink, Operator
from app.domain.principal import OWNER_BY_KEY, Kind, Principal, Via, operator
from app.domain.tokens import MAX_FUTURE_MS, Cause, SignedTokens
from app.infrastructure.admin_store import AdminStore
from app.services.holder_proof import HolderProofs
from app.services.people import People

SESSION_MS: Final = 12 * 3600 * 1000
"""Life of a session from sign-in; it does not slide (ADM-063)."""
TICKET_MS: Final = 30_000
COOKIES_MAX: Final = 4
"""Cookies of one name that are tried: two paths make two, the rest is somebody playing."""
SIGNED_OUT_MAX: Final = 10_000
_SCOPE: Final = "session"
_OPERATOR: Final = re.compile(r"operator:([0-9a-f]{8})").fullmatch
"""What a session says of who signed in, when it was an operator."""


class Standing(Enum):
    """What became of a credential that was good."""

    OVER = 0
    """Expired, signed out, revoked, or its holder is gone."""
    UNSURE = 1
    """Nothing can be said: the store that knows cannot be reached."""


class Bad(Enum):
    """Why no session of a request is good."""

    OVER = "over"
    """Well made, but expired or signed out: nobody's guess (ADM-052)."""
    FORGED = "forged"
    """Signature or holder's proof does not fit: counted as a failed sign-in (ADM-053)."""


class Sessions:
    """Makes, reads and ends sessions; makes and redeems stream tickets."""

    def __init__(
        self, *, keyring: Keyring, proofs: HolderProofs, store: AdminStore, people: People, now: Callable[[], int]
    ) -> None:
        """``now``: wall clock in epoch ms."""
        self._signed = SignedTokens(keyring, Purpose.SESSION)
        self._proofs = proofs
        self._store = store
        self._people = people
        self._now = now
        self._signed_out: dict[str, int] = {}

    async def begin(self, holder: Principal) -> tuple[str, Principal]:
        """Value of the cookie of a new session, and its principal."""
        now = self._now()
        session_id = secrets.token_urlsafe(16)
        record = await self._people.operator(holder.operator_id) if holder.operator_id else None
        payload = {
            "scope": _SCOPE,
            "sid": session_id,
            "who": f"operator:{holder.operator_id}" if holder.operator_id else str(holder.kind),
            "iat": now,
            "exp": now + SESSION_MS,
            "bind": self._proofs.make(record, session_id),
        }
        session = holder.through(Via.SESSION, session_id=session_id, expires_at=now + SESSION_MS)
        return self._signed.sign(payload), session

    async def find(self, cookies: Sequence[str]) -> Principal | Bad:
        """The first good session among cookie values (ADM-075).

        StorageUnavailable when it cannot be confirmed that the session was not signed out (ADM-042).
        """
        worst = Bad.OVER
        for value in cookies[:COOKIES_MAX]:
            session = await self._read(value)
            if isinstance(session, Bad):
                worst = Bad.FORGED if session is Bad.FORGED else worst
            elif not await self._ended([session]):
                return session
        return worst

    async def end(self, cookies: Sequence[str]) -> tuple[list[Principal], bool]:
        """Sign out every session among cookie values; these, and whether a forged one was among them.

        Returns only when the store has taken it; StorageUnavailable otherwise (ADM-284).
        """
        read = [await self._read(value) for value in cookies[:COOKIES_MAX]]
        sessions = [session for session in read if not isinstance(session, Bad)]
        for session in sessions:
            await self._store.revoke_session(session.session_id, (session.expires_at or 0) - self._now())
            self.note_signed_out(session.session_id)
        return sessions, Bad.FORGED in read

    def note_signed_out(self, session_id: str) -> None:
        """Remember a sign-out heard of, so that it holds even if Valkey loses its data (ADM-070)."""
        now = self._now()
        if len(self._signed_out) >= SIGNED_OUT_MAX:
            self._signed_out = {known: end for known, end in self._signed_out.items() if end > now}
        if len(self._signed_out) < SIGNED_OUT_MAX:
            self._signed_out[session_id] = now + SESSION_MS

    async def present(self, principals: Sequence[Principal]) -> list[Principal | Standing]:
        """Each credential as it is now, with its holder's present role, or what became of it; few trips for all.

        One that needs no store, ADMIN_KEY as Bearer, is always good (ADM-043).
        """
        now = self._now()
        try:
            ended = await self._ended(principals)
        except StorageUnavailable:
            ended = None
        found: list[Principal | Standing] = []
        is_away = False
        for one in principals:
            if one.session_id and ended is None:
                found.append(Standing.UNSURE)
            elif (one.expires_at or now + 1) <= now or one.session_id in (ended or ()):
                found.append(Standing.OVER)
            elif is_away and (one.operator_id or one.link_id):
                found.append(Standing.UNSURE)  # a look that failed is not waited for again by each
            else:
                found.append(await self._of_today(one))
                is_away = is_away or found[-1] is Standing.UNSURE
        return found

    async def _of_today(self, one: Principal) -> Principal | Standing:
        """With what the records of today say of the holder."""
        record: Operator | MonitorLink | None
        try:
            if one.operator_id:
                record = await self._people.operator(one.operator_id)
            elif one.link_id:
                record = await self._people.link(one.link_id)
            else:
                return one
        except StorageUnavailable:
            return Standing.UNSURE
        if record is None or record.revoked_at is not None:
            return Standing.OVER
        return one.as_of(record) if isinstance(record, Operator) else one

    async def _ended(self, principals: Sequence[Principal]) -> set[str]:
        """Ids of those sessions that expired or were signed out; one trip for all."""
        now = self._now()
        sessions = [principal for principal in principals if principal.session_id]
        over = {p.session_id for p in sessions if (p.expires_at or 0) <= now or p.session_id in self._signed_out}
        return over | await self._store.revoked_sessions([p.session_id for p in sessions if p.session_id not in over])

    async def make_ticket(self, principal: Principal) -> str:
        """A stream ticket with the rights of ``principal``: 32 random bytes as 43 characters (ADM-084 … ADM-089)."""
        ticket = secrets.token_urlsafe(32)
        await self._store.put_ticket(ticket, json.dumps(principal.to_json()).encode(), TICKET_MS)
        return ticket

    async def redeem(self, ticket: str) -> Principal | None:
        """The holder of a ticket, which is used up by this; None when there is none, or his credential is good no more.

        StorageUnavailable when that cannot be said (ADM-088).
        """
        if len(ticket) != 43 or not ticket.isascii():
            return None
        value = await self._store.take_ticket(ticket)
        if value is None:
            return None
        (principal,) = await self.present([Principal.from_json(json.loads(value))])
        if principal is Standing.UNSURE:
            raise StorageUnavailable
        return principal if isinstance(principal, Principal) else None

    async def _read(self, value: str) -> Principal | Bad:
        payload = self._signed.open(value)
        if isinstance(payload, Cause) or not _is_session(payload):
            return Bad.FORGED
        match = _OPERATOR(payload["who"])
        record = await self._people.operator(match[1]) if match else None
        if match and record is None:
            return Bad.OVER  # purged: what his sessions were bound to is gone with him
        if not self._proofs.fits(record, payload["sid"], payload["bind"]):
            return Bad.FORGED
        now = self._now()
        if payload["iat"] > now + MAX_FUTURE_MS or not now < payload["exp"] <= payload["iat"] + SESSION_MS:
            return Bad.OVER
        if record is not None and record.revoked_at is not None:
            return Bad.OVER
        holder = OWNER_BY_KEY if record is None else operator(record)
        return holder.through(Via.SESSION, session_id=payload["sid"], expires_at=payload["exp"])


def _is_session(payload: dict[str, Any]) -> bool:
    """Exactly this kind of token, with every member of its type (ENG-292)."""
    return (
        payload.get("scope") == _SCOPE
        and isinstance(payload.get("who"), str)
        and (payload["who"] == Kind.ADMIN_KEY or _OPERATOR(payload["who"]) is not None)
        and all(isinstance(payload.get(name), str) and payload[name].isascii() for name in ("sid", "bind"))
        and all(type(payload.get(name)) is int for name in ("iat", "exp"))
        and 0 < len(payload["sid"]) <= 64
        and not {"room", "ticket", "handle"} & payload.keys()
    )
