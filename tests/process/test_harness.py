"""The harness itself, by a tiny stand-in server that is started through ``QM_SERVER_CMD`` (14 part A)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from redis import Redis

from tests import harness, run_stores
from tests.harness import LIMITS, ROOT, Server, ServerEnded, is_open
from tests.run_environment import refuse_database, refuse_valkey
from tests.run_stores import Place

PROGRAM = f"""#!{sys.executable} -ES
import json, os, signal, socket, sys
port = int(os.environ["PORT"])
held = None if "port" in sys.argv else socket.create_server((os.environ["HOST"], port))
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
with open(os.path.dirname(os.environ["DATA_DIR"]) + "/seen", "a") as seen:
    print(json.dumps([sys.argv[1:], dict(os.environ), os.getpid()]), file=seen)
print("about to serve", flush=True)
print("now listening" + (f" on http://127.0.0.1:{{sys.argv[2]}}" if "port" in sys.argv else ""), flush=True)
"port" in sys.argv or signal.pause()
"""
AROUND = {
    "VALKEY_URL": "redis://127.0.0.1:1/9", "DATABASE_URL": "postgres://127.0.0.1:1/qm_test", "PORT": "80",
    "SECRET": "of the surroundings", "ADMIN_KEY": "theirs", "JOIN_LIMIT_PER_MIN": "5", "QM_ENV": "production",
    "ALERT_WEBHOOK_URL": "https://hook.example/", "PUBLIC_URL": "https://shop.example", "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
}  # fmt: skip
OFF = (
    "JOIN_LIMIT_PER_MIN", "CHECK_LIMIT_PER_MIN", "STATUS_LIMIT_PER_MIN", "WAITING_LIMIT_PER_MIN",
    "NOTIFY_LIMIT_PER_MIN", "VERIFY_LIMIT_PER_MIN", "SSE_PER_IP", "SSE_MAX_TOTAL", "ADMIN_AUTH_FAIL_PER_MIN",
)  # fmt: skip

Use = Callable[..., None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Use:
    """Let ``QM_SERVER_CMD`` be the stand-in with these words, among variables of a real deployment."""
    program = tmp_path / "a server"
    program.write_text(PROGRAM)
    program.chmod(0o700)
    for name, value in AROUND.items():
        monkeypatch.setenv(name, value)

    def name_it(words: str = "") -> None:
        monkeypatch.setenv("QM_SERVER_CMD", f'"{program}" {words}')

    name_it()
    return name_it


def seen(server: Server) -> list[Any]:
    """Words, environment and process id of each start."""
    return [json.loads(line) for line in (server.base / "seen").read_text().splitlines()]


@pytest.mark.req("CFG-090", "CFG-091")
@pytest.mark.req("TST-003", "TST-004", "TST-005", "TST-010", "TST-021", "TST-024", "TST-025", "TST-027", "TST-029")
def test_another_command_is_started_like_the_products_own_and_is_the_server_itself(use: Use) -> None:
    use('one "two three;$HOME"')
    with Server({"QM_EXTRA": "x", "STATUS_LIMIT_PER_MIN": "7", "QM_WORKERS": None}) as server:
        ((words, env, pid),) = seen(server)
        assert words == ["one", "two three;$HOME"]
        assert (server.line, server.url) == ("now listening", f"http://127.0.0.1:{env['PORT']}")
        assert pid == server.pid
        assert {name: env[name] for name in ("HOST", "STORE", "QM_EXTRA")} == {
            "HOST": "127.0.0.1", "STORE": "memory", "QM_EXTRA": "x",
        }  # fmt: skip
        assert {name: env[name] for name in OFF} == {**dict.fromkeys(OFF, "0"), "STATUS_LIMIT_PER_MIN": "7"}
        assert (env["ADMIN_KEY"], env["SECRET"]) == (server.admin_key, server.env["SECRET"])
        assert set(LIMITS) == set(OFF)
        assert not {"QM_WORKERS", "VALKEY_URL", "DATABASE_URL", "QM_ENV", "ALERT_WEBHOOK_URL", "PUBLIC_URL"} & set(env)
        assert "RATE_LIMIT_MAX_KEYS" not in env
        known = {"LC_ALL", "PYTHONDONTWRITEBYTECODE", "PATH"}
        assert known <= set(env)
        assert [name for name in env if name in AROUND and env[name] == AROUND[name] and name not in known] == []
        own = Server(command=[sys.executable, "-m", "app", "serve"])
        own.__exit__(None, None, None)
        assert set(env) - {"QM_EXTRA", "LC_CTYPE"} == set(own.env) - {"QM_WORKERS", "LC_CTYPE"}

        server.kill()

        assert server.wait() == -signal.SIGKILL
        assert not is_open(int(env["PORT"]))
        server.start()
        assert server.stop() == 7, "its own exit code"


@pytest.mark.req("CFG-091", "TST-007")
def test_a_restart_keeps_the_directory_and_another_server_has_another(use: Use) -> None:
    with Server() as one, Server() as two:
        one.restart()
        (_, first, _), (_, again, _) = seen(one)
        ((_, other, _),) = seen(two)
        assert again == first
        for own in ("DATA_DIR", "PORT", "SECRET", "ADMIN_KEY"):
            assert first[own] != other[own]
        assert Path(first["DATA_DIR"]).parent == one.base
    assert not one.base.exists()
    assert not two.base.exists()


@pytest.mark.req("CFG-091", "TST-007", "TST-031")
@pytest.mark.parametrize("is_failing", [False, True])
def test_each_directory_has_a_place_of_its_own_in_the_shared_stores_that_goes_with_it(
    use: Use, monkeypatch: pytest.MonkeyPatch, is_failing: bool
) -> None:
    class Failing(Exception):
        """The test's own."""

    run_stores.shared()
    monkeypatch.setenv("STORE", "valkey")
    try:
        with Server() as one, Server() as two:
            one.restart()
            (_, env, _), (_, again, _) = seen(one)
            ((_, other, _),) = seen(two)
            assert (env["STORE"], env["SIDESTORE"], again) == ("valkey", "pg", env)
            place, beside = one.place, two.place
            assert place is not None
            assert beside is not None
            assert {env["VALKEY_URL"], other["VALKEY_URL"]} == {run_stores.shared()[0]}
            assert env["VALKEY_PREFIX"] == place.prefix != other["VALKEY_PREFIX"]
            given = [parse_qs(urlsplit(each["DATABASE_URL"]).query)["search_path"] for each in (env, other)]
            assert given == [[place.schema], [beside.schema]]
            assert place.schema != beside.schema
            for each in (place, beside):
                run_stores.do(each.database_url, f'CREATE SCHEMA "{each.schema}"')
                run_stores.do(each.database_url, "CREATE TABLE rooms (id int)")
            with Redis.from_url(place.valkey_url) as valkey:
                valkey.mset({f"{place.prefix}a": 1, f"{place.prefix}{{room}}b": 1, f"kept{place.prefix}": 1})
            if is_failing:
                raise Failing
    except Failing:
        assert is_failing

    with Redis.from_url(place.valkey_url) as valkey:
        assert valkey.exists(f"{place.prefix}a", f"{place.prefix}{{room}}b") == 0
        assert valkey.delete(f"kept{place.prefix}") == 1, "only what is under the prefix goes"
    assert schemas(place) & {place.schema, beside.schema} == set()
    assert "public" in schemas(place)


