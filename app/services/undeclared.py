"""Peers that look like a proxy nobody declared: everybody behind one shares its address (VIS-023).

Belongs here: which of this process's peers are marked. Not here: whose forwarding headers are believed
(domain/client_address.py), what rests for a marked peer.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from app.core.clock import mono
from app.domain.client_address import Client
from app.infrastructure.rate_limiter import RateLimiter

HEADERS: Final = (b"x-forwarded-for", b"forwarded", b"cf-connecting-ip", b"x-real-ip", b"true-client-ip")
A_MINUTE: Final = 10
"""Requests with such a header within a minute that mark their peer; one that was forged does not."""
KEPT_SEC: Final = 600.0
MAX_KEPT: Final = 4096


class UndeclaredPeers:
    """The marks of one process; the counts behind them are those of the instance."""

    def __init__(self, limiter: RateLimiter) -> None:
        self._limiter = limiter
        self._until: dict[bytes, float] = {}

    def saw(self, client: Client, headers: Container[bytes]) -> bool:
        """Note one request; True when its peer is marked, so that its address tells nobody apart."""
        if client.declared or not any(name in headers for name in HEADERS):
            return not client.declared and self._is_kept(client.key)
        if self._limiter.take("undeclared", client.key, A_MINUTE - 1).allowed:
            return self._is_kept(client.key)
        if len(self._until) >= MAX_KEPT:
            self._until.clear()
        self._until[client.key] = mono() + KEPT_SEC
        return True

    def _is_kept(self, key: bytes) -> bool:
        """Whether a mark still holds."""
        until = self._until.get(key)
        if until is None:
            return False
        if until > mono():
            return True
        del self._until[key]
        return False
