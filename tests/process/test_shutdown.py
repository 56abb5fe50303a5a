"""The stop on request, and what the audit trail says of an instance's life. Source: 01, chapter 7; 05, chapter 11."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.admin.callers import Caller, Callers, code
from tests.harness import Server, wait_for
from tests.process.test_stop_connections import Wire


@pytest.fixture
def callers_of() -> Iterator[Any]:
    made: list[Callers] = []

    def make(server: Server) -> Callers:
        made.append(Callers(server))
        return made[-1]

    yield make
    for each in made:
        each.close()


def life_of(server: Server) -> list[tuple[str, str, str]]:
    """Actor, action and detail of each entry about the server, oldest first."""
    key = {"Authorization": f"Bearer {server.admin_key}"}
    entries = httpx.get(f"{server.url}/api/admin/audit?limit=100", headers=key, timeout=20).json()["entries"]
    return [(e["actor"], e["action"], e["detail"]) for e in reversed(entries) if e["action"].startswith("server.")]


def started(server: Server, times: int) -> list[tuple[str, str, str]]:
    """The same, once it has so many starts."""
    wait_for(lambda: sum(action == "server.start" for _, action, _ in life_of(server)) == times)
    return life_of(server)


def children(server: Server, name: str) -> set[int]:
    """Ids of the processes of ``server`` whose command begins so."""
    return {pid for pid, line in server.descendants().items() if line.startswith(name)}


def in_a_hurry(server: Server) -> bytes:
    """Ask for a stop by signals, one after the other, while a request is under way; what is answered to it."""
    wire = Wire(server)
    wire.ask(b"POST /api/join", b'{"roomId":"shop"}', send=5)

    def again() -> bool:
        server.kill(signal.SIGTERM)
        return server.process is not None and server.process.poll() is not None

    wait_for(again, 60)
    answered = b""
    with closing(wire.socket), suppress(ConnectionResetError):
        while piece := wire.socket.recv(65536):
            answered += piece
    return answered


@pytest.mark.req("ADM-168", "ADM-169", "ADM-170", "ADM-254", "ADM-255", "CFG-191", "CFG-200", "CFG-202", "TST-060")
@pytest.mark.req("ADM-250")
@pytest.mark.req("CFG-199")
def test_it_stops_on_request_as_at_a_signal_and_tells_how_each_run_ended(callers_of: Any) -> None:
    env = {"STORE": "embedded", "SHUTDOWN_GRACE_MS": "1500", "SHUTDOWN_DRAIN_MS": "60000", "QM_INSTANCE_ID": "one"}
    with Server(env=env, workers=2) as server:
        version = httpx.get(server.url + "/api/version", timeout=10).json()["version"]
        assert started(server, 1) == [("system", "server.start", f"v{version}; first run")]
        (drainer,) = children(server, "qm-drainer")
        os.kill(drainer, signal.SIGKILL)
        wait_for(lambda: children(server, "qm-drainer") - {drainer})
        caller: Caller = callers_of(server).with_key(server.admin_key)
        room = {"id": "shop", "targetUrl": "https://shop.example/"}
        wait_for(lambda: caller("POST", "/api/admin/rooms", room).status_code == 200)  # it drains again

        first = caller("POST", "/api/admin/shutdown")
        wait_for(lambda: caller("GET", "/healthz").status_code == 503)
        again = caller("POST", "/api/v1/admin/shutdown", {"force": True})

        for answer in (first, again):
            body = answer.json()
            assert (answer.status_code, body["ok"], body["stopping"], body["uptimeSec"] >= 0) == (200, True, True, True)
        assert server.wait() == 0

        server.start()
        ended = ("system", "server.stop", "shutdown (request), clean")
        assert started(server, 2)[1:] == [
            ("ADMIN_KEY", "server.shutdown", ""),
            ended,
            ("system", "server.start", f"v{version}; previous run: closed cleanly"),
        ]
        server.kill()
        server.wait()
        server.start()
        assert started(server, 3)[-1][2] == f"v{version}; previous run: not closed cleanly"
        assert in_a_hurry(server) == b"", "the drain has time for a 408"
        assert server.wait() == 0
        server.start()
        assert started(server, 4)[-2:] == [
            ("system", "server.stop", "shutdown (SIGTERM), clean"),
            ("system", "server.start", f"v{version}; previous run: closed cleanly"),
        ]


@pytest.mark.req("CFG-203", "BUD-069", "ADM-251")
def test_it_stops_for_nobody_else(callers_of: Any) -> None:
    """And not below the declared number of instances, unless it is forced."""
    reason = "callers give up while a single instance restarts"
    with Server(env={"FLEET_MIN_INSTANCES": "2", "FLEET_MIN_REASON": reason}, workers=1) as server:
        callers = callers_of(server)
        admin = callers.with_key(server.admin_key)
        key = admin("POST", "/api/admin/operators", {"name": "Ann", "role": "operator"}).json()["key"]
        link = admin("POST", "/api/admin/monitor-tokens", {"label": "tv"}).json()["token"]
        session = callers.signed_in()

        for caller, expected in (
            (callers.with_key(None), (401, "unauthorized")),
            (callers.with_key(key), (403, "insufficient_role")),
            (callers.with_key(link), (403, "insufficient_role")),
        ):
            assert code(caller("POST", "/api/admin/shutdown")) == expected
        no_page = session("POST", "/api/admin/shutdown", headers={"X-QM-CSRF": ""})
        other_site = session("POST", "/api/admin/shutdown", headers={"Sec-Fetch-Site": "cross-site"})
        assert code(no_page) == code(other_site) == (403, "csrf_required")
        assert code(admin("POST", "/api/admin/shutdown", {"force": "yes"})) == (400, "invalid_force")
        assert code(admin("POST", "/api/admin/shutdown", {"now": True})) == (400, "unknown_field")
        assert httpx.get(server.url + "/healthz", timeout=10).status_code == 200
        assert "server.shutdown" not in {action for _, action, _ in life_of(server)}

        said = f"0 of 2 instances; do not lower this: {reason}"
        for body in ({}, {"force": False}):
            refused = session("POST", "/api/admin/shutdown", body)
            assert code(refused) == (409, "below_fleet_minimum")
            assert refused.json()["error"].startswith(said)
        noted = admin("GET", "/api/admin/audit", params={"action": "server.shutdown"}).json()["entries"]
        assert [(one["ok"], one["detail"].startswith(f"below_fleet_minimum: {said}")) for one in noted] == [
            (False, True), (False, True),
        ]  # fmt: skip
        assert httpx.get(server.url + "/healthz", timeout=10).status_code == 200

        assert session("POST", "/api/admin/shutdown", {"force": True}).status_code == 200
        assert server.wait() == 0
        assert f"stopped_below_fleet_minimum what={said}" in server.stderr


@pytest.mark.req("CFG-197", "CFG-198", "ADM-256", "OBS-185")
def test_a_stop_whose_last_commit_fails_says_so(callers_of: Any) -> None:
    """The audit line cannot be written either, so it goes to the log."""
    with Server(env={"SHUTDOWN_DRAIN_MS": "4000"}, workers=1) as server:
        caller = callers_of(server).with_key(server.admin_key)
        body = {"id": "shop", "targetUrl": "https://shop.example/", "ratePerMinute": 60}
        assert caller("POST", "/api/admin/rooms", body).status_code == 200
        postgres = [pid for pid, line in server.descendants().items() if "postgres" in Path(line.split()[0]).name]
        for pid in postgres:
            os.kill(pid, signal.SIGSTOP)
        try:
            caller("POST", "/api/admin/rooms/shop/pause")

            server.kill(signal.SIGTERM)

            assert server.wait(60) == 1
        finally:
            for pid in postgres:  # what is halted ends with nobody
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert re.search("shutdown.* WITH STORAGE FAILING.*changes since the last good commit are not", server.stderr)
        assert ", clean" not in server.stderr
