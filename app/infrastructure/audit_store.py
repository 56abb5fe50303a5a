"""Writing of audit entries that are no facts of a room: operators, links, sessions, locks.

Not here: entries of facts (notes_store.py), reading (notes_store.py). Source: ADM-245 … ADM-252.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.domain.actor import Actor
from app.infrastructure.postgres import Postgres
from app.infrastructure.queries import QUERIES

if TYPE_CHECKING:
    from app.infrastructure.postgres import OwnLink, PooledLink


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the audit trail; ``at``: epoch ms. ``detail`` holds no key, token, cookie or address of a link."""

    at: int
    actor: Actor
    action: str
    detail: str = ""
    room: str | None = None
    ok: bool = True


async def add_entry(link: PooledLink | OwnLink, entry: Entry) -> None:
    """Append one entry, in whatever transaction ``link`` is in."""
    who = entry.actor
    await link.execute(
        QUERIES["audit_add"],
        entry.at,
        str(who),
        who.kind,
        who.ident,
        who.role,
        entry.action,
        entry.room,
        entry.detail,
        entry.ok,
        who.ip,
        who.instance,
    )


class AuditStore:
    """Entries that stand alone. Calls raise StorageUnavailable."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    async def add(self, entry: Entry) -> None:
        """Append one entry."""
        async with self._postgres.acquire() as link:
            await add_entry(link, entry)

    async def last_of_life(self, instance: str | None) -> str | None:
        """Action of the last ``server.start`` or ``server.stop`` of an instance, or of any with None; None = none.

        A stop that was not clean counts as a start: what came before it may be lost.
        """
        row = await self._postgres.fetchrow(QUERIES["audit_last_of_life"], instance)
        return None if row is None else str(row["action"]) if row["ok"] else "server.start"
