"""How large the database is and how fast the journal grows, as the leader finds out once a minute (OBS-194)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import ujson

from app.core.clock import mono
from app.infrastructure.keys import journal_size_key
from app.infrastructure.postgres import Postgres
from app.infrastructure.queries import QUERIES
from app.infrastructure.valkey import Valkey

EVERY_SEC: Final = 60.0
HOUR_SEC: Final = 3600.0
LIFE_SEC: Final = 300
"""How long a reading is told; older ones are not known to be true."""
LEAST_SEC: Final = 30.0
"""Shortest time from which an hour is reckoned."""


@dataclass(frozen=True, slots=True)
class JournalSize:
    """One reading; None = not known."""

    database_bytes: int | None = None
    rows_per_hour: int | None = None


class JournalSizes:
    """Reads, and hands the reading to every instance. Calls raise StorageUnavailable."""

    def __init__(self, postgres: Postgres, valkey: Valkey, prefix: str) -> None:
        self._postgres = postgres
        self._valkey = valkey
        self._key = journal_size_key(prefix)
        self._seen: deque[tuple[float, int]] = deque()

    async def weigh(self) -> None:
        """Read once and leave it for the others; to be called by the leader only."""
        row = await self._postgres.fetchrow(QUERIES["journal_size"])
        assert row is not None
        now = mono()
        self._seen.append((now, row["facts"]))
        while len(self._seen) > 1 and self._seen[1][0] <= now - HOUR_SEC:
            self._seen.popleft()
        text = ujson.dumps([row["bytes"], self._per_hour(now, row["facts"])])
        await self._valkey.execute("SET", self._key, text, "EX", LIFE_SEC)

    async def read(self) -> JournalSize:
        """The leader's latest reading."""
        text = await self._valkey.execute("GET", self._key)
        return JournalSize(*ujson.loads(text)) if text else JournalSize()

    def _per_hour(self, now: float, facts: int) -> int | None:
        then, before = self._seen[0]
        if now - then < LEAST_SEC or facts < before:
            return None
        return round((facts - before) / (now - then) * HOUR_SEC)
