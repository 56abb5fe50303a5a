"""Rooms and acts on their lines over real HTTP."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from app.domain.roles import Role
from blueprints.admin.rooms import ROUTES
from tests.admin.callers import TARGET, Caller, code, fresh_id
from tests.harness import Server

SETTINGS = {
    "id",
    "name",
    "targetUrl",
    "proxyOrigin",
    "onBackendDown",
    "state",
    "rate",
    "maxConcurrent",
    "passedTtlSec",
    "sessionTtlSec",
    "sessionMaxSec",
    "presenceSec",
    "queueMaxPerIp",
    "preQueueMaxPerIp",
    "opensAt",
    "returnOrigins",
    "tagOrigins",
    "rules",
    "autoActivate",
    "autotune",
    "protection",
    "preset",
    "proxyOrigins",
    "originHealthPath",
    "originBalance",
    "originAffinity",
    "machinePaths",
    "ingressBudget",
    "sessionMaxPerIp",
}
FACTS = {
    "generation",
    "createdAt",
    "updatedAt",
    "mode",
    "effectiveState",
    "drawnAt",
    "waiting",
    "preQueue",
    "active",
    "pendingEntry",
    "occupancy",
    "passesOutstanding",
    "joinsPerMin",
    "passedLastMinute",
    "oldestWaitSec",
    "lastTicket",
    "estWaitSec",
    "estWaitIsFloor",
    "estWaitInfinite",
    "waitP50Sec",
    "waitP90Sec",
    "site",
    "origin",
    "origins",
    "originsTotal",
    "originsInRotation",
    "lastChange",
    "checksWithoutUrl",
    "blockedReturnUrls",
    "refusedOriginChecks",
    "sharedSessions",
    "topAddressSlots",
    "protectionCounts",
    "recovering",
    "stale",
    "etag",
}


def join(server: Server, room: str, address: str = "203.0.113.7") -> httpx.Response:
    answer = httpx.post(
        f"{server.url}/api/join", json={"roomId": room}, headers={"X-Forwarded-For": address}, timeout=20
    )
    assert answer.status_code == 200
    return answer


@pytest.mark.req("ADM-112", "ADM-113", "ADM-127", "ENG-050", "ADM-146", "ADM-114")
def test_a_room_object_has_every_documented_member_and_calls_the_pace_rate(owner: Caller) -> None:
    room_id = fresh_id()

    answer = owner("POST", "/api/admin/rooms", {"id": room_id, "targetUrl": TARGET, "ratePerMinute": 61})

    body = answer.json()
    assert answer.status_code == 200
    assert set(body) == {"room", "created", "changed", "ignoredFields", "warnings"}
    assert (body["created"], body["changed"]) == (True, ["id", "targetUrl", "rate"])
    room = body["room"]
    assert set(room) == SETTINGS | FACTS
    assert (room["rate"], room["generation"], room["mode"]) == (61, 1, "snippet")
    assert re.fullmatch("[0-9a-f]{8}", room["etag"])
    assert owner("GET", f"/api/admin/rooms/{room_id}").json() == {"room": room}
    listed = owner("GET", "/api/admin/rooms").json()
    assert listed["rooms"][-1] == room
    assert set(listed["totals"]) == {
        "rooms",
        "waiting",
        "preQueue",
        "active",
        "occupancy",
        "passesOutstanding",
        "joinsPerMin",
        "passedLastMinute",
        "worstWait",
        "incident",
        "incidents",
    }
    owner("DELETE", f"/api/admin/rooms/{room_id}")


@pytest.mark.req("ADM-131")
def test_a_room_that_was_read_can_be_posted_back_whole(owner: Caller, room: str) -> None:
    rules = [{"action": "protect", "pattern": "/pay*"}]
    owner(
        "POST", "/api/admin/rooms", {"id": room, "rules": rules, "tagOrigins": ["https://a.example"], "state": "bypass"}
    )
    read = owner("GET", f"/api/admin/rooms/{room}").json()["room"]
    read["rules"][0] |= {"hits": 8123, "lastMatchedAt": 1789999998000}

    body = owner("POST", "/api/admin/rooms", read).json()

    assert (body["created"], body["changed"]) == (False, [])
    assert set(body["ignoredFields"]) == FACTS | {"rules[].hits", "rules[].lastMatchedAt"}
    assert owner("GET", f"/api/admin/rooms/{room}").json()["room"]["updatedAt"] == read["updatedAt"]


@pytest.mark.parametrize(
    ("body", "refused", "fields", "sentence"),
    [
        ({"ratePerMinut": 5}, "unknown_field", ["ratePerMinut"], '"ratePerMinut" is not a field of a room'),
        (
            {"rate": 5, "ratePerMinute": 6},
            "conflicting_field",
            ["rate", "ratePerMinute"],
            "rate and ratePerMinute differ",
        ),
        (
            {"onBackendDown": "x"},
            "invalid_on_backend_down",
            ["onBackendDown"],
            'onBackendDown must be "closed" or "open"',
        ),
        ({"state": "off"}, "invalid_state", ["state"], "state must be active, paused or bypass"),
        ({"proxyOrigin": "http://203.0.113.7:3000/app"}, "invalid_proxy_origin", ["proxyOrigin"], None),
        ({"opensAt": "2027-01-01T00:00:00"}, "invalid_opens_at", ["opensAt"], None),
        ({"protection": {"mode": "loud"}}, "invalid_protection", ["protection"], None),
        ({"preset": "capacity"}, "not_in_this_build", ["preset"], None),
        ({"rate": "60"}, "invalid_rate", ["rate"], "rate must be a whole number from 0 to 100000"),
        ({"name": "", "maxConcurrent": 0, "x": 1}, "invalid_name", ["name", "maxConcurrent", "x"], None),
    ],
)
def test_it_refuses_with_the_documented_words(
    owner: Caller, room: str, body: dict[str, Any], refused: str, fields: list[str], sentence: str | None
) -> None:
    before = owner("GET", f"/api/admin/rooms/{room}").json()["room"]["etag"]

    answer = owner("POST", "/api/admin/rooms", {"id": room, **body})

    assert code(answer) == (400, refused)
    assert answer.json()["fields"] == fields
    if sentence is not None:
        assert answer.json()["error"] == sentence
    assert owner("GET", f"/api/admin/rooms/{room}").json()["room"]["etag"] == before


def test_it_refuses_ids_that_no_new_room_may_have(owner: Caller) -> None:
    for room_id in (
        "dk_x",
        "meta_x",
        "notify_x",
        "email_x",
        "console",
        "origin_down_attempts",
        "-a",
        "",
        "a" * 65,
        None,
        5,
    ):
        assert code(owner("POST", "/api/admin/rooms", {"id": room_id, "targetUrl": TARGET})) == (400, "invalid_room_id")
    assert code(owner("POST", "/api/admin/rooms", {"targetUrl": TARGET})) == (400, "invalid_room_id")
    assert code(owner("POST", "/api/admin/rooms", {"id": fresh_id()})) == (400, "target_url_required")


@pytest.mark.req("ENG-037", "ADM-144")
def test_it_warns_in_the_answer(owner: Caller, room: str) -> None:
    body = owner("POST", "/api/admin/rooms", {"id": room, "presenceSec": 5}).json()

    (warning,) = body["warnings"]
    assert (warning["code"], warning["field"]) == ("short_timing", "presenceSec")
    assert "absent" in warning["message"]


def test_it_checks_if_match(owner: Caller, room: str) -> None:
    tag = owner("GET", f"/api/admin/rooms/{room}").json()["room"]["etag"]
    owner("POST", f"/api/admin/rooms/{room}/rate", {"rate": 9})

    late = owner("POST", "/api/admin/rooms", {"id": room, "name": "Late"}, headers={"If-Match": f'"{tag}"'})

    assert code(late) == (409, "stale_room")
    assert late.json()["room"]["rate"] == 9
    tag = late.json()["room"]["etag"]
    saved = owner("POST", "/api/admin/rooms", {"id": room, "name": "Late"}, headers={"If-Match": f'"{tag}"'})
    assert saved.json()["changed"] == ["name"]


@pytest.mark.req("ADM-150", "ADM-153")
def test_acts_answer_the_room_and_what_changed(owner: Caller, room: str) -> None:
    def act(path: str, body: Any = None) -> tuple[list[str], str, int]:
        answer = owner("POST", f"/api/admin/rooms/{room}/{path}", body)
        assert set(answer.json()) == {"room", "changed", "warnings"}
        shown = answer.json()["room"]
        assert shown["effectiveState"] == shown["state"]
        return answer.json()["changed"], shown["state"], shown["rate"]

    assert act("pause") == (["state"], "paused", 60)
    assert act("pause", {}) == ([], "paused", 60)
    assert act("resume") == (["state"], "active", 60)
    assert act("resume") == ([], "active", 60)
    assert act("state", {"state": "bypass"}) == (["state"], "bypass", 60)
    assert act("resume") == ([], "bypass", 60)
    assert act("pause") == (["state"], "paused", 60)
    assert act("rate", {"ratePerMinute": 120}) == (["rate"], "paused", 120)
    assert act("rate", {"rate": 0}) == (["rate"], "paused", 0)
    assert act("rate", {"rate": 100_000}) == (["rate"], "paused", 100_000)
    for path, body, refused in (
        ("state", {"state": "off"}, "invalid_state"),
        ("state", {}, "invalid_state"),
        ("rate", {"rate": 100_001}, "invalid_rate"),
        ("rate", {"rate": 1.5}, "invalid_rate"),
        ("rate", {}, "invalid_rate"),
        ("rate", {"rate": 1, "ratePerMinute": 2}, "conflicting_field"),
        ("eject", {}, "invalid_ticket"),
        ("eject", {"ticket": "1"}, "invalid_ticket"),
    ):
        assert code(owner("POST", f"/api/admin/rooms/{room}/{path}", body)) == (400, refused)


def test_nothing_can_be_done_to_a_room_that_is_none(owner: Caller) -> None:
    for method, path, body in (
        ("GET", "nope", None),
        ("DELETE", "nope", None),
        ("POST", "nope/pause", None),
        ("POST", "nope/resume", None),
        ("POST", "nope/state", {"state": "paused"}),
        ("POST", "nope/rate", {"rate": 1}),
        ("POST", "nope/eject", {"ticket": 1}),
        ("POST", "nope/flush", None),
        ("POST", "nope/purge", {}),
        ("GET", "no%20room", None),
        ("GET", "%00", None),
        ("GET", "no%2Froom", None),
        ("POST", "a" * 500 + "/pause", None),
    ):
        answer = owner(method, f"/api/admin/rooms/{path}", body)
        assert code(answer) == (404, "no_room"), path
        assert answer.json()["error"] == "No such room"


@pytest.mark.req("ENG-191", "ENG-192")
def test_it_ejects_a_holder_and_says_what_he_was(server: Server, owner: Caller, room: str) -> None:
    owner("POST", "/api/admin/rooms", {"id": room, "state": "paused", "queueMaxPerIp": None})
    tickets = [join(server, room).json()["ticket"] for _ in range(3)]
    assert owner("GET", f"/api/admin/rooms/{room}").json()["room"]["waiting"] == 3

    first = owner("POST", f"/api/admin/rooms/{room}/eject", {"ticket": tickets[1]})
    again = owner("POST", f"/api/admin/rooms/{room}/eject", {"ticket": tickets[1]})

    assert first.json() == {"ok": True, "roomId": room, "ticket": tickets[1], "was": "waiting"}
    assert again.json() == {"ok": True, "roomId": room, "ticket": tickets[1], "was": "ejected"}
    shown = owner("GET", f"/api/admin/rooms/{room}").json()["room"]
    assert (shown["waiting"], shown["lastTicket"], shown["joinsPerMin"]) == (2, 3, 3)
    assert (shown["estWaitSec"], shown["estWaitInfinite"]) == (None, True)
    assert code(owner("POST", f"/api/admin/rooms/{room}/eject", {"ticket": 99})) == (404, "no_ticket")


@pytest.mark.req("ENG-019")
def test_it_tells_whom_a_deletion_dropped_and_counts_the_next_generation(server: Server, owner: Caller) -> None:
    room_id = fresh_id()
    owner("POST", "/api/admin/rooms", {"id": room_id, "targetUrl": TARGET, "state": "paused", "queueMaxPerIp": None})
    for _ in range(4):
        join(server, room_id)

    deleted = owner("DELETE", f"/api/admin/rooms/{room_id}")

    dropped = {"waiting": 4, "preQueue": 0, "passes": 0, "sessions": 0}
    assert deleted.json() == {"ok": True, "roomId": room_id, "generation": 1, "dropped": dropped, "warnings": []}
    assert code(owner("GET", f"/api/admin/rooms/{room_id}")) == (404, "no_room")
    assert code(owner("DELETE", f"/api/admin/rooms/{room_id}")) == (404, "no_room")
    again = owner("POST", "/api/admin/rooms", {"id": room_id, "targetUrl": TARGET}).json()["room"]
    assert (again["generation"], again["waiting"], again["lastTicket"]) == (2, 0, 0)
    assert join(server, room_id).json()["ticket"] == 1
    owner("DELETE", f"/api/admin/rooms/{room_id}")


def test_a_change_holds_for_the_next_visitor_on_every_worker(server: Server, owner: Caller) -> None:
    for _ in range(6):
        room_id = fresh_id()
        owner("POST", "/api/admin/rooms", {"id": room_id, "targetUrl": TARGET, "queueMaxPerIp": None})
        for state in ("paused", "bypass", "active"):
            owner("POST", f"/api/admin/rooms/{room_id}/state", {"state": state})
            for _ in range(4):  # a connection of its own each: any worker may answer
                assert join(server, room_id).json()["roomState"] == state
        owner("DELETE", f"/api/admin/rooms/{room_id}")
        for _ in range(4):
            answer = httpx.post(f"{server.url}/api/join", json={"roomId": room_id}, timeout=20)
            assert code(answer) == (404, "no_room")


@pytest.mark.req("ENG-020")
def test_only_an_owner_may_delete_a_room(browser: Caller, stranger: Caller, room: str) -> None:
    """ADMIN_KEY is the only owner's credential so far; every other role is below what the route asks for."""
    (route,) = [route for route in ROUTES if (route.method, route.path) == ("DELETE", "rooms/<id>")]

    assert route.role is Role.OWNER
    assert code(stranger("DELETE", f"/api/admin/rooms/{room}")) == (401, "unauthorized")
    assert browser("DELETE", f"/api/admin/rooms/{room}").status_code == 200


@pytest.mark.req("ENG-021")
def test_every_visitor_route_of_a_deleted_room_is_no_room(server: Server, owner: Caller) -> None:
    room_id = fresh_id()
    owner("POST", "/api/admin/rooms", {"id": room_id, "targetUrl": TARGET})
    owner("DELETE", f"/api/admin/rooms/{room_id}")

    def ask(method: str, path: str, body: Any = None) -> httpx.Response:
        return httpx.request(method, server.url + path, json=body, timeout=20)

    for prefix in ("/api", "/api/v1"):
        for method, path, body in (
            ("POST", "join", {"roomId": room_id}),
            ("POST", "leave", {"roomId": room_id}),
            ("GET", f"status?room={room_id}", None),
            ("GET", f"check?room={room_id}", None),
            ("POST", f"check?room={room_id}", {"url": TARGET}),
        ):
            assert code(ask(method, f"{prefix}/{path}", body)) == (404, "no_room"), path
    assert code(ask("GET", f"/events?room={room_id}")) == (404, "no_room")
    page = ask("GET", f"/w/{room_id}")
    assert (page.status_code, page.headers["cache-control"]) == (404, "no-store")
