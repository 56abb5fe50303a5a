"""STORE=valkey: which first looks at the shared stores refuse a start, and which boot degraded."""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
from pathlib import Path

import asyncpg
import httpx
import pytest
from redis import Redis as Redis_
from redis.asyncio import Redis

from app.domain.facts import FactType
from app.infrastructure.keys import leader_lease
from app.infrastructure.store_checks import StoreRefused, check_postgres, check_valkey
from tests.chaos.stores import ValkeyServer
from tests.harness import Server, wait_for
from tests.process.forms import JOURNEY, journey
from tests.run_stores import Place


async def test_it_finds_both_stores_well(valkey_url: str, database_url: str) -> None:
    assert await check_valkey(valkey_url, 1) is None
    assert await check_postgres(database_url) is None


@pytest.mark.req("FLT-052")
async def test_it_refuses_credentials_that_valkey_refuses(valkey_url: str, fresh_prefix: str) -> None:
    user = fresh_prefix.rstrip(":")
    async with Redis.from_url(valkey_url) as client:
        await client.execute_command("ACL", "SETUSER", user, "on", ">right", "~*", "+@all")

        with pytest.raises(StoreRefused, match="credentials of VALKEY_URL") as caught:
            await check_valkey(f"unix://{user}:wrong-one@{valkey_url.removeprefix('unix://')}", 1)
        assert "wrong-one" not in str(caught.value)

        await client.execute_command("ACL", "SETUSER", user, "-info")
        with pytest.raises(StoreRefused):
            await check_valkey(f"unix://{user}:right@{valkey_url.removeprefix('unix://')}", 1)
        await client.execute_command("ACL", "DELUSER", user)


async def test_it_refuses_a_database_that_does_not_exist(database_url: str) -> None:
    with pytest.raises(StoreRefused, match="does not exist"):
        await check_postgres(database_url.replace("/postgres?", "/nowhere?"))


@pytest.mark.req("FLT-052")
async def test_it_refuses_a_host_name_that_does_not_resolve() -> None:
    with pytest.raises(StoreRefused, match="host name in VALKEY_URL does not resolve") as valkey:
        await check_valkey("redis://user:a-password@no..such.host:6379", 1)
    with pytest.raises(StoreRefused, match="host name in DATABASE_URL does not resolve") as postgres:
        await check_postgres("postgresql://user:a-password@no..such.host/qm")

    for refusal in (valkey, postgres):
        assert not {"a-password", "such.host"} & set(re.split(r"[\s/@:]", str(refusal.value)))


@pytest.mark.req("FLT-052")
async def test_it_refuses_a_certificate_that_does_not_verify(tmp_path: Path) -> None:
    files = ("-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=valkey")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]

    with pytest.raises(StoreRefused, match="certificate of Valkey does not verify") as caught:
        await check_valkey(f"rediss://:a-password@127.0.0.1:{port}", 2)

    assert "a-password" not in str(caught.value)
    server.close()


@pytest.mark.req("FLT-053")
async def test_it_takes_what_it_does_not_know_for_something_that_passes() -> None:
    """For example a Valkey that has no connection left."""
    with ValkeyServer("--maxclients", "1") as full, Redis_(port=full.port) as held:
        held.ping()

        said = await check_valkey(full.url, 2)

    assert said is not None
    assert said.partition(":")[0].endswith("Error")


@pytest.mark.req("FLT-053")
async def test_it_takes_a_refused_connection_for_something_that_passes() -> None:
    assert str(await check_valkey("redis://127.0.0.1:1", 1)).startswith("ConnectionError")
    assert await check_postgres("postgresql://127.0.0.1:1/qm") is not None


