"""Stores for every test: one private Valkey and one private Postgres a run, a prefix and a schema of its own a test."""

from __future__ import annotations

import functools
import secrets
from collections.abc import AsyncIterator, Iterator

import asyncpg
import httpx._transports.default as transports
import pytest
from redis import Redis

from app.infrastructure.embedded import PrivateStores
from tests import run_stores

pytest_plugins = ["tests.run_plugin", "tests.admin.fixtures"]

# A client of httpx reads every root certificate at its making: 20 ms of CPU, taken from the server under test whenever
# a test asks it again and again. Nothing here speaks TLS with the world.
transports.create_ssl_context = functools.cache(transports.create_ssl_context)

LONG_FIRST = ("chaos", "load", "process", "inline", "journey", "console", "pages", "ops", "alerts", "fuzz", "visitor")
"""Folders whose files take long for few tests, the longest first. Files that are shared out late would leave the other
process idle behind the last of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the long files begin first; within a file nothing moves."""
    rank = {folder: place for place, folder in enumerate(LONG_FIRST)}
    items.sort(key=lambda item: rank.get(item.nodeid.split("/")[1], len(rank)))


@pytest.fixture(scope="session")
def private_stores() -> PrivateStores:
    """Both stores on throw-away data, started at the first test that asks for one."""
    return run_stores.private()


@pytest.fixture(scope="module")
def place() -> Iterator[run_stores.Place]:
    """A prefix and a schema in the shared stores, for instances beside each other; removed after the file."""
    made = run_stores.Place.of(secrets.token_hex(4))
    yield made
    made.clear()


@pytest.fixture(scope="session")
def valkey_url(private_stores: PrivateStores) -> str:
    """``unix://`` address of a Valkey that the whole run shares."""
    return private_stores.valkey_url


@pytest.fixture(scope="session")
def database_url(private_stores: PrivateStores) -> str:
    """libpq address of a Postgres that the whole run shares."""
    return private_stores.database_url


@pytest.fixture
def fresh_prefix(valkey_url: str) -> Iterator[str]:
    """Key prefix that nobody else uses; its keys are removed afterwards."""
    prefix = f"t{secrets.token_hex(4)}:"
    yield prefix
    with Redis.from_url(valkey_url) as client:
        names = list(client.scan_iter(match=prefix + "*", count=1000))
        if names:
            client.unlink(*names)


@pytest.fixture
async def fresh_schema(database_url: str) -> AsyncIterator[str]:
    """Database address whose ``search_path`` is an empty schema; it is dropped afterwards."""
    name = f"t_{secrets.token_hex(4)}"
    link = await asyncpg.connect(database_url)
    try:
        await link.execute(f"CREATE SCHEMA {name}")
        yield f"{database_url}&search_path={name}"
    finally:
        await link.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        await link.close()
