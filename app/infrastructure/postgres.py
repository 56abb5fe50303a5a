"""The pool of Postgres connections of one process, opened at first use.

Belongs here: connecting, limits in time, and the words for "Postgres cannot be reached". Not here: SQL (``sql/*.sql``),
what is journaled (``journal.py``), the schema (``migrate.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import asyncpg

from app.core.errors import StorageUnavailable

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    PooledLink = PoolConnectionProxy[asyncpg.Record]
    OwnLink = asyncpg.Connection[asyncpg.Record]

CONNECT_TIMEOUT_SEC: Final = 5.0
IDLE_LIFETIME_SEC: Final = 300.0
GONE: Final = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": "11000",
}
"""When Postgres gives up a client whose host is gone without a word, and with it the locks on heads of rooms and on
rebuilds, which others wait for (FLT-085): after 11 s instead of hours."""
CLIENT_GRACE_SEC: Final = 1.0
"""How much longer than the server's own statement timeout the client waits before it gives the connection up."""

LONG: Final = 4
"""How many times as long as others a statement of a report may take."""

UNREACHABLE: Final = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.QueryCanceledError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.PostgresIOError,
)
"""Errors that say nothing against the statement: the same one may work a moment later."""


def schema_of(dsn: str) -> str | None:
    """First schema of the ``search_path`` in a database address, or None when it has none (CFG-036)."""
    values = parse_qs(urlsplit(dsn).query).get("search_path")
    if not values:
        return None
    return values[0].split(",")[0].strip().strip('"') or None


class Postgres:
    """A pool that opens itself.

    ``dsn``: libpq address, ``search_path`` included. ``max_size``: connections this process may hold (its share of
    ``PG_POOL_MAX``). ``statement_timeout_ms``: longest statement; the client waits a second longer than the server.
    """

    def __init__(self, dsn: str, *, max_size: int = 2, statement_timeout_ms: int = 5000) -> None:
        self._dsn = dsn
        self._max_size = max_size
        self._timeout_ms = statement_timeout_ms
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()

    @property
    def dsn(self) -> str:
        """The address, credentials included: never logged."""
        return self._dsn

    async def open(self) -> None:
        """Open the pool and prove that Postgres answers; StorageUnavailable when it does not."""
        await self.fetchval("SELECT 1")

    async def close(self) -> None:
        """Close every connection; one that does not end within a second is cut."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            await asyncio.wait_for(pool.close(), 1.0)
        except UNREACHABLE:
            pool.terminate()

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[PooledLink]:
        """One connection. Driver errors that mean "not reachable" leave as StorageUnavailable, others as they are."""
        try:
            pool = await self._ready()
            async with pool.acquire(timeout=CONNECT_TIMEOUT_SEC) as link:
                yield link
        except UNREACHABLE as error:
            raise StorageUnavailable() from error

    async def fetch(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        """Rows of one statement."""
        async with self.acquire() as link:
            return await link.fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: Any) -> asyncpg.Record | None:
        """First row of one statement, or None."""
        async with self.acquire() as link:
            return await link.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        """First value of the first row, or None."""
        async with self.acquire() as link:
            return await link.fetchval(sql, *args)

    async def fetch_long(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        """Rows of a statement that reads much and may take ``LONG`` times as long as others (CFG-040)."""
        limit_ms = self._timeout_ms * LONG
        async with self.acquire() as link, link.transaction(readonly=True):
            await link.execute(f"SET LOCAL statement_timeout = {limit_ms}")
            return await link.fetch(sql, *args, timeout=limit_ms / 1000 + CLIENT_GRACE_SEC)

    async def execute(self, sql: str, *args: Any) -> str:
        """Run one statement; the status word of Postgres, for example ``UPDATE 1``."""
        async with self.acquire() as link:
            return await link.execute(sql, *args)

    async def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for many rows in one transaction."""
        async with self.acquire() as link:
            await link.executemany(sql, rows)

    @asynccontextmanager
    async def dedicated(self, *, command_timeout_sec: float | None = None, idle_ms: int = 0) -> AsyncIterator[OwnLink]:
        """A connection outside the pool, for session locks and migrations; it ends with the block.

        ``command_timeout_sec``: longest statement, None = no limit. ``idle_ms``: Postgres ends it, and its locks, after
        so long a silence; 0 = never.
        """
        try:
            link = await asyncpg.connect(
                self._dsn,
                timeout=CONNECT_TIMEOUT_SEC,
                command_timeout=command_timeout_sec,
                server_settings={**GONE, "idle_session_timeout": str(idle_ms)},
            )
        except UNREACHABLE as error:
            raise StorageUnavailable() from error
        try:
            yield link
        except UNREACHABLE as error:
            raise StorageUnavailable() from error
        finally:
            await _end(link)

    async def _ready(self) -> asyncpg.Pool[asyncpg.Record]:
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    self._pool = await asyncpg.create_pool(
                        self._dsn,
                        min_size=0,
                        max_size=self._max_size,
                        timeout=CONNECT_TIMEOUT_SEC,
                        command_timeout=self._timeout_ms / 1000 + CLIENT_GRACE_SEC,
                        max_inactive_connection_lifetime=IDLE_LIFETIME_SEC,
                        server_settings={"statement_timeout": str(self._timeout_ms), **GONE},
                        reset=_keep,
                    )
        return self._pool


async def _keep(_link: OwnLink) -> None:
    """Leave a connection as it is when it goes back to the pool, where the driver would spend a trip on it.

    Nothing here changes a session beyond a transaction, which the driver ends in any case. Whoever takes a lock of the
    session gives it back, or ends the connection (checkpoints.py).
    """


async def _end(link: OwnLink) -> None:
    try:
        await asyncio.wait_for(link.close(), 1.0)
    except (*UNREACHABLE, asyncpg.PostgresError):
        link.terminate()
