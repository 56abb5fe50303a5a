"""What the acts on a room promise, over real HTTP and with each credential (05, sections 8 to 13)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from app.core.clock import wall_ms
from app.domain.room_fields import FIELDS
from tests.admin.callers import TARGET, Caller, Callers, code, fresh_id
from tests.harness import Server, wait_for


@pytest.fixture(scope="module")
def keys(server: Server) -> dict[str, str]:
    """One key per role."""
    callers = Callers(server)
    admin = callers.with_key(server.admin_key)
    found = {}
    for role in ("viewer", "operator", "owner"):
        found[role] = admin("POST", "/api/admin/operators", {"name": f"acts {role}", "role": role}).json()["key"]
    found["monitor"] = admin("POST", "/api/admin/monitor-tokens", {"label": "acts"}).json()["token"]
    callers.close()
    return found


def join(server: Server, room: str, number: int = 1, **headers: str) -> list[dict[str, Any]]:
    answers = [
        httpx.post(
            f"{server.url}/api/join",
            json={"roomId": room},
            headers={"X-Forwarded-For": f"203.0.113.{n + 1}", **headers},
            timeout=20,
        )
        for n in range(number)
    ]
    assert [answer.status_code for answer in answers] == [200] * number
    return [answer.json() for answer in answers]


def told(owner: Caller, room: str) -> list[tuple[str, str, str]]:
    """Action, detail and actor of the room's audit entries, oldest first."""
    entries = owner("GET", "/api/admin/audit", params={"roomId": room}).json()["entries"]
    return [(entry["action"], entry["detail"], entry["actor"]) for entry in reversed(entries)]


def marked(owner: Caller, room: str) -> list[tuple[str, str, str]]:
    items = owner("GET", "/api/admin/timeline", params={"roomId": room}).json()["items"]
    return [(item["kind"], item["text"], item["actor"]) for item in items]


@pytest.mark.req("ADM-160", "ADM-161", "ADM-162", "ADM-167", "ADM-195")
def test_flush_purge_and_eject_tell_numbers_and_leave_their_traces(
    server: Server, owner: Caller, callers: Callers, keys: dict[str, str], room: str
) -> None:
    night = callers.with_key(keys["operator"])
    path = f"/api/admin/rooms/{room}"
    owner("POST", "/api/admin/rooms", {"id": room, "rate": 0})
    empty = [night("POST", f"{path}/flush").json(), night("POST", f"{path}/purge", {}).json()]
    join(server, room, 3)

    flushed = night("POST", f"{path}/flush", {})
    join(server, room, 2)
    ejected = night("POST", f"{path}/eject", {"ticket": 1})
    purged = night("POST", f"{path}/purge")
    shown = owner("GET", path).json()["room"]

    assert empty == [
        {"ok": True, "roomId": room, "flushed": 0},
        {"ok": True, "roomId": room, "purged": {"waiting": 0, "preQueue": 0}},
    ]
    assert flushed.json() == {"ok": True, "roomId": room, "flushed": 3}
    assert ejected.json() == {"ok": True, "roomId": room, "ticket": 1, "was": "passed"}
    assert purged.json() == {"ok": True, "roomId": room, "purged": {"waiting": 2, "preQueue": 0}}
    assert (shown["waiting"], shown["rate"], shown["lastTicket"]) == (0, 0, 5), "the room and its settings stay"
    assert shown["passesOutstanding"] + shown["pendingEntry"] == 2, "passes stay"
    assert code(night("POST", f"{path}/eject", {"ticket": 6})) == (404, "no_ticket")
    acts = [
        ("room.flush", "3 let in", "acts operator"),
        ("visitor.eject", "ticket 1 (was passed)", "acts operator"),
        ("room.purge", "2 waiting and 0 in the pre-queue dropped", "acts operator"),
    ]
    assert told(owner, room)[-3:] == acts, "what did nothing leaves no trace"
    assert [(kind, actor) for kind, _, actor in marked(owner, room)][-3:] == [
        ("flush", "acts operator"), ("eject", "acts operator"), ("purge", "acts operator"),
    ]  # fmt: skip
    night("POST", f"{path}/schedule", {"opensAt": wall_ms() + 3_600_000})
    assert code(night("POST", f"{path}/flush")) == (409, "room_scheduled")
    night("POST", f"{path}/schedule", {"opensAt": None})
    night("POST", f"{path}/state", {"state": "bypass"})
    assert code(night("POST", f"{path}/flush")) == (409, "room_bypassed")
    night("POST", f"{path}/pause")
    night("POST", f"{path}/rate", {"rate": 7})
    wait_for(lambda: told(owner, room)[-1][0] == "room.rate")  # state and rate are journaled behind their answer
    assert [(action, actor) for action, _, actor in told(owner, room)[-5:]] == [
        (action, "acts operator")
        for action in ("room.schedule", "room.schedule", "room.state", "room.state", "room.rate")
    ]
    assert [kind for kind, _, _ in marked(owner, room)][-5:] == ["schedule", "schedule", "state", "state", "rate"]


