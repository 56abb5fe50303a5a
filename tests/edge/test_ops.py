"""Health as strangers see it, and what the edge does while a stop has begun."""

from __future__ import annotations

import time

import pytest

from blueprints.ops import Health
from tests.edge.wire import DevServer, Wire

MEMBERS = {
    *("ready", "status", "reasons", "degraded", "version", "build", "startedAt", "uptimeSec", "store", "sidestore"),
    *("leader", "storage"),
}


def health(**changes: object) -> Health:
    facts: dict[str, object] = {
        "ready": True,
        "status": "ok",
        "version": "1.0.0",
        "build": "ab12cd3",
        "started_at": 1730000000000,
        "uptime_sec": 8123,
        "store": "valkey",
        "sidestore": "pg",
        "storage_ok": True,
    }
    return Health(**{**facts, **changes})  # type: ignore[arg-type]


@pytest.mark.req("OBS-003")
def test_it_tells_a_ready_instance_s_health() -> None:
    assert health().body() == {
        "ready": True,
        "status": "ok",
        "reasons": [],
        "degraded": [],
        "version": "1.0.0",
        "build": "ab12cd3",
        "startedAt": 1730000000000,
        "uptimeSec": 8123,
        "store": "valkey",
        "sidestore": "pg",
        "leader": False,
        "storage": {"ok": True},
        "backend": {
            "store": "valkey",
            "valkey": "up",
            "recoveringRooms": 0,
            "ok": True,
            "valkeyEverConnected": True,
        },
    }


def test_it_tells_why_an_instance_is_not_ready() -> None:
    body = health(
        ready=False, status="degraded", reasons=(("storage_degraded", "text"),), degraded=("storage_degraded",)
    ).body()

    assert body["reasons"] == [{"code": "storage_degraded", "text": "text"}]
    assert body["degraded"] == ["storage_degraded"]


@pytest.mark.parametrize(("changes", "ok"), [({"valkey": "down"}, False), ({"recovering_rooms": 2}, False), ({}, True)])
def test_it_calls_the_backend_well_only_when_all_of_it_is(changes: dict[str, object], ok: bool) -> None:
    assert health(**changes).body()["backend"]["ok"] is ok


@pytest.mark.req("OBS-007")
def test_it_speaks_of_a_backend_only_where_there_is_one() -> None:
    assert "backend" not in health(store="memory").body()
    assert "backend" in health(store="embedded").body()


@pytest.mark.req("VIS-002")
def test_it_answers_both_routes_with_the_same_json(wire: Wire) -> None:
    answers = [wire.ask(f"GET {path}") for path in ("/healthz", "/healthz?x=1", "/api/version", "/api/v1/version")]

    assert {*answers[0].fields} == MEMBERS
    assert all(answer.fields == answers[0].fields for answer in answers)
    assert [answer.status for answer in answers] == [200] * 4
    assert not any(answer.all("set-cookie") for answer in answers)


def test_it_keeps_no_connection_once_a_stop_has_begun() -> None:
    with DevServer() as dev, Wire(dev.port) as first, Wire(dev.port) as second, Wire(dev.port) as third:
        for wire in (first, second, third):
            assert wire.ask("GET /api/check").headers["connection"] == "keep-alive"
        first.ask("POST /stop")
        deadline = time.monotonic() + 5
        with Wire(dev.port) as probe:  # the edge looks ten times a second
            while probe.ask("GET /api/check").headers["connection"] != "close":
                assert time.monotonic() < deadline

        for wire, path in ((second, "/api/check"), (third, "/stock")):
            answer = wire.ask(f"GET {path}")
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert wire.is_closed()
