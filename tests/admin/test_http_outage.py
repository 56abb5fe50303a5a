"""The admin API while Valkey hangs: what goes on, what is refused, and that nothing is claimed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.admin.callers import TARGET, Callers, code
from tests.harness import Server, troubles


def child_of(pid: int, name: str) -> int:
    """Process id of the server's own child whose program is ``name``."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == pid and f"({name}" in text:
            return int(stat.parent.name)
    raise AssertionError(f"the server has no child {name}")


@contextmanager
def halted(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.req("ADM-043", "ADM-137", "ADM-282")
def test_the_key_reads_health_and_settings_while_valkey_hangs_and_nothing_is_claimed() -> None:
    with Server(env={"VALKEY_TIMEOUT_MS": "300", "ADMIN_AUTH_FAIL_PER_MIN": "5"}, workers=1) as server:
        callers = Callers(server)
        owner, page = callers.with_key(server.admin_key), callers.signed_in()
        assert owner("POST", "/api/admin/rooms", {"id": "shop", "targetUrl": TARGET}).status_code == 200
        assert page("GET", "/api/admin/me").status_code == 200

        with halted(child_of(server.pid, "valkey-server")):
            assert owner("GET", "/api/admin/me").status_code == 200
            health = owner("GET", "/api/admin/health")
            assert health.status_code == 200
            assert (health.json()["status"], health.json()["backend"]["valkey"]) == ("degraded", "down")
            assert troubles(health.json()) == ["valkey_down"]
            (shown,) = owner("GET", "/api/admin/rooms").json()["rooms"]
            assert (shown["id"], shown["stale"], shown["recovering"]) == ("shop", True, False)
            assert owner("GET", "/api/admin/rooms/shop").json()["room"]["stale"] is True
            for path in ("audit", "operators", "monitor-tokens", "timeline", "reports"):
                assert owner("GET", f"/api/admin/{path}").status_code == 200, path
            for path in ("history", "protection"):
                assert code(owner("GET", f"/api/admin/{path}")) == (503, "storage_unavailable"), path
            for method, path, body in (
                ("POST", "rooms/shop/pause", None),
                ("POST", "rooms", {"id": "shop", "name": "x"}),
                ("POST", "rooms", {"id": "new", "targetUrl": TARGET}),
                ("POST", "rooms/shop/eject", {"ticket": 1}),
                ("POST", "rooms/shop/flush", None),
                ("POST", "rooms/shop/purge", None),
                ("DELETE", "rooms/shop", None),
                ("POST", "sse-ticket", None),
            ):
                answer = owner(method, f"/api/admin/{path}", body)
                assert code(answer) == (503, "storage_unavailable"), path
                assert answer.headers["retry-after"] == "5"
                assert answer.json()["retryAfterSec"] == 5
            for method, path in (("GET", "me"), ("DELETE", "session")):
                answer = page(method, f"/api/admin/{path}")
                assert code(answer) == (503, "storage_unavailable"), path
                assert "set-cookie" not in answer.headers
            guesser = callers.with_key("wrong")
            assert [guesser("GET", "/api/admin/me").status_code for _ in range(6)] == [401] * 5 + [429]

        deadline = time.monotonic() + 20
        while page("GET", "/api/admin/me").status_code != 200:
            assert time.monotonic() < deadline
        while code_of_pause(owner) != 200:
            assert time.monotonic() < deadline
        assert owner("GET", "/api/admin/rooms/shop").json()["room"]["stale"] is False
        callers.close()


def code_of_pause(owner: object) -> int:
    return int(owner("POST", "/api/admin/rooms/shop/pause").status_code)  # type: ignore[operator]