@pytest.mark.req("ADM-165", "ENG-020")
def test_only_an_owner_ends_a_room_and_everything_of_it_is_gone(
    server: Server, owner: Caller, callers: Callers, keys: dict[str, str]
) -> None:
    room_id = fresh_id()
    path = f"/api/admin/rooms/{room_id}"
    night, boss = callers.with_key(keys["operator"]), callers.with_key(keys["owner"])
    body = {"id": room_id, "targetUrl": TARGET, "rate": 0, "name": "Old", "maxConcurrent": 1}
    assert night("POST", "/api/admin/rooms", body).status_code == 200
    join(server, room_id, 4)
    owner("POST", f"{path}/flush")
    join(server, room_id, 2)

    refused = night("DELETE", path)
    assert code(refused) == (403, "insufficient_role")
    assert (refused.json()["role"], refused.json()["needs"]) == ("operator", "owner")
    assert owner("GET", path).json()["room"]["waiting"] == 2
    deleted = boss("DELETE", path)

    answer = deleted.json()
    dropped = answer.pop("dropped")
    assert answer == {"ok": True, "roomId": room_id, "generation": 1, "warnings": []}
    assert dropped == {"waiting": 2, "preQueue": 0, "passes": 4, "sessions": 0}
    assert code(boss("DELETE", path)) == (404, "no_room")
    assert code(boss("DELETE", "/api/admin/rooms/never-was")) == (404, "no_room")
    again = owner("POST", "/api/admin/rooms", {"id": room_id, "targetUrl": TARGET}).json()["room"]
    assert (again["name"], again["rate"], again["maxConcurrent"]) == (room_id, 60, None)
    assert (again["generation"], again["opensAt"], again["waiting"], again["lastTicket"]) == (2, None, 0, 0)
    owner("DELETE", path)


@pytest.mark.req("ADM-122", "ENG-203")
def test_each_rule_tells_how_often_it_decided_and_when(server: Server, owner: Caller, room: str) -> None:
    rules = [
        {"id": "pay", "action": "protect", "pattern": "/pay*"},
        {"id": "never", "action": "protect", "pattern": "/x"},
    ]
    owner("POST", "/api/admin/rooms", {"id": room, "rules": rules, "state": "bypass"})
    before = wall_ms()
    for _ in range(3):
        url = quote(f"{TARGET}/pay/now", safe="")
        assert httpx.get(f"{server.url}/api/check?room={room}&url={url}", timeout=20).status_code == 200

    def shown() -> list[dict[str, Any]]:
        return list(owner("GET", f"/api/admin/rooms/{room}").json()["room"]["rules"])

    wait_for(lambda: shown()[0]["hits"] == 3)
    hit, never = shown()
    assert before <= hit["lastMatchedAt"] <= wall_ms()
    assert (never["hits"], never["lastMatchedAt"]) == (0, None)


