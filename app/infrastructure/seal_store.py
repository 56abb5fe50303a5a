"""Seals of the audit trail in Postgres: each says what the entries since the one before were (ADM-299).

Not here: when they are made and compared (services/audit_seals.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from app.infrastructure.postgres import Postgres
from app.infrastructure.queries import QUERIES

ENTRIES_MAX: Final = 500
"""Entries of one seal: whoever adds one waits while it is made."""
LOCK_MS: Final = 100
SEALS_AT_ONCE: Final = 100

LineOf = Callable[[Mapping[str, Any]], str]
"""The line of an entry as the CSV of the trail gives it."""


@dataclass(frozen=True, slots=True)
class SealState:
    """What is known of the trail's seals. Times are epoch ms; None = not yet."""

    sealed_to: int | None = None
    sealed_at: int | None = None
    digest: bytes | None = None
    checked_at: int | None = None
    bad_from: int | None = None
    """First id that no seal answers for any more; None = everything fits."""


class SealStore:
    """Makes and reads seals. Every method raises StorageUnavailable."""

    def __init__(self, postgres: Postgres, line_of: LineOf) -> None:
        self._postgres = postgres
        self._line_of = line_of

    async def seal(self, now: int) -> bool:
        """Seal the entries that have no seal yet, at most ENTRIES_MAX; True = there may be more at once.

        False too when somebody has been adding an entry for longer than LOCK_MS.
        """
        try:
            async with self._postgres.acquire() as link, link.transaction():
                await link.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
                await link.execute(QUERIES["seal_lock"])
                last = await link.fetchrow(QUERIES["seal_last"])
                before, digest = (0, b"") if last is None else (last["sealed_to"], bytes(last["digest"]))
                rows = await link.fetch(QUERIES["seal_entries"], before, ENTRIES_MAX, None)
                if rows:
                    sealed = self._digest(digest, rows)
                    await link.execute(QUERIES["seal_add"], rows[-1]["id"], len(rows), now, sealed)
        except asyncpg.LockNotAvailableError:
            return False
        return len(rows) == ENTRIES_MAX

    async def check(self, check_in: Callable[[], Any]) -> int | None:
        """Compare every seal with the trail, from the beginning: the first id that does not fit, or None.

        ``check_in`` is called between slices and may raise to end the work.
        """
        before, digest = 0, b""
        while seals := await self._postgres.fetch(QUERIES["seals_after"], before, SEALS_AT_ONCE):
            for seal in seals:
                check_in()
                limit = seal["entries"] + 1  # one more than there were would show
                rows = await self._postgres.fetch(QUERIES["seal_entries"], before, limit, seal["sealed_to"])
                if len(rows) != seal["entries"] or self._digest(digest, rows) != bytes(seal["digest"]):
                    return int(before) + 1
                before, digest = seal["sealed_to"], bytes(seal["digest"])
        return None

    async def note_checked(self, at: int, bad_from: int | None) -> None:
        """Keep what a check found."""
        await self._postgres.execute(QUERIES["seal_checked"], at, bad_from)

    async def state(self) -> SealState:
        """The newest seal and the last check."""
        row = await self._postgres.fetchrow(QUERIES["seal_state"])
        return SealState() if row is None else SealState(**row)

    def _digest(self, before: bytes, rows: list[asyncpg.Record]) -> bytes:
        found = hashlib.sha256(before)
        for row in rows:
            found.update(self._line_of(dict(row)).encode())
        return found.digest()
