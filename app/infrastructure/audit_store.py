"""Writing of audit entries that are no facts of a room: operators, links, sessions, locks.

Not here: entries of facts (notes_store.py), reading (notes_store.py). Source: ADM-245 … ADM-252.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.domain.actor import Actor
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
