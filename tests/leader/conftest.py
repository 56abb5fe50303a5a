"""An instance on empty stores, and leases on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from app.infrastructure.leader_lease import LeaderLease
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.migrate import migrate
from app.infrastructure.postgres import Postgres
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.valkey import Valkey
from tests.journal.house import House

LEASE_MS = 500


@pytest.fixture
async def postgres(fresh_schema: str) -> AsyncIterator[Postgres]:
    """Pool on an empty, migrated schema."""
    pool = Postgres(fresh_schema, max_size=4)
    await migrate(pool)
    yield pool
    await pool.close()


@pytest.fixture
async def house(valkey_url: str, fresh_schema: str, postgres: Postgres, fresh_prefix: str) -> AsyncIterator[House]:
    """An instance on empty stores."""
    async with House(valkey_url, fresh_schema, fresh_prefix) as made:
        yield made


@pytest.fixture
async def directory(house: House) -> AsyncIterator[RoomDirectory]:
    """The instance's copies of its rooms, kept fresh."""
    made = RoomDirectory(
        postgres=house.postgres, live=house.admin, valkey=house.valkey, prefix=house.prefix, resync_ms=60_000
    )
    await made.start()
    yield made
    await made.stop()


def lease_of(
    house: House, holder: str, *, postgres: Postgres | None = None, valkey: Valkey | None = None, ms: int = LEASE_MS
) -> LeaderLease:
    """A lease of one process."""
    return LeaderLease(
        loader=LuaLoader(valkey or house.valkey), postgres=postgres or house.postgres, prefix=house.prefix,
        holder=holder, lease_ms=ms,
    )  # fmt: skip
