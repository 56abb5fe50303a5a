"""Connections that a network has forgotten: nobody ends them, and nothing comes back on them any more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis
from redis.asyncio.client import PubSub

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.infrastructure import valkey as adapter
from app.infrastructure.embedded import PrivateStores
from app.infrastructure.postgres import Postgres
from app.infrastructure.valkey import Valkey
from tests.chaos.relay import Relay
from tests.process.waiting import until


@pytest.fixture
def wire(private_stores: PrivateStores) -> Iterator[Relay]:
    with Relay(private_stores.valkey_url.removeprefix("unix://")) as relay:
        yield relay


async def test_a_stranded_connection_to_valkey_is_renewed_without_an_outage(wire: Relay) -> None:
    """One that times out alone is no outage (FLT-148), and must not fail for ever either."""
    valkey = Valkey(f"redis://127.0.0.1:{wire.port}", timeout_ms=300)
    seen = []

    async def is_back() -> None:
        seen.append("back")

    valkey.on_reconnect(is_back)
    await valkey.execute("PING")

    wire.strand()
    downs = []
    with pytest.raises(StorageUnavailable):
        await valkey.execute("PING")
    end = mono() + 10
    while True:
        downs.append(valkey.is_down)
        try:
            await valkey.execute("PING")
            break
        except StorageUnavailable:
            assert mono() < end

    assert not any(downs)
    await until(lambda: seen == ["back"])
    await valkey.close()


async def test_a_stranded_listener_listens_anew(
    wire: Relay, valkey_url: str, fresh_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "LISTEN_IDLE_SEC", 0.2)
    valkey = Valkey(f"redis://127.0.0.1:{wire.port}", timeout_ms=300)
    heard: list[bytes] = []
    resyncs = []

    async def resync() -> None:
        resyncs.append(mono())

    async with valkey.listen({fresh_prefix + "c": heard.append}, on_resync=resync):
        with Redis.from_url(valkey_url) as other:
            other.publish(fresh_prefix + "c", "one")
            await until(lambda: heard == [b"one"])
            await asyncio.sleep(0.7)
            assert len(resyncs) == 1, "silence alone is no loss"

            wire.strand()
            await until(lambda: len(resyncs) > 1)
            other.publish(fresh_prefix + "c", "two")
            await until(lambda: heard == [b"one", b"two"])
    await valkey.close()


async def test_a_listener_whose_subscription_nobody_confirms_asks_anew(
    wire: Relay, valkey_url: str, fresh_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "LISTEN_IDLE_SEC", 0.2)
    valkey = Valkey(f"redis://127.0.0.1:{wire.port}", timeout_ms=300)
    heard: list[bytes] = []
    resyncs = []
    subscribe = PubSub.subscribe

    async def lost(self: Any, *names: str) -> None:
        if not resyncs:
            resyncs.append("lost")
            await self.connect()
            wire.strand()  # the connection stands, and what is written from now on leads nowhere
        await subscribe(self, *names)

    async def resync() -> None:
        resyncs.append("resync")

    monkeypatch.setattr(PubSub, "subscribe", lost)
    async with valkey.listen({fresh_prefix + "c": heard.append}, on_resync=resync):
        await until(lambda: resyncs == ["lost", "resync"])
        with Redis.from_url(valkey_url) as other:
            other.publish(fresh_prefix + "c", "one")
            await until(lambda: heard == [b"one"])
    await valkey.close()


async def test_a_stranded_connection_to_postgres_is_replaced(private_stores: PrivateStores) -> None:
    path = private_stores.database_url.rpartition("host=")[2] + "/.s.PGSQL.5432"
    with Relay(path) as relay:
        postgres = Postgres(
            f"postgresql://qm@127.0.0.1:{relay.port}/postgres?sslmode=disable", max_size=1, statement_timeout_ms=500
        )
        assert await postgres.fetchval("SELECT 1") == 1

        relay.strand()

        with pytest.raises(StorageUnavailable):
            await postgres.fetchval("SELECT 1")

        async def answers() -> bool:
            try:
                return bool(await postgres.fetchval("SELECT 1") == 1)
            except StorageUnavailable:
                return False

        async with asyncio.timeout(15):
            while not await answers():
                pass
        await postgres.close()


@pytest.mark.req("FLT-085")
@pytest.mark.parametrize("kind", ["pooled", "dedicated"])
async def test_a_connection_whose_host_is_gone_is_soon_ended_by_postgres(database_url: str, kind: str) -> None:
    """With it go the locks it holds: on heads of rooms, on rebuilds. Default is hours."""
    postgres = Postgres(database_url, max_size=1)
    sql = "SELECT name, source FROM pg_settings WHERE name LIKE 'tcp_%'"
    if kind == "pooled":
        rows = await postgres.fetch(sql)
    else:
        async with postgres.dedicated() as link:
            rows = await link.fetch(sql)

    assert {row["name"] for row in rows if row["source"] == "client"} == {
        "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout",
    }  # fmt: skip
    await postgres.close()