@pytest.mark.req("ADM-129")
def test_every_field_has_its_own_code_in_snake_case(owner: Caller, room: str) -> None:
    for row in FIELDS:
        if not row.built or row.name == "id":
            continue
        answer = owner("POST", "/api/admin/rooms", {"id": room, row.name: {"no": [1]}})
        snake = "".join("_" + c.lower() if c.isupper() else c for c in row.name)
        expected = (400, "unknown_field") if row.kind.startswith("object") else (400, f"invalid_{snake}")
        assert code(answer) == expected, row.name
        wrong_type = owner("POST", "/api/admin/rooms", {"id": room, row.name: True})
        assert code(wrong_type) == (400, f"invalid_{snake}"), row.name
    assert code(owner("POST", "/api/admin/rooms", {"id": room, "onBackendDown": "x"})) == (
        400,
        "invalid_on_backend_down",
    )


@pytest.mark.req("ADM-133")
def test_one_bad_field_and_nothing_of_the_body_is_applied(owner: Caller, room: str) -> None:
    path = f"/api/admin/rooms/{room}"
    before, entries = owner("GET", path).json()["room"], told(owner, room)

    for bad in ({"presenceSec": 0}, {"typo": 1}, {"rules": [{"action": "protect"}]}, {"rate": 1, "ratePerMinute": 2}):
        body = {"id": room, "name": "New", "proxyOrigin": "http://203.0.113.7:3000", "state": "paused", **bad}
        assert owner("POST", "/api/admin/rooms", body).status_code == 400
    # A new room of which one field is bad does not come to be, and its host is nobody's.
    fresh = fresh_id()
    host = f"https://{fresh}.example"
    body = {"id": fresh, "targetUrl": host, "proxyOrigin": "http://203.0.113.7:3000", "rate": -1}
    assert code(owner("POST", "/api/admin/rooms", body)) == (400, "invalid_rate")
    assert code(owner("GET", f"/api/admin/rooms/{fresh}")) == (404, "no_room")
    answer = owner("GET", "/__qm/healthz", headers={"Host": f"{fresh}.example"})
    assert answer.status_code == 404

    assert owner("GET", path).json()["room"] == before
    assert told(owner, room) == entries, "nothing was journaled"


@pytest.mark.req("ADM-185")
def test_a_viewer_looks_visitors_up_and_a_monitor_link_does_not(
    server: Server, owner: Caller, callers: Callers, keys: dict[str, str], room: str
) -> None:
    owner("POST", f"/api/admin/rooms/{room}/pause")
    (visitor,) = join(server, room)
    desk, link = callers.with_key(keys["viewer"]), callers.with_key(keys["monitor"])
    for query in (f"/{visitor['ticket']}", f"?ref={visitor['ref']}", f"?q={visitor['ref']}"):
        path = f"/api/admin/rooms/{room}/tickets{query}"
        assert desk("GET", path).json()["state"] == "waiting"
        assert code(link("GET", path)) == (403, "insufficient_role")


@pytest.mark.req("ADM-199", "ADM-198")
def test_a_monitor_link_reads_decisions_without_addresses(
    server: Server, owner: Caller, callers: Callers, keys: dict[str, str], room: str
) -> None:
    owner("POST", "/api/admin/rooms", {"id": room, "protection": {"mode": "enforce"}})
    robot = {"User-Agent": "python-requests/2.31", "X-Forwarded-For": "203.0.113.201"}
    httpx.post(f"{server.url}/api/join", json={"roomId": room}, headers=robot, timeout=20)
    mine: list[dict[str, Any]] = []

    def is_there() -> bool:
        recent = owner("GET", "/api/admin/protection").json()["recent"]
        mine[:] = [one for one in recent if one["roomId"] == room]
        return bool(mine)

    wait_for(is_there)
    answer = callers.with_key(keys["monitor"])("GET", "/api/admin/protection")
    whole = owner("GET", "/api/admin/protection").json()

    assert (mine[0]["address"], mine[0]["userAgent"]) == ("203.0.113.201", "python-requests/2.31")
    assert whole.keys() == answer.json().keys()
    assert {"roomId": room, "mode": "enforce"} in whole["rooms"]
    hidden = [one for one in answer.json()["recent"] if one["roomId"] == room]
    assert hidden == [{k: v for k, v in mine[0].items() if k not in ("address", "userAgent")}]
    assert "203.0.113.201" not in answer.text
    assert "python-requests" not in answer.text
