"""``/healthz``, ``/api/version`` and ``/api/admin/health`` of one instance with stores of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.admin.callers import TARGET, Caller, Callers, code
from tests.harness import Server, troubles, wait_for
from tests.ops.conftest import MAX_CONNECTIONS, PUBLIC_KEY
from tests.ops.scrape import scrape


@pytest.mark.req("OBS-001", "OBS-009", "OBS-030", "VIS-181")
def test_it_tells_anybody_by_get_and_by_head(server: Server, stranger: Caller) -> None:
    for path in ("/healthz", "/api/version", "/api/v1/version"):
        answer, head = stranger("GET", path), stranger("HEAD", path)
        assert answer.status_code == head.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        assert "set-cookie" not in answer.headers
        assert not any(name.startswith("x-ratelimit") for name in answer.headers)
        assert head.headers["content-length"] == str(len(answer.content))
        assert head.content == b""
    bodies = [stranger("GET", path).json() for path in ("/healthz", "/api/version", "/api/v1/version")]
    for body in bodies:
        del body["uptimeSec"]
    assert bodies[0] == bodies[1] == bodies[2]
    wait_for(lambda: {stranger("GET", "/healthz").status_code for _ in range(300)} == {200})


@pytest.mark.req("OBS-006", "OBS-012")
def test_strangers_read_no_name_and_no_error(server: Server, stranger: Caller, owner: Caller) -> None:
    body = stranger("GET", "/healthz").json()
    assert set(body) == {
        "ready", "status", "reasons", "degraded", "version", "build", "startedAt", "uptimeSec", "store", "sidestore",
        "leader", "storage",
    }  # fmt: skip
    assert set(body["storage"]) == {"ok"}
    assert owner("GET", "/api/admin/health").json()["instance"] not in str(body)


@pytest.mark.req("OBS-031", "OBS-034", "OBS-035")
def test_the_full_answer_is_for_keys_only(server: Server, stranger: Caller, owner: Caller, callers: Callers) -> None:
    assert code(stranger("GET", "/api/admin/health")) == (401, "unauthorized")
    assert code(callers.with_key(PUBLIC_KEY)("GET", "/api/admin/health")) == (403, "insufficient_role")
    health = owner("GET", "/api/admin/health").json()
    assert health["access"]["sso"] is False
    assert health["startedAt"] == stranger("GET", "/healthz").json()["startedAt"]
    assert 0 <= health["now"] - health["startedAt"] - health["uptimeSec"] * 1000 < 2000


@pytest.mark.req("OBS-036", "ADM-267", "ADM-269", "ADM-270")
def test_it_tells_every_block_that_this_build_knows(server: Server, owner: Caller) -> None:
    def told() -> dict[str, Any]:
        return dict(owner("GET", "/api/admin/health").json())

    wait_for(lambda: told()["memory"]["rssBytes"] and told()["storage"]["databaseBytes"])
    health = told()

    assert "inline" not in health, "no room is proxied"
    named = {"warnings", "configWarnings", "hardening", "incidents", "proxy", "edge", "waitingPage", "access",
             "startedAt", "uptimeSec", "backend", "instance", "fleet", "storage", "audit", "keys", "pid",
             "now"}  # fmt: skip
    assert named <= set(health)
    assert {"ok", "forwardedFromUndeclaredPeer", "undeclaredPeers"} <= set(health["proxy"])
    assert {"refusedTotal", "clientIpFallbackTotal"} <= set(health["edge"])
    assert {"recoveringRoomIds", "maxmemoryPolicy", "valkeyEverConnected"} <= set(health["backend"])
    assert set(health["audit"]) == {"sealedTo", "sealedAt", "seal", "ok"}
    assert {"secret", "secretPrevious", "adminKey", "publicApiKey", "kid", "kidPrevious"} <= set(health["keys"])
    assert (health["role"], health["workers"], health["drill"], health["leader"]) == ("all", 2, False, True)
    assert health["pid"] == server.pid
    assert health["fleet"]["instances"] == 1
    assert health["sse"] == {"visitors": 0, "admin": 0, "perIp": 0, "maxTotal": 0, "refusedTotal": 0}
    assert health["limits"]["statusPerMin"] == 3
    assert health["waitingPage"] == {"enforced": False, "limitPerMin": 0, "exemptAddresses": 0, "refusedTotal": 0}
    storage, backend = health["storage"], health["backend"]
    assert (storage["ok"], storage["writeErrors"]) == (True, 0)
    assert (storage["lastError"], storage["lastErrorAt"]) == (None, None)
    assert 0 <= health["now"] - storage["lastCommitAt"] < 60_000
    assert (storage["pendingEvents"], storage["oldestPendingMs"]) == (0, 0)
    assert storage["databaseBytes"] > 1_000_000
    assert (backend["valkey"], backend["postgres"], backend["maxmemoryPolicy"]) == ("up", "up", "noeviction")
    assert backend["usedMemoryBytes"] > 100_000
    assert backend["maxMemoryBytes"] is None
    assert abs(health["clock"]["offsetFromValkeyMs"]) <= 5, "it is the same clock"
    assert (health["clock"]["lastJumpAt"], health["clock"]["lastJumpMs"]) == (None, None)
    assert 20_000_000 < health["memory"]["rssBytes"] < 2_000_000_000
    assert health["config"]["STATUS_LIMIT_PER_MIN"] == {"value": 3, "from": "env"}
    assert health["config"]["RESYNC_MS"] == {"value": 5000, "from": "default"}
    assert health["config"]["SECRET"] == {"value": "set", "from": "env"}
    assert server.env["SECRET"] not in str(health)
    assert set(health["alerting"]) == {"configured", "firing", "pending"}
    assert health["alerting"]["configured"] is False
    assert troubles(health) == []
    assert health["status"] == ("degraded" if health["incidents"] else "ok")


@pytest.mark.req("OBS-057", "OBS-069", "OBS-070", "OBS-071", "OBS-072", "OBS-073", "OBS-074", "OBS-075", "OBS-076")
@pytest.mark.req("OBS-077", "OBS-078", "OBS-079", "OBS-080", "OBS-082", "ADM-257", "BUD-055")
def test_metrics_and_health_tell_the_same(server: Server, owner: Caller) -> None:
    room = "same"
    owner("POST", "/api/admin/rooms", {"id": room, "targetUrl": TARGET, "ratePerMinute": 0})
    for _ in range(2):
        httpx.post(f"{server.url}/api/join", json={"roomId": room})
    wait_for(lambda: owner("GET", "/api/admin/health").json()["memory"]["rssBytes"])
    wait_for(lambda: owner("GET", "/api/admin/health").json()["storage"]["pendingEvents"] == 0)
    with stream(server, room), console(server, owner):
        health = owner("GET", "/api/admin/health").json()
        found = scrape(server)
    assert found.value("qm_room_waiting", room=room) == 3
    assert found.value("qm_rooms") == health["rooms"]["count"]
    assert found.value("qm_sse_subscribers", kind="visitor") == health["sse"]["visitors"] == 1
    assert found.value("qm_sse_subscribers", kind="admin") == health["sse"]["admin"] == 1
    assert found.value("qm_connections_limit") == health["connections"]["max"]
    assert found.value("qm_connections_open") in (health["connections"]["open"], health["connections"]["open"] + 1)
    up = time.time() - health["startedAt"] / 1000
    assert health["uptimeSec"] <= (found.value("qm_uptime_seconds") or 0) <= up + 1
    assert found.value("qm_process_start_time_seconds") == health["startedAt"] / 1000
    assert found.value("qm_build_info", version=health["version"], build=health["build"]) == 1
    states = ("shutting_down", "ready", "leader", "storage_ok", "backend_up")
    assert [found.value(f"qm_{name}") for name in states] == [0, 1, 1, 1, 1]
    assert found.value("qm_degraded") == bool(health["degraded"])
    cpu, capacity = health["cpu"], health["capacity"]
    assert found.value("qm_cpu_usable") == cpu["usable"] > 0
    assert found.value("qm_cpu_contention") == cpu["contention"]
    assert found.value("qm_fleet_instances") == capacity["instances"] == 1
    assert found.value("qm_fleet_instances_declared") == capacity["instancesDeclared"] == 1
    for process in ("web-0", "web-1", "ticker", "drainer", "jobs"):
        assert (found.value("qm_loop_lag_seconds_count", process=process) or 0) > 0, process
    assert found.value("qm_recovering_rooms") == 0
    assert found.value("qm_journal_pending_events") == 0
    assert found.value("qm_journal_oldest_pending_seconds") == 0
    assert (found.value("qm_resident_memory_bytes") or 0) > 20_000_000


@contextmanager
def stream(server: Server, room: str) -> Iterator[None]:
    """A visitor's open stream."""
    with httpx.Client(base_url=server.url, timeout=10) as http:
        token = http.post("/api/join", json={"roomId": "same"}).json()["token"]
        with http.stream("GET", f"/events?room={room}&token={token}") as answer:
            assert answer.status_code == 200
            yield
    httpx.post(f"{server.url}/api/leave", json={"roomId": room, "token": token})


