"""STORE=valkey: which first looks at the shared stores refuse a start, and which boot degraded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest
from redis.asyncio import Redis

from app.infrastructure.store_checks import StoreRefused, check_postgres, check_valkey
from tests.harness import Server, wait_for


def shared(valkey_url: str, database_url: str, prefix: str) -> dict[str, str | None]:
    return {"STORE": "valkey", "VALKEY_URL": valkey_url, "DATABASE_URL": database_url, "VALKEY_PREFIX": prefix}


async def test_it_finds_both_stores_well(valkey_url: str, database_url: str) -> None:
    assert await check_valkey(valkey_url, 1) is None
    assert await check_postgres(database_url) is None


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


async def test_it_takes_a_refused_connection_for_something_that_passes() -> None:
    assert str(await check_valkey("redis://127.0.0.1:1", 1)).startswith("ConnectionError")
    assert await check_postgres("postgresql://127.0.0.1:1/qm") is not None


@pytest.mark.req("FLT-140")
def test_it_starts_on_shared_stores_and_leaves_them_running(
    valkey_url: str, database_url: str, fresh_prefix: str, fresh_schema: str
) -> None:
    with Server(env=shared(valkey_url, fresh_schema, fresh_prefix), workers=1) as server:
        assert " store=valkey " in server.line
        assert httpx.get(server.url + "/healthz", timeout=10).status_code == 200
        wait_for(lambda: httpx.get(server.url + "/healthz", timeout=10).json()["leader"] is True)
        assert not any("valkey-server" in line for line in server.descendants().values())
        assert "EDGE_SECRET is not set: requests that bypass Cloudflare are accepted" in server.stderr
        assert server.stop() == 0


@pytest.mark.req("FLT-054", "ADM-043", "FLT-034")
def test_it_boots_degraded_when_neither_store_can_be_reached(fresh_prefix: str) -> None:
    env = shared("redis://127.0.0.1:1", "postgresql://127.0.0.1:1/qm", fresh_prefix)
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
    server = Server(env={"PORT": "http", "STORE": "valkey", "SECRET": None})
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


def test_it_checks_and_migrates_from_the_command_line(valkey_url: str, fresh_prefix: str, fresh_schema: str) -> None:
    server = Server(env=shared(valkey_url, fresh_schema, fresh_prefix))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*server.command[:3], *words], env=server.env, capture_output=True, text=True, check=False
        )

    checked = run("check")
    assert (checked.returncode, "Valkey answers" in checked.stderr, "Postgres answers" in checked.stderr) == (
        0,
        True,
        True,
    )
    first, second = run("migrate"), run("migrate")
    assert (first.returncode, first.stderr.startswith("applied: 0001")) == (0, True), first.stderr
    assert second.stderr.strip().endswith("the schema is up to date")
