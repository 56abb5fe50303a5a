"""The schema is brought up once, by one instance, and never half."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.core.errors import StorageUnavailable
from app.infrastructure import migrate as migrations
from app.infrastructure.migrate import MIGRATIONS, MigrationRefused, find_migrations, migrate
from app.infrastructure.postgres import Postgres, schema_of
from app.infrastructure.queries import QUERIES, read_queries


@pytest.fixture
async def empty(fresh_schema: str) -> AsyncIterator[Postgres]:
    pool = Postgres(fresh_schema)
    yield pool
    await pool.close()


def files(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.sql").write_text(text)
    return folder


@pytest.mark.req("CFG-036")
async def test_it_makes_the_schema_that_the_address_names_and_uses_no_other(
    database_url: str, fresh_schema: str
) -> None:
    name = f"{schema_of(fresh_schema)}_new"
    pool = Postgres(f"{database_url}&search_path={name}&application_name=by-the-address")
    made = "SELECT count(*) FROM pg_class WHERE relnamespace = $1::text::regnamespace"
    try:
        elsewhere = await pool.fetchval(made, "public")
        assert await migrate(pool) == [m.path.name for m in find_migrations() if m.phase == "pre"]
        assert await pool.fetchval("SELECT count(*) FROM events") == 0
        assert await pool.fetchval("SELECT current_schema()") == name
        assert await pool.fetchval("SELECT current_setting('application_name')") == "by-the-address"
        assert await pool.fetchval(made, name) > 20
        assert await pool.fetchval(made, "public") == elsewhere
    finally:
        await pool.execute(f"DROP SCHEMA {name} CASCADE")
        await pool.close()


@pytest.mark.req("FLT-141")
async def test_it_migrates_once_when_many_start_together(empty: Postgres, fresh_schema: str) -> None:
    pools = [Postgres(fresh_schema) for _ in range(5)]

    done = await asyncio.gather(*(migrate(pool) for pool in pools))

    assert sorted(map(len, done)) == [0, 0, 0, 0, len(find_migrations())]
    assert await migrate(empty) == []
    for pool in pools:
        await pool.close()


@pytest.mark.req("FLT-141")
async def test_it_refuses_when_another_takes_too_long(empty: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    assert migrations.WAIT_SEC == 60
    monkeypatch.setattr(migrations, "WAIT_SEC", 0.05)
    async with empty.dedicated() as other:
        await other.execute(QUERIES["migrate_lock"], schema_of(empty.dsn))

        with pytest.raises(MigrationRefused, match="another instance"):
            await migrate(empty)


@pytest.mark.req("FLT-141", "CFG-184")
async def test_it_leaves_the_old_schema_when_a_file_fails(empty: Postgres, tmp_path: Path) -> None:
    folder = files(
        tmp_path, **{"0001_pre_a": "CREATE TABLE a ();", "0002_pre_b": "CREATE TABLE b (); SELECT nonsense;"}
    )

    with pytest.raises(MigrationRefused, match="0002_pre_b"):
        await migrate(empty, folder=folder)

    assert await empty.fetchval("SELECT to_regclass('a') IS NOT NULL AND to_regclass('b') IS NULL")
    files(tmp_path, **{"0002_pre_b": "CREATE TABLE b ();"})
    assert await migrate(empty, folder=folder) == ["0002_pre_b.sql"]


async def test_it_takes_away_only_when_asked(empty: Postgres, tmp_path: Path) -> None:
    folder = files(tmp_path, **{"0001_pre_a": "CREATE TABLE a ();", "0002_post_a": "DROP TABLE a;"})

    assert await migrate(empty, folder=folder) == ["0001_pre_a.sql"]
    assert await migrate(empty, folder=folder, post=True) == ["0002_post_a.sql"]


async def test_it_starts_on_a_newer_schema_unless_that_is_marked(empty: Postgres) -> None:
    await migrate(empty)
    await empty.execute("INSERT INTO schema_versions (version, name) VALUES (9999, '9999_pre_of_a_newer_build.sql')")
    assert await migrate(empty) == []

    await empty.execute("INSERT INTO schema_marks VALUES ('needs_level', 99)")

    with pytest.raises(MigrationRefused, match="level 99"):
        await migrate(empty)


async def test_it_says_when_postgres_cannot_be_reached(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable):
        await migrate(Postgres(f"postgresql://qm@/postgres?host={tmp_path}"))


def test_it_refuses_a_file_without_a_phase(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="NNNN_pre"):
        find_migrations(files(tmp_path, **{"0001_schema": ""}))


def test_it_numbers_the_migrations_without_gaps() -> None:
    assert [m.version for m in find_migrations(MIGRATIONS)] == list(range(1, len(find_migrations()) + 1))


def test_it_refuses_a_statement_name_used_twice(tmp_path: Path) -> None:
    folder = files(tmp_path, a="-- name: one\nSELECT 1;\n", b="-- name: one\n-- why\nSELECT 2;\n")

    with pytest.raises(ValueError, match="one"):
        read_queries(folder)
    (tmp_path / "a.sql").unlink()
    assert dict(read_queries(folder)) == {"one": "SELECT 2"}


@pytest.mark.req("FLT-142")
def test_what_runs_beside_the_release_before_only_adds() -> None:
    """Removing and renaming wait for a ``post`` file of a later release."""
    altered = r"ALTER TABLE.*\b(DROP|RENAME|TYPE|SET NOT NULL)\b"
    taking = re.compile(rf"^\s*(DROP|TRUNCATE|DELETE|REVOKE|UPDATE|{altered})\b", re.M)
    for migration in find_migrations():
        if migration.phase == "pre":
            text = re.sub(r"--[^\n]*|'[^']*'", "", migration.path.read_text("utf-8"))
            assert not taking.search(text), migration.path.name


@pytest.mark.req("FLT-142")
async def test_a_build_starts_on_the_schema_of_the_next_release_and_refuses_an_incompatible_one(
    postgres: Postgres, tmp_path: Path
) -> None:
    for known in find_migrations():
        shutil.copy(known.path, tmp_path / known.path.name)
    (tmp_path / "9998_pre_next.sql").write_text("CREATE TABLE of_the_next_release (a integer);\n")
    assert await migrate(postgres, folder=tmp_path) == ["9998_pre_next.sql"]

    assert await migrate(postgres) == []
    await postgres.execute("INSERT INTO schema_marks VALUES ('needs_level', 99)")
    with pytest.raises(MigrationRefused, match="level 99"):
        await migrate(postgres)
