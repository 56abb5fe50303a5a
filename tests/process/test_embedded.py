"""Private stores: start, sockets, restart of a dead child, leftovers."""

from __future__ import annotations

import asyncpg
from redis.asyncio import Redis


async def test_it_gives_each_test_both_stores(valkey_url: str, fresh_prefix: str, fresh_schema: str) -> None:
    async with Redis.from_url(valkey_url) as client:
        await client.set(fresh_prefix + "a", "1")
        assert await client.get(fresh_prefix + "a") == b"1"

    link = await asyncpg.connect(fresh_schema)
    await link.execute("CREATE TABLE a (b int)")
    assert await link.fetchval("SELECT count(*) FROM a") == 0
    assert (await link.fetchval("SELECT current_schema()")).startswith("t_")
    await link.close()
