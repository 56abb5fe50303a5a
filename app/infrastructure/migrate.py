"""Bringing the schema up to this build: ``migrations/NNNN_pre_*.sql`` and ``NNNN_post_*.sql``, once per schema.

``pre`` files only add and run before a build serves; ``post`` files take away what the release before still used and
run only when asked for, when that release is gone (FLT-142). Each file is one transaction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import asyncpg

from app.infrastructure.postgres import Postgres, schema_of
from app.infrastructure.queries import QUERIES

if TYPE_CHECKING:
    from app.infrastructure.postgres import OwnLink

MIGRATIONS: Final = Path(__file__).with_name("migrations")
SCHEMA_LEVEL: Final = 1
"""Raised by a build that understands a schema which older builds would misread."""
WAIT_SEC: Final = 60
"""How long one instance waits for another that migrates (FLT-141)."""

_FILE: Final = re.compile(r"(\d{4})_(pre|post)_(\w+)\.sql")


class MigrationRefused(Exception):
    """The schema cannot be brought to, or is not meant for, this build; the text is for the operator."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file. ``phase`` is ``pre`` or ``post``."""

    version: int
    phase: str
    path: Path


def find_migrations(folder: Path = MIGRATIONS) -> list[Migration]:
    """All migrations in order; ValueError for a name of another form or a number used twice."""
    found: dict[int, Migration] = {}
    for path in sorted(folder.glob("*.sql")):
        match = _FILE.fullmatch(path.name)
        if match is None or int(match[1]) in found:
            raise ValueError(
                f"migration {path.name} has no name of the form NNNN_pre_<what>.sql or its number is taken"
            )
        found[int(match[1])] = Migration(int(match[1]), match[2], path)
    return [found[version] for version in sorted(found)]


async def migrate(postgres: Postgres, *, post: bool = False, folder: Path = MIGRATIONS) -> list[str]:
    """Apply what is missing and return the names of the files applied.

    ``post``: apply the ``post`` files too. StorageUnavailable: Postgres cannot be reached. MigrationRefused: another
    instance did not finish within 60 s, a file failed (the schema is as before), or the schema asks for a newer build.
    """
    wanted = [m for m in find_migrations(folder) if post or m.phase == "pre"]
    schema = schema_of(postgres.dsn)
    async with postgres.dedicated() as link:
        await _lock(link, schema)
        await _prepare(link, schema)
        done = {row["version"] for row in await link.fetch(QUERIES["migrate_applied"])}
        missing = [m for m in wanted if m.version not in done]
        for migration in missing:
            await _apply(link, migration)
    return [m.path.name for m in missing]


async def _lock(link: OwnLink, schema: str | None) -> None:
    await link.execute(f"SET lock_timeout = '{WAIT_SEC}s'")
    try:
        await link.execute(QUERIES["migrate_lock"], schema)
    except asyncpg.LockNotAvailableError as error:
        raise MigrationRefused(f"another instance has been migrating the schema for more than {WAIT_SEC} s") from error


async def _prepare(link: OwnLink, schema: str | None) -> None:
    if schema is not None:
        quoted = schema.replace('"', '""')
        await link.execute(f'CREATE SCHEMA IF NOT EXISTS "{quoted}"')
    await link.execute(QUERIES["migrate_tables"])
    await link.execute(QUERIES["migrate_marks_table"])
    needs = await link.fetchval(QUERIES["migrate_mark"], "needs_level")
    if needs is not None and needs > SCHEMA_LEVEL:
        raise MigrationRefused(f"the schema is marked for builds of level {needs}; this build has level {SCHEMA_LEVEL}")


async def _apply(link: OwnLink, migration: Migration) -> None:
    try:
        async with link.transaction():
            await link.execute(migration.path.read_text("utf-8"))
            await link.execute(QUERIES["migrate_done"], migration.version, migration.path.name)
    except asyncpg.PostgresError as error:
        if isinstance(error, asyncpg.PostgresConnectionError | asyncpg.OperatorInterventionError):
            raise
        raise MigrationRefused(f"migration {migration.path.name} failed: {error}") from error
