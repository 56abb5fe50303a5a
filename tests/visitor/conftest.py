"""A site on empty stores, its drainer running."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from app.infrastructure.migrate import migrate
from app.infrastructure.postgres import Postgres
from app.infrastructure.rate_limiter import RateLimiter
from tests.journal.house import House
from tests.visitor.post import Post, open_post
from tests.visitor.site import Browser, Site


@pytest.fixture
def limiter() -> Iterator[RateLimiter]:
    """Budgets of one worker."""
    table = RateLimiter.create("qm-visitor-tests", workers=1, max_keys=4096)
    yield RateLimiter.attach(table.name, 0)
    table.close()


@pytest.fixture
async def idle_house(valkey_url: str, fresh_schema: str, fresh_prefix: str) -> AsyncIterator[House]:
    """Stores, engine and waiter; nothing is drained."""
    pool = Postgres(fresh_schema, max_size=2)
    await migrate(pool)
    await pool.close()
    async with House(valkey_url, fresh_schema, fresh_prefix) as made:
        yield made


@pytest.fixture
async def house(idle_house: House) -> House:
    """An instance whose facts are committed as they come."""
    await idle_house.start_drainer()
    return idle_house


@pytest.fixture
async def site(house: House, limiter: RateLimiter) -> AsyncIterator[Site]:
    """A site without a room."""
    made = Site(house, limiter)
    yield made
    await made.stop()


@pytest.fixture
def browser(site: Site) -> Browser:
    """A browser that has never been here."""
    return Browser(site)


@pytest.fixture
async def post(house: House, limiter: RateLimiter) -> AsyncIterator[Post]:
    """A site that offers mail."""
    async with open_post(house, limiter) as made:
        yield made
