"""What the admin API keeps in Valkey besides rooms: failed sign-ins, one-use tickets, step-ups, signed-out sessions.

All of it is short-lived and shared by every process that uses this Valkey. One-time secrets are kept as SHA-256 only,
so that a copy of the store opens nothing (ADM-301). These keys belong to no room and are spelled here alone; they
share one hash tag, so that they lie in one slot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, Protocol

FAILURE_WINDOW_MS: Final = 60_000
CONNECTOR_MS: Final = 600_000
"""How long an address counts as a connector's after a right PUBLIC_API_KEY came from it (CFG-231)."""

_COUNT: Final = """
local n = tonumber(redis.call('GET', KEYS[1]) or '0')
if ARGV[1] == '1' then
  n = redis.call('INCR', KEYS[1])
  if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
end
return {n, redis.call('PTTL', KEYS[1])}
"""
"""Reading and counting are the same call, so that neither its time nor its kind tells a right key from a wrong one.

Keys: the counter of an address or a link. Args: 1 to count, 0 to look; window in ms. Returns: number, ms left (-2 =
none).
"""
_LOCK: Final = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if ARGV[1] ~= '' then
  redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return redis.call('ZCARD', KEYS[1])
"""
"""Keys: locked addresses by the end of their lock. Args: an address to note, or ""; ms until its lock ends; ms until
the longest lock does. Returns: how many are locked."""


class Commands(Protocol):
    """The one method of the Valkey client that is used here."""

    async def execute(self, *args: Any) -> Any:
        """Run one command; StorageUnavailable when Valkey cannot be reached."""


class AdminStore:
    """Typed access to these keys. Every method raises StorageUnavailable when Valkey cannot be reached."""

    def __init__(self, valkey: Commands, prefix: str) -> None:
        """``prefix``: VALKEY_PREFIX."""
        self._valkey = valkey
        self._base = f"{prefix}{{admin}}:"

    async def failures(self, address: bytes, *, count: bool) -> tuple[int, int]:
        """Failed sign-ins of ``address`` in its window, this one included if ``count``, and the ms left of it."""
        key = f"{self._base}fail:{address.hex()}"
        number, left_ms = await self._valkey.execute("EVAL", _COUNT, 1, key, int(count), FAILURE_WINDOW_MS)
        return int(number), max(0, int(left_ms))

    async def note_locked(self, address: bytes, left_ms: int) -> None:
        """``address`` is locked for so long."""
        key = f"{self._base}locked"
        await self._valkey.execute("EVAL", _LOCK, 1, key, address.hex(), left_ms, FAILURE_WINDOW_MS)

    async def locked(self) -> int:
        """Addresses that are locked now."""
        return int(await self._valkey.execute("EVAL", _LOCK, 1, f"{self._base}locked", "", 0, 0))

    async def link_requests(self, link_id: str) -> tuple[int, int]:
        """Requests of a monitor link in its window, this one included, and the ms left of it."""
        key = f"{self._base}link:{link_id}"
        number, left_ms = await self._valkey.execute("EVAL", _COUNT, 1, key, 1, FAILURE_WINDOW_MS)
        return int(number), max(0, int(left_ms))

    async def note_connector(self, address: bytes) -> None:
        """A right PUBLIC_API_KEY came from ``address``."""
        await self._valkey.execute("SET", self._connector_key(address), 1, "PX", CONNECTOR_MS)

    async def is_connector(self, address: bytes) -> bool:
        """Tell whether one came from there within the last ten minutes."""
        return bool(await self._valkey.execute("EXISTS", self._connector_key(address)))

    async def put_ticket(self, ticket: str, value: bytes, ttl_ms: int) -> None:
        """Keep ``value`` for the one use of ``ticket``."""
        await self._valkey.execute("SET", self._ticket_key(ticket), value, "PX", ttl_ms)

    async def take_ticket(self, ticket: str) -> bytes | None:
        """The value of ``ticket``, which is thereby used up; None when there is none."""
        value = await self._valkey.execute("GETDEL", self._ticket_key(ticket))
        return value.encode() if isinstance(value, str) else value

    async def put_step_up(self, token: str, value: bytes, ttl_ms: int) -> None:
        """Keep ``value`` for as long as ``token`` is good."""
        await self._valkey.execute("SET", self._step_up_key(token), value, "PX", ttl_ms)

    async def step_up(self, token: str) -> bytes | None:
        """The value of ``token``; None when there is none."""
        value = await self._valkey.execute("GET", self._step_up_key(token))
        return value.encode() if isinstance(value, str) else value

    async def revoke_session(self, session_id: str, ttl_ms: int) -> None:
        """Remember for ``ttl_ms`` that a session was signed out."""
        await self._valkey.execute("SET", self._session_key(session_id), 1, "PX", max(1, ttl_ms))

    async def revoked_sessions(self, session_ids: Sequence[str]) -> set[str]:
        """Those of ``session_ids`` that were signed out; one trip."""
        if not session_ids:
            return set()
        found = await self._valkey.execute("MGET", *map(self._session_key, session_ids))
        return {session_id for session_id, mark in zip(session_ids, found, strict=True) if mark is not None}

    def _connector_key(self, address: bytes) -> str:
        return f"{self._base}connector:{address.hex()}"

    def _ticket_key(self, ticket: str) -> str:
        return f"{self._base}sse:{_digest(ticket)}"

    def _step_up_key(self, token: str) -> str:
        return f"{self._base}step-up:{_digest(token)}"

    def _session_key(self, session_id: str) -> str:
        return f"{self._base}out:{session_id}"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