@contextmanager
def console(server: Server, owner: Caller) -> Iterator[None]:
    """A console's open stream."""
    ticket = owner("POST", "/api/admin/sse-ticket").json()["ticket"]
    with httpx.stream("GET", f"{server.url}/api/admin/events?ticket={ticket}", timeout=10) as answer:
        assert answer.status_code == 200
        yield


@contextmanager
def full(server: Server) -> Iterator[None]:
    """It holds as many connections as it may, all of them idle and for others.

    One that comes while an earlier request's is just going is itself above the limit, so more come until all is taken.
    """
    host, _, port = server.url.removeprefix("http://").partition(":")
    with ExitStack() as held:

        def is_full() -> bool:
            held.enter_context(socket.create_connection((host, int(port))))
            return str(httpx.get(server.url + "/api/status?room=x").json()["code"]) == "overloaded"

        for _ in range(MAX_CONNECTIONS - 1):
            held.enter_context(socket.create_connection((host, int(port))))
        wait_for(is_full)
        yield


@pytest.mark.req("OBS-011", "OBS-013", "CFG-175", "OBS-098")
def test_being_full_is_no_incident_and_every_worker_says_so(server: Server) -> None:
    before = scrape(server).value("qm_connections_refused_total") or 0
    with full(server):
        wait_for(lambda: httpx.get(server.url + "/healthz").status_code == 503)
        for _ in range(12):  # a connection each: both workers are asked
            answer = httpx.get(server.url + "/healthz")
            body = answer.json()
            assert (answer.status_code, body["ready"], troubles(body)) == (503, False, [])
            assert body["status"] == ("degraded" if body["degraded"] else "ok")
            assert [reason["code"] for reason in body["reasons"]] == ["connection_limit"]
            assert httpx.get(server.url + "/api/version").status_code == 200
        assert httpx.get(server.url + "/api/status?room=x").json()["code"] == "overloaded"
        found = scrape(server)
        assert found.value("qm_ready") == 0
        assert (found.value("qm_connections_refused_total") or 0) >= before + 1
        assert found.value("qm_proxy_overloaded_total") == 0
    wait_for(lambda: httpx.get(server.url + "/healthz").status_code == 200)