def schemas(place: Place) -> set[str]:
    async def ask() -> set[str]:
        link = await asyncpg.connect(place.database_url)
        try:
            return {row[0] for row in await link.fetch("SELECT nspname FROM pg_namespace")}
        finally:
            await link.close()

    return asyncio.run(ask())


@pytest.mark.req("TST-026", "CFG-090")
def test_a_wrapper_is_found_out(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "FREE_SEC", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as left:
        use(f"port {left.getsockname()[1]}")
        with pytest.raises(AssertionError, match="QM_SERVER_CMD is a wrapper"), Server():
            pass


def test_a_server_that_ends_before_it_listens_is_told_with_what_it_said() -> None:
    server = Server(command=["/bin/sh", "-c", "echo hello; echo no room on this disk >&2; exit 3"])
    with pytest.raises(ServerEnded, match=r"(?s)exit code 3.*no room on this disk"), server:
        pass
    assert not server.base.exists()


@pytest.mark.req("TST-036")
def test_auto_is_throw_away_stores_that_the_refusals_hold_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_VALKEY_URL", "auto")
    monkeypatch.setenv("TEST_DATABASE_URL", "auto")
    monkeypatch.setattr(run_stores, "do", lambda url, sql: made.append((url, sql)))
    made: list[tuple[str, str]] = []

    valkey_url, database_url = run_stores.shared.__wrapped__()

    assert valkey_url.startswith(run_stores.private().valkey_url)
    assert database_url.startswith("postgresql://")
    assert made == [(run_stores.private().database_url, "CREATE DATABASE qm_test")]
    refuse_valkey(valkey_url)
    refuse_database(database_url)
    with Redis.from_url(valkey_url) as valkey:
        assert valkey.config_get("databases", "maxmemory-policy") == {
            "databases": "16",
            "maxmemory-policy": "noeviction",
        }
        assert valkey.client_info()["db"] == 9


@pytest.mark.req("CFG-089", "TST-040")
def test_tests_that_need_the_shared_stores_fail_where_they_must_not_be_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("STORE", "TEST_VALKEY_URL", "TEST_DATABASE_URL", "QM_REQUIRE_VALKEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs shared stores: TEST_VALKEY_URL and TEST_DATABASE_URL"):
        run_stores.shared.__wrapped__()
    monkeypatch.setenv("QM_REQUIRE_VALKEY", "1")
    with pytest.raises(pytest.fail.Exception, match="needs shared stores: TEST_VALKEY_URL and TEST_DATABASE_URL"):
        run_stores.shared.__wrapped__()


INNER = """
import pytest
from tests.harness import Server
from tests.run_stores import Place

def test_that_runs(): pass
def test_of_a_server(): Server({"STORE": "valkey"})
@pytest.mark.parametrize("side", ["left", "right"])
def test_of_two(side): Place.of("a-b")
def test_of_no_concern(): pytest.skip("no such thing here")
def test_of_nothing_said(): pytest.skip()
@pytest.mark.skip
def test_of_nothing_marked(): pass
"""


def inner_run(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A test run of its own over a file that needs shared stores, and does not."""
    (folder / "test_inner.py").write_text(INNER)
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.run_plugin",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            str(folder),
        ],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.req("CFG-087", "CFG-088", "TST-033")
def test_a_refusal_ends_the_run_before_any_connection_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = f"127.0.0.1:{there.getsockname()[1]}"
        run = inner_run(tmp_path, TEST_VALKEY_URL=f"redis://{address}/9", TEST_DATABASE_URL=f"postgres://{address}/qm")

        assert run.returncode == pytest.ExitCode.USAGE_ERROR
        assert "TEST_DATABASE_URL names a database that does not end in _test" in run.stderr
        assert "test_inner" not in run.stdout
        there.settimeout(0)
        with pytest.raises(BlockingIOError):
            there.accept()


@pytest.mark.req("CFG-087", "CFG-088", "CFG-089", "TST-032", "TST-039", "TST-041", "TST-177")
def test_a_run_without_shared_stores_names_what_it_skips_and_says_why(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = f"127.0.0.1:{there.getsockname()[1]}"
        # What the product itself would store in is nobody's to test with.
        run = inner_run(tmp_path, VALKEY_URL=f"redis://{address}/9", DATABASE_URL=f"postgres://{address}/qm_test")

        there.settimeout(0)
        with pytest.raises(BlockingIOError):
            there.accept()
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    lines = run.stdout.splitlines()
    assert [line for line in lines if line.startswith("warning: ")] == [
        "warning: test_inner.py: no shared stores, skipped: test_of_a_server, test_of_two[left], test_of_two[right]"
    ]
    assert "1 skipped: no such thing here" in lines
    assert f"3 skipped: {run_stores.NEEDS}" in lines
    assert [line for line in lines if line == "skipped without a reason"] == ["skipped without a reason"] * 2
    assert "1 failed, 1 passed, 4 skipped, 1 error" in lines[-1]
