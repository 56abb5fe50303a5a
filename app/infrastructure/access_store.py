"""Operators and monitor links in Postgres: read as a whole, changed row by row in transactions with their audit entry.

Not here: who may change what (services/operators.py, services/monitor_links.py), copies in memory
(services/people.py). Source: ADM-208 … ADM-217, ADM-236, ADM-252.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.domain.operators import MonitorLink, Operator
from app.domain.roles import Role
from app.infrastructure.audit_store import Entry, add_entry
from app.infrastructure.postgres import Postgres
from app.infrastructure.queries import QUERIES

if TYPE_CHECKING:
    import asyncpg

    from app.infrastructure.postgres import PooledLink


@dataclass(frozen=True, slots=True)
class Everyone:
    """All operators and all links that are not long over, and the mark at which they were read."""

    version: int
    operators: dict[str, Operator]
    links: dict[str, MonitorLink]


class AccessStore:
    """Typed access to these tables. Every method raises StorageUnavailable."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    async def version(self) -> int:
        """The mark of the present state: whoever has read at it need not read again."""
        return int(await self._postgres.fetchval(QUERIES["access_version"]))

    async def everyone(self, ended_before: int) -> Everyone:
        """Everything, without links that ended before that moment. The rows may be newer than the mark, never older."""
        version = await self.version()
        operators = await self.operators()
        links = await self.links(ended_before)
        return Everyone(version, {one.id: one for one in operators}, {one.id: one for one in links})

    async def operators(self) -> list[Operator]:
        """Every operator, in the order of their making."""
        return [_operator(row) for row in await self._postgres.fetch(QUERIES["access_operators"])]

    async def links(self, ended_before: int) -> list[MonitorLink]:
        """Every link that has not ended before that moment, newest first."""
        rows = await self._postgres.fetch(QUERIES["access_links"], ended_before)
        return [MonitorLink(**row) for row in rows]

    async def links_by_maker(self, now: int) -> dict[str, int]:
        """Numbers of live links by the id of the operator who made them."""
        rows = await self._postgres.fetch(QUERIES["access_link_counts_by_maker"], now)
        return {row["created_by_id"]: row["links"] for row in rows}

    async def renew(self, operator: Operator, verifier: str) -> bool:
        """Replace a verifier; False: somebody else did it first, or the operator is gone."""
        async with self._postgres.acquire() as link, link.transaction():
            await link.execute(QUERIES["access_changes"])
            done = await link.execute(QUERIES["access_operator_renew"], operator.id, operator.verifier, verifier)
        return bool(done == "UPDATE 1")

    async def note_operator_used(self, ident: str, at: int, address: str) -> None:
        """Keep when and where an operator was last seen."""
        await self._postgres.execute(QUERIES["access_operator_used"], ident, at, address)

    async def note_link_used(self, ident: str, at: int) -> None:
        """Keep when a link was last used."""
        await self._postgres.execute(QUERIES["access_link_used"], ident, at)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[Change]:
        """A transaction that changes operators or links; no two of them run at once. Committed when the block ends."""
        async with self._postgres.acquire() as link, link.transaction():
            await link.execute(QUERIES["access_changes"])
            yield Change(link)


class Change:
    """What can be done in such a transaction."""

    def __init__(self, link: PooledLink) -> None:
        self._link = link

    async def note(self, entry: Entry) -> None:
        """Append an audit entry."""
        await add_entry(self._link, entry)

    async def operator(self, ident: str) -> Operator | None:
        """One operator as he is now."""
        row = await self._link.fetchrow(QUERIES["access_operator"], ident)
        return None if row is None else _operator(row)

    async def operator_count(self) -> int:
        """How many operators there are."""
        return int(await self._link.fetchval(QUERIES["access_operator_count"]))

    async def add_operator(self, operator: Operator) -> None:
        """Make an operator."""
        await self._link.execute(
            QUERIES["access_operator_add"],
            operator.id,
            operator.name,
            operator.role.word,
            operator.verifier,
            operator.holder,
            operator.created_at,
            operator.created_by,
        )

    async def change_operator(self, ident: str, name: str, role: Role) -> None:
        """Give an operator a name and a role."""
        await self._link.execute(QUERIES["access_operator_change"], ident, name, role.word)

    async def revoke_operator(self, ident: str, at: int, by: str) -> None:
        """Take his rights."""
        await self._link.execute(QUERIES["access_operator_revoke"], ident, at, by)

    async def purge_operator(self, ident: str) -> None:
        """Remove his record."""
        await self._link.execute(QUERIES["access_operator_purge"], ident)

    async def link(self, ident: str) -> MonitorLink | None:
        """One link as it is now."""
        row = await self._link.fetchrow(QUERIES["access_link"], ident)
        return None if row is None else MonitorLink(**row)

    async def link_count(self, now: int) -> int:
        """How many links are live."""
        return int(await self._link.fetchval(QUERIES["access_link_count"], now))

    async def add_link(self, link: MonitorLink) -> None:
        """Make a link."""
        await self._link.execute(
            QUERIES["access_link_add"],
            link.id,
            link.label,
            link.created_at,
            link.created_by,
            link.created_by_id,
            link.expires_at,
        )

    async def revoke_link(self, ident: str, at: int, by: str) -> int:
        """Revoke one link; 0 when it was over already."""
        return _count(await self._link.execute(QUERIES["access_link_revoke"], ident, at, by))

    async def revoke_links(self, at: int, by: str, *, of: str | None = None) -> int:
        """Revoke every live link, or those of operator ``of``; how many they were."""
        return _count(await self._link.execute(QUERIES["access_links_revoke"], at, by, of))

    async def drop_links(self, ended_before: int) -> None:
        """Forget links that ended before that moment."""
        await self._link.execute(QUERIES["access_links_drop"], ended_before)


def _operator(row: asyncpg.Record) -> Operator:
    values: dict[str, Any] = dict(row)
    return Operator(**{**values, "role": Role.of(values["role"]), "holder": bytes(values["holder"])})


def _count(done: str) -> int:
    """``UPDATE 3`` → 3."""
    return int(done.rpartition(" ")[2])
