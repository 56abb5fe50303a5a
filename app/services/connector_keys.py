"""The door of the public key: who may speak for visitors, at ``/api/check?ip=&agent=`` and ``/api/verify``.

Belongs here: judging the key and what a wrong one costs. Not here: what a holder may ask (vouched.py, verify.py), the
admin API's credentials (access.py). Source: VIS-132, VIS-136 … VIS-138, CFG-137 … CFG-142, CFG-228. Needs a second
reviewer.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from app.core.errors import Unauthorized
from app.core.secret import Secret
from app.domain.client_address import Client
from app.domain.net_ranges import Network, RangeSet
from app.services.lockout import Lockout

QUERY_KEYS: Final = ("key", "api_key", "admin_key", "access_token")
"""Query parameters in which somebody may have put a key; ``token`` is a visitor's ticket here."""
_BEARER: Final = re.compile(r"bearer(?: +(.*))?", re.IGNORECASE | re.DOTALL).fullmatch


class Holder(StrEnum):
    """Whose key was good; the words are what ``/api/verify`` calls it."""

    PUBLIC = "Public API key"
    ADMIN = "ADMIN_KEY"


class ConnectorKeys:
    """Judges the key of a caller that is no browser."""

    def __init__(
        self, *, admin_key: Secret, public_key: Secret | None, lockout: Lockout, connectors: Iterable[Network] = ()
    ) -> None:
        """``connectors``: QM_CONNECTOR_IPS, where a right PUBLIC_API_KEY is taken although the address is locked."""
        self._admin_digest = _digest(admin_key.reveal())
        self._public_digest = None if public_key is None else _digest(public_key.reveal())
        self._lockout = lockout
        self._connectors = RangeSet(connectors)

    async def judge(self, client: Client, authorization: str | None) -> Holder:
        """Whose key ``Authorization`` carries.

        Raises Unauthorized for none, a wrong one, and any from a locked address, which is not looked at (VIS-137); the
        answer does not tell which. Only a wrong one counts against the address.
        """
        match = None if authorization is None else _BEARER(authorization.strip(" \t"))
        key = "" if match is None else (match[1] or "").strip(" \t")
        if authorization is None or (match is not None and not key):
            raise Unauthorized
        is_locked = await self._lockout.is_locked(client)
        if is_locked and client.packed not in self._connectors:
            await self._lockout.shut_out(client)
            raise Unauthorized
        digest = _digest(key)
        is_public = self._public_digest is not None and hmac.compare_digest(digest, self._public_digest)
        is_admin = hmac.compare_digest(digest, self._admin_digest) and not is_locked
        if key and is_public:
            await self._lockout.connector(client)
        if key and (is_public or is_admin):  # another scheme than Bearer is a wrong key
            return Holder.PUBLIC if is_public else Holder.ADMIN
        await self._lockout.fail(client)
        raise Unauthorized

    async def is_connector(self, client: Client, authorization: str | None) -> bool:
        """Tell whether ``judge`` would take the key; a wrong one counts as it does there."""
        try:
            await self.judge(client, authorization)
        except Unauthorized:
            return False
        return True


def _digest(key: str) -> bytes:
    """Equal length for every key, so that comparing tells nothing about it."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
