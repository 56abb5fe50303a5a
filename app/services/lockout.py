"""The budget of failed sign-ins per address, and the lock that follows (ADM-049 … ADM-058).

Counted in Valkey, so that all processes of a deployment share it; while Valkey is away each instance counts alone, in
the memory that its workers share (ADM-055).
"""

from __future__ import annotations

from typing import Final

import structlog

from app.core.errors import RateLimited, StorageUnavailable
from app.domain.client_address import Client
from app.infrastructure.admin_store import FAILURE_WINDOW_MS, AdminStore
from app.infrastructure.rate_limiter import RateLimiter

GROUP: Final = "auth"

log = structlog.get_logger(__name__)


class Lockout:
    """Says whether an address may still be heard, and counts its failures."""

    def __init__(self, store: AdminStore, limiter: RateLimiter, *, limit: int) -> None:
        """``limit``: ADMIN_AUTH_FAIL_PER_MIN; 0 turns the lockout off."""
        self._store = store
        self._limiter = limiter
        self._limit = limit

    async def check(self, client: Client, *, failed: bool) -> None:
        """Count a failure of ``client`` if there was one; raise RateLimited if its address was locked before.

        Called after the credential was compared, with the same
        commands for a right and a wrong one: a locked address learns nothing (ADM-049), and of failures sent at the
        same instant exactly the allowed number is answered as such.
        """
        if self._limit == 0:
            return
        count, left_ms = await self._count(client.key, failed)
        if count - failed >= self._limit:
            raise locked(self._limit, left_ms)
        if failed and count == self._limit:
            log.warning("auth_lockout_started", address=client.address, failures=count)

    async def _count(self, address: bytes, failed: bool) -> tuple[int, int]:
        try:
            return await self._store.failures(address, count=failed)
        except StorageUnavailable:
            act = self._limiter.take if failed else self._limiter.peek
            budget = act(GROUP, address, self._limit)
            if not budget.allowed:
                return self._limit + failed, budget.retry_after_sec * 1000
            return self._limit - budget.remaining, budget.reset_sec * 1000


def locked(limit: int, left_ms: int) -> RateLimited:
    """The refusal of a locked address; ``left_ms`` until its window ends (ADM-050, ADM-051)."""
    seconds = max(1, -(-min(left_ms, FAILURE_WINDOW_MS) // 1000))
    return RateLimited(
        f"Too many failed sign-ins from this address. Try again in {seconds} seconds.",
        code="too_many_auth_failures",
        headers={
            "Retry-After": str(seconds),
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": str(seconds),
        },
        retryAfterSec=seconds,
    )
