"""A migrated schema and facts to put into it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from app.core.ids import RoomId
from app.domain.facts import encode_element
from app.domain.facts_of_rooms import RoomCreated
from app.domain.facts_of_tickets import Joined
from app.infrastructure.journal import Batch, Journal
from app.infrastructure.migrate import migrate
from app.infrastructure.postgres import Postgres
from tests.journal.house import House

SALT = bytes(range(16))


@pytest.fixture
async def postgres(fresh_schema: str) -> AsyncIterator[Postgres]:
    """Pool on an empty, migrated schema."""
    pool = Postgres(fresh_schema, max_size=4)
    await migrate(pool)
    yield pool
    await pool.close()


@pytest.fixture
def journal(postgres: Postgres) -> Journal:
    """Journal on that schema."""
    return Journal(postgres)


@pytest.fixture
async def house(valkey_url: str, fresh_schema: str, postgres: Postgres, fresh_prefix: str) -> AsyncIterator[House]:
    """An instance on empty stores."""
    async with House(valkey_url, fresh_schema, fresh_prefix) as made:
        yield made


def created(room: str, *, gen: int = 1, at: int = 1000) -> bytes:
    """Outbox element of the beginning of a room."""
    config = {"id": room, "name": room, "target_url": "https://shop.example/"}
    return encode_element(at, RoomCreated(config, SALT, "test", gen, 1))


def joined(n: int, *, at: int = 2000, tag: int = 0) -> bytes:
    """Outbox element of the join of ticket ``n``; ``tag`` makes another visitor of it."""
    unit = (n * 256 + tag).to_bytes(8, "big")
    return encode_element(at, Joined(n, unit * 2, unit, unit * 2, unit * 2, unit * 2))


def batch(room: str, base: int, *elements: bytes, epoch: int = 1, gen: int = 1) -> Batch:
    """Batch of a room's outbox."""
    return Batch(RoomId(room), gen, epoch, base, elements)