@pytest.mark.req("FLT-140", "CFG-192", "CFG-206")
@pytest.mark.req("FLT-009", "FLT-119")
@pytest.mark.req("OBS-185")
def test_it_starts_on_shared_stores_and_leaves_them_running_with_all_that_happened(place: Place) -> None:
    """The counts of the unfinished hour, the lease, the last commits, notes, and at the end the trail's last entry."""
    with Server(env={**place.env}, workers=1) as server, Redis_.from_url(place.valkey_url) as valkey:
        assert " store=valkey " in server.line
        assert httpx.get(server.url + "/healthz", timeout=10).status_code == 200
        wait_for(lambda: httpx.get(server.url + "/healthz", timeout=10).json()["leader"] is True)
        assert journey(server) == JOURNEY
        assert not any("valkey-server" in line for line in server.descendants().values())
        assert "EDGE_SECRET is not set: requests that bypass Cloudflare are accepted" in server.stderr
        key = {"Authorization": f"Bearer {server.admin_key}"}
        room = {"id": "shop", "targetUrl": "https://shop.example/", "ratePerMinute": 0}
        assert httpx.post(f"{server.url}/api/admin/rooms", json=room, headers=key, timeout=20).status_code == 200
        assert httpx.post(f"{server.url}/api/join", json={"roomId": "shop"}, timeout=20).status_code == 200
        assert valkey.exists(leader_lease(place.prefix))
        # Acknowledged before it is stored: what of it is there after the stop, the stop has stored.
        assert httpx.post(f"{server.url}/api/admin/rooms/shop/pause", headers=key, timeout=20).status_code == 200

        assert server.stop() == 0

        assert not valkey.exists(leader_lease(place.prefix)), "given back, not left to run out"
        assert not Path(server.env["DATA_DIR"]).exists(), "nothing is kept on the instance's own disk"
    assert rows(place.database_url, "SELECT room, joins FROM room_hours WHERE joins > 0 ORDER BY room") == [
        ("form", 2), ("shop", 1),
    ]  # fmt: skip
    facts = [kind for (kind,) in rows(place.database_url, "SELECT type FROM events WHERE room = 'shop' ORDER BY seq")]
    assert facts == [FactType.ROOM_CREATED, FactType.JOINED, FactType.ROOM_UPDATED]
    assert ("state",) in rows(place.database_url, "SELECT kind FROM timeline WHERE room = 'shop'")
    trail = [action for (action,) in rows(place.database_url, "SELECT action FROM audit ORDER BY id")]
    assert trail[0] == "server.start"
    assert trail[-1] == "server.stop"


def rows(database_url: str, sql: str) -> list[tuple[object, ...]]:
    async def ask() -> list[tuple[object, ...]]:
        link = await asyncpg.connect(database_url)
        try:
            return [tuple(row.values()) for row in await link.fetch(sql)]
        finally:
            await link.close()

    return asyncio.run(ask())


@pytest.mark.req("FLT-054", "ADM-043", "FLT-034")
def test_it_boots_degraded_when_neither_store_can_be_reached() -> None:
    env = {"STORE": "valkey", "VALKEY_URL": "redis://127.0.0.1:1", "DATABASE_URL": "postgresql://127.0.0.1:1/qm"}
    with Server(env=env, workers=1) as server:
        assert "valkey: unreachable at boot" in server.stderr
        assert httpx.get(server.url + "/healthz", timeout=10).json()["backend"]["valkey"] == "down"
        joined = httpx.post(server.url + "/api/join", json={"roomId": "shop"}, timeout=10)
        assert (joined.status_code, joined.json()["code"]) == (503, "storage_unavailable")
        key = {"Authorization": f"Bearer {server.admin_key}"}
        health = httpx.get(server.url + "/api/admin/health", headers=key, timeout=10)
        assert (health.status_code, health.json()["backend"]["postgres"]) == (200, "down")
        assert server.stop() == 0


@pytest.mark.req("CFG-179")
def test_it_refuses_with_one_block_and_code_78() -> None:
    server = Server(env={"PORT": "http", "STORE": "valkey", "VALKEY_URL": None, "SECRET": None})
    server.start(wait=False)
    try:
        assert server.wait() == 78
        assert server.stderr.startswith("refusing to start:\n")
        for words in ('PORT="http"', "VALKEY_URL", "DATABASE_URL", "SECRET is not set"):
            assert words in server.stderr
        folder = Path(server.env["DATA_DIR"])
        assert not folder.exists() or list(folder.iterdir()) == []
    finally:
        server.__exit__(None, None, None)


def test_it_checks_and_migrates_from_the_command_line() -> None:
    server = Server(env={"STORE": "valkey"})

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*server.command[:3], *words], env=server.env, capture_output=True, text=True, check=False
        )

    try:
        checked = run("check")
        said = "Valkey answers" in checked.stderr, "Postgres answers" in checked.stderr
        assert (checked.returncode, *said) == (0, True, True)
        first, second = run("migrate"), run("migrate")
    finally:
        server.__exit__(None, None, None)
    assert (first.returncode, first.stderr.startswith("applied: 0001")) == (0, True), first.stderr
    assert second.stderr.strip().endswith("the schema is up to date")
