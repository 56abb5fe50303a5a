"""Stores of a test run: private ones for what runs below HTTP, shared ones for servers with ``STORE=valkey``.

Each directory of a server has a place of its own in the shared ones: a key prefix and a schema, made of its name. Only
those are ever removed.
"""

from __future__ import annotations

import asyncio
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import asyncpg
from redis import Redis

from app.infrastructure.embedded import PrivateStores
from app.infrastructure.store_binaries import Binaries
from tests.run_environment import AUTO, read, refuse_database, refuse_valkey

NEEDS = "needs shared stores: TEST_VALKEY_URL and TEST_DATABASE_URL (auto = throw-away ones)"
DATABASE = "qm_test"


class RunStores(PrivateStores):
    """Throw-away stores, with as many Valkey databases as a server that is not ours has."""

    def _valkey(self, binaries: Binaries, data: Path):  # type: ignore[no-untyped-def]
        child = super()._valkey(binaries, data)
        child.command[child.command.index("--databases") + 1] = "16"
        return child


@functools.cache
def private() -> PrivateStores:
    """Both stores on throw-away data, started at the first ask, until ``end``."""
    stores = RunStores(data_dir=None)
    stores.start()
    return stores


def end() -> None:
    """Stop what the run has started."""
    if private.cache_info().currsize:
        private().stop()
        private.cache_clear()


@functools.cache
def shared() -> tuple[str, str]:
    """Addresses of the shared Valkey and Postgres. A test that asks is skipped, or fails, when there are none."""
    run = read(os.environ)
    if not run.has_stores:
        import pytest  # here, because the demo starts its server by the harness where pytest is not installed

        (pytest.fail if run.must_have_stores else pytest.skip)(NEEDS)
    valkey_url, database_url = str(run.valkey_url), str(run.database_url)
    if valkey_url == AUTO:
        valkey_url = private().valkey_url + "?db=9"
        refuse_valkey(valkey_url)
    if database_url == AUTO:
        do(private().database_url, f"CREATE DATABASE {DATABASE}")
        database_url = private().database_url.replace("/postgres?", f"/{DATABASE}?")
        refuse_database(database_url)
    return valkey_url, database_url


@dataclass(frozen=True)
class Place:
    """What one directory, or several instances together, have in the shared stores."""

    prefix: str
    schema: str
    valkey_url: str
    database_url: str
    """With the schema in it."""

    @classmethod
    def of(cls, name: str) -> Place:
        """The place of a directory of this name, whose last part is random."""
        last = name.rpartition("-")[2]
        valkey_url, database_url = shared()
        joint = "&" if "?" in database_url else "?"
        return cls(f"t{last}:", f"t_{last}", valkey_url, f"{database_url}{joint}search_path=t_{last}")

    @property
    def env(self) -> dict[str, str]:
        """Variables of a server on it."""
        urls = {"VALKEY_URL": self.valkey_url, "DATABASE_URL": self.database_url}
        return {"STORE": "valkey", "SIDESTORE": "pg", "VALKEY_PREFIX": self.prefix, **urls}

    def clear(self) -> None:
        """Remove the keys under the prefix, and the schema."""
        with Redis.from_url(self.valkey_url) as client:
            if names := list(client.scan_iter(match=self.prefix + "*", count=1000)):
                client.unlink(*names)
        do(self.database_url, f'DROP SCHEMA IF EXISTS "{self.schema}" CASCADE')


def do(database_url: str, sql: str) -> None:
    """Run one statement, from any thread: also from one whose loop runs."""

    async def act() -> None:
        link = await asyncpg.connect(database_url)
        try:
            await link.execute(sql)
        finally:
            await link.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, act()).result()