@pytest.mark.req("OBS-015", "OBS-083", "OBS-003", "OBS-004", "ADM-272")
def test_an_instance_that_cannot_record_joins_gets_no_traffic_until_it_can(server: Server, owner: Caller) -> None:
    owner("POST", "/api/admin/rooms", {"id": "unrecorded", "targetUrl": TARGET})
    with unreachable_postgres(server):
        wait_for(lambda: httpx.get(server.url + "/healthz").status_code == 503)
        answer = httpx.get(server.url + "/healthz")
        body = answer.json()
        assert (answer.headers["retry-after"], body["ready"]) == ("5", False)
        assert body["reasons"] == [{"code": "storage_degraded", "text": "storage is degraded"}]
        assert (body["status"], troubles(body), body["storage"]) == ("degraded", ["storage_degraded"], {"ok": False})
        told = owner("GET", "/api/admin/health")
        assert (told.status_code, told.json()["ready"], told.json()["status"]) == (200, False, "degraded")
        joined = httpx.post(server.url + "/api/join", json={"roomId": "unrecorded"}, timeout=20)
        assert (joined.status_code, joined.json()["code"]) == (503, "storage_unavailable")
        wait_for(lambda: (scrape(server).value("qm_storage_write_errors_total") or 0) > 0)
        found = scrape(server)
        assert (found.value("qm_ready"), found.value("qm_storage_ok"), found.value("qm_degraded")) == (0, 0, 1)
        wait_for(lambda: (scrape(server).value("qm_journal_oldest_pending_seconds") or 0) > 0)
        assert (scrape(server).value("qm_journal_pending_events") or 0) > 0
    wait_for(lambda: httpx.get(server.url + "/healthz").status_code == 200)
    wait_for(lambda: troubles(httpx.get(server.url + "/healthz").json()) == [])
    assert scrape(server).value("qm_journal_oldest_pending_seconds") == 0


