"""The budget of failed sign-ins per address, and the lock that follows (ADM-049 … ADM-058).

Counted in Valkey, so that all processes of a deployment share it; while Valkey is away each instance counts alone, in
the memory that its workers share (ADM-055).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

import structlog

from app.core.clock import mono
from app.core.errors import RateLimited, StorageUnavailable
from app.domain.client_address import Client
from app.infrastructure.admin_store import FAILURE_WINDOW_MS, AdminStore
from app.infrastructure.rate_limiter import RateLimiter

GROUP: Final = "auth"
CONFIRM_SEC: Final = 1.0
"""How long a process goes by what Valkey said of an address, where every request asks (``is_locked``)."""
_KNOWN_MAX: Final = 4096
CONNECTOR_SAID_SEC: Final = 60.0
"""A connector is noted once in this time, and told of as locked for so long after its last key."""

log = structlog.get_logger(__name__)


class Lockout:
    """Says whether an address may still be heard, and counts its failures."""

    def __init__(
        self,
        store: AdminStore,
        limiter: RateLimiter,
        *,
        limit: int,
        on_lock: Callable[[str, int], None] = lambda _address, _failures: None,
    ) -> None:
        """``limit``: ADMIN_AUTH_FAIL_PER_MIN; 0 turns the lockout off. ``on_lock``: is told the address and the number
        of its failures when a lock begins, once per address and window (ADM-057)."""
        self._on_lock = on_lock
        self._store = store
        self._limiter = limiter
        self._limit = limit
        self._connectors: dict[bytes, float] = {}
        """By address: until when (mono) nothing more need be said of it as a connector's."""
        self._known: dict[bytes, tuple[float, bool]] = {}
        """By address: until when (mono) it holds that Valkey called it locked, or not."""

    async def is_locked(self, client: Client) -> bool:
        """Tell whether nothing from this address is looked at (VIS-137).

        Made for callers who come with each page of a site: failures of this instance count at once, those of other
        instances within a second, and Valkey is asked once in that time.
        """
        if self._limit == 0:
            return False
        if not self._limiter.peek(GROUP, client.key, self._limit).allowed:
            return True
        known = self._known.get(client.key)
        if known is not None and mono() < known[0]:
            return known[1]
        try:
            count, _ = await self._store.failures(client.key, count=False)
        except StorageUnavailable:
            return False
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[client.key] = mono() + CONFIRM_SEC, count >= self._limit
        return count >= self._limit

    async def fail(self, client: Client) -> None:
        """Count a wrong key of an address that is not locked, or whose lock does not matter here."""
        if self._limit == 0:
            return
        count, left_ms = await self._count(client.key, failed=True)
        if count == self._limit:
            await self._tell(client, count, left_ms)

    async def connector(self, client: Client) -> None:
        """A right PUBLIC_API_KEY came from this address. Costs a trip once a minute."""
        if self._limit == 0 or self._is_said(client.key):
            return
        with contextlib.suppress(StorageUnavailable):
            await self._store.note_connector(client.key)

    async def shut_out(self, client: Client) -> None:
        """A locked address sends a key, or was just locked: say so where connectors speak from it (CFG-231)."""
        notes = self._limiter.lists["locked_connectors"]
        if client.packed in notes.recent(CONNECTOR_SAID_SEC):
            notes.note(client.packed)
        elif not self._is_said(b"locked " + client.key):
            with contextlib.suppress(StorageUnavailable):
                if await self._store.is_connector(client.key):
                    notes.note(client.packed)
                    log.warning("connector_locked", address=client.address)

    def _is_said(self, key: bytes) -> bool:
        now = mono()
        if self._connectors.get(key, 0.0) > now:
            return True
        if len(self._connectors) >= _KNOWN_MAX:
            self._connectors.clear()
        self._connectors[key] = now + CONNECTOR_SAID_SEC
        return False

    async def check(self, client: Client, *, failed: bool) -> None:
        """Count a failure of ``client`` if there was one; raise RateLimited if its address was locked before.

        Called after the credential was compared, with the same
        commands for a right and a wrong one: a locked address learns nothing (ADM-049), and of failures sent at the
        same instant exactly the allowed number is answered as such.
        """
        if failed:
            self._limiter.counters.add("auth_failures")
        if self._limit == 0:
            return
        count, left_ms = await self._count(client.key, failed)
        if count - failed >= self._limit:
            raise locked(self._limit, left_ms)
        if failed and count == self._limit:
            await self._tell(client, count, left_ms)

    async def locked_addresses(self) -> int | None:
        """How many addresses are locked on all instances; None while Valkey cannot say."""
        try:
            return await self._store.locked()
        except StorageUnavailable:
            return None

    async def _tell(self, client: Client, failures: int, left_ms: int) -> None:
        log.warning("auth_lockout_started", address=client.address, failures=failures)
        self._on_lock(client.address, failures)
        with contextlib.suppress(StorageUnavailable):
            await self._store.note_locked(client.key, left_ms)
        await self.shut_out(client)

    async def _count(self, address: bytes, failed: bool) -> tuple[int, int]:
        """Failures of the window and the ms left of it. Each is counted in the instance's own memory as well."""
        try:
            found = await self._store.failures(address, count=failed)
        except StorageUnavailable:
            act = self._limiter.take if failed else self._limiter.peek
            budget = act(GROUP, address, self._limit)
            if not budget.allowed:
                return self._limit + failed, budget.retry_after_sec * 1000
            return self._limit - budget.remaining, budget.reset_sec * 1000
        if failed:
            self._limiter.take(GROUP, address, self._limit)
        return found


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