@contextmanager
def unreachable_postgres(server: Server) -> Iterator[None]:
    """The server's own Postgres lives, ends its connections and can be reached by nobody."""
    lines = server.descendants()
    named = [re.search(r"-cunix_socket_directories=(\S+)", line) for line in lines.values()]
    (folder,) = {match[1] for match in named if match}
    path = Path(folder) / ".s.PGSQL.5432"
    path.rename(path.with_name("hidden"))
    for pid, line in lines.items():
        if line.startswith("postgres: ") and "[local]" in line:
            os.kill(pid, signal.SIGTERM)
    try:
        yield
    finally:
        path.with_name("hidden").rename(path)


@pytest.mark.req("ADM-269")
def test_health_counts_inline_rooms(server: Server, owner: Caller) -> None:
    before = owner("GET", "/api/admin/health").json()["rooms"]
    for room, more in (("tagged", {}), ("fronted", {"proxyOrigin": "http://203.0.113.7:3000"})):
        body = {"id": room, "targetUrl": f"https://{room}.example/", **more}
        assert owner("POST", "/api/admin/rooms", body).status_code == 200

    def counted() -> bool:
        after = owner("GET", "/api/admin/health").json()["rooms"]
        return (after["count"] - before["count"], after["inline"] - before["inline"]) == (2, 1)

    wait_for(counted)
    wait_for(lambda: "inline" in owner("GET", "/api/admin/health").json())


@pytest.mark.req("OBS-044")
def test_a_connector_that_is_locked_out_is_an_incident(server: Server, owner: Caller, callers: Callers) -> None:
    room, check = "connected", "/api/check?room=connected&ip=203.0.113.9&agent=x"
    owner("POST", "/api/admin/rooms", {"id": room, "targetUrl": TARGET})
    connector, bystander = callers.with_key(PUBLIC_KEY), callers.with_key("wrong")
    assert connector("GET", check).status_code == 200
    for _ in range(21):
        bystander("GET", "/api/admin/me")  # an address without a connector gets locked: nobody is told
    address = str(connector.http.headers["X-Forwarded-For"])
    guesser = callers.with_key("wrong", **{"X-Forwarded-For": address})

    def told() -> list[str]:
        incidents = owner("GET", "/api/admin/health").json()["incidents"]
        return [incident["text"] for incident in incidents if incident["code"] == "connector_locked"]

    assert told() == []
    for _ in range(20):
        guesser("GET", "/api/admin/me")
    wait_for(lambda: told() != [])
    (text,) = told()
    assert f"the connector at {address} is locked out" in text
    assert "lets visitors through unqueued" in text
    assert "Check that it is your own" in text
    assert text.endswith(f"set QM_CONNECTOR_IPS={address}")
    assert connector("GET", check).status_code == 401
    assert "connector_locked" in httpx.get(server.url + "/healthz").json()["degraded"]
    assert address not in httpx.get(server.url + "/healthz").text
