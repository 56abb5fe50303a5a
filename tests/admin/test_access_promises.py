"""Promises of the frame: aliases, HEAD, two keys, tickets, what costs a failure, what is noted (05)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.admin.callers import TARGET, Caller, Callers, code, fresh_id
from tests.admin.test_http_operators import entries
from tests.admin.test_http_stream import stream, ticket_of
from tests.admin.test_matrix import MATRIX, NOBODY_ROOM, REFUSED_BODY
from tests.harness import Server, wait_for

PUBLIC = "public-key-of-this-deployment"
SESSION = "/api/admin/session"


def own(path: str) -> str:
    """A path of the table with parameters that name nothing."""
    return path.replace("<id>", NOBODY_ROOM).replace("<n>", "1")


@pytest.fixture
def team(server: Server, owner: Caller, callers: Callers) -> Iterator[dict[str, Caller]]:
    """A caller of each kind, as script and as page; keys under ``key:<kind>`` are what they send."""
    made = {
        role: owner("POST", "/api/admin/operators", {"name": role, "role": role}).json() for role in ("viewer", "owner")
    }
    link = owner("POST", "/api/admin/monitor-tokens").json()
    yield {
        "admin_key": owner,
        "viewer": callers.with_key(made["viewer"]["key"]),
        "owner": callers.with_key(made["owner"]["key"]),
        "monitor": callers.with_key(link["token"]),
        "page": callers.signed_in(made["viewer"]["key"]),
    }
    for one in made.values():
        owner("DELETE", f"/api/admin/operators/{one['operator']['id']}?purge=1")
    owner("DELETE", f"/api/admin/monitor-tokens/{link['link']['id']}")


@pytest.mark.req("ADM-001", "ADM-061")
def test_the_alias_of_every_route_has_the_same_rights_answers_and_entries(
    server: Server, owner: Caller, callers: Callers, team: dict[str, Caller], room: str
) -> None:
    for row in MATRIX:
        method, path = row.split()
        if path in ("events", "history", "openapi.json"):
            continue
        body = REFUSED_BODY if method != "GET" else None
        for name in ("admin_key", "viewer", "monitor"):
            one, two = (team[name](method, f"{prefix}/{own(path)}", body) for prefix in ("/api/admin", "/api/v1/admin"))
            assert one.status_code == two.status_code, (name, row)
            assert one.status_code == 200 or one.json() == two.json(), (name, row)
    for prefix in ("/api/admin", "/api/v1/admin"):
        with team["viewer"].http.stream("GET", f"{prefix}/events") as answer:
            assert answer.status_code == 200
        assert owner("POST", f"{prefix}/rooms/{room}/rate", {"rate": 7 if "v1" in prefix else 8}).status_code == 200
    wait_for(lambda: len(entries(owner, action="room.rate", roomId=room)) == 2)
    two, one = entries(owner, action="room.rate", roomId=room)
    same = {"actor", "actorKind", "actorId", "role", "action", "roomId", "ok", "ip", "instance"}
    assert {name: one[name] for name in same} == {name: two[name] for name in same}
    page = callers.page()
    signed = page("POST", "/api/v1/admin/session", {"key": server.admin_key})
    assert "; Path=/api/admin;" in signed.headers["set-cookie"]


@pytest.mark.req("ADM-011")
def test_head_is_like_get_everywhere_without_a_body(team: dict[str, Caller], browser: Caller, room: str) -> None:
    for row in MATRIX:
        method, path = row.split()
        if method != "GET" or path in ("events", "health"):
            continue
        asked = f"/api/admin/{path.replace('<id>', room).replace('<n>', '1')}"
        for name in ("admin_key", "monitor", "page"):
            full, head = team[name]("GET", asked), team[name]("HEAD", asked)
            assert (head.status_code, head.content) == (full.status_code, b""), (name, row)
            if "timeline" not in path and path not in ("rooms", "reports"):  # figures and lists move on
                assert head.headers.get("content-length") == full.headers.get("content-length"), (name, row)
    no_csrf = {"X-QM-CSRF": "", "Sec-Fetch-Site": "cross-site"}
    assert browser("HEAD", "/api/admin/me", headers=no_csrf).status_code == 200
    ended = browser("HEAD", "/api/admin/events", headers=no_csrf)
    assert (ended.status_code, ended.content) == (200, b"")
    assert ended.headers["content-type"] == "text/event-stream; charset=utf-8"


@pytest.mark.req("ADM-024")
def test_every_worker_tells_the_start_of_the_instance(server: Server, owner: Caller) -> None:
    seen = {
        owner("GET", path, headers={"Connection": "close"}).json()["startedAt"]
        for _ in range(8)
        for path in ("/api/admin/health", "/healthz")
    }

    assert len(seen) == 1


@pytest.mark.req("ADM-029", "ADM-026", "ADM-027")
def test_both_keys_open_the_visitors_doors_and_only_one_the_rest(
    owner: Caller, stranger: Caller, callers: Callers, room: str
) -> None:
    connector = callers.with_key(PUBLIC)
    vouched = f"/api/check?room={room}&ip=203.0.113.9&agent=test"
    for caller in (owner, connector):
        assert caller("GET", f"/api/verify?room={room}").status_code == 200
        assert caller("GET", vouched).status_code == 200
    for path in ("/api/admin/me", "/metrics"):
        assert owner("GET", path).status_code == 200
        for _ in range(25):
            assert connector("GET", path).status_code == 403
    assert owner("GET", "/api/admin/me").json()["role"] == "owner"
    assert stranger("GET", f"/api/verify?room={room}").status_code == 401


@pytest.mark.req("ADM-033", "ADM-053")
def test_wrong_keys_at_the_public_doors_use_the_same_budget(server: Server, callers: Callers, room: str) -> None:
    guesser = callers.with_key("wrong")
    doors = (f"/api/verify?room={room}", f"/api/check?room={room}&ip=203.0.113.9&agent=test", "/api/admin/me")

    statuses = [guesser("GET", doors[number % 3]).status_code for number in range(20)]

    assert statuses == [401] * 20
    right = {"Authorization": f"Bearer {server.admin_key}"}
    assert code(guesser("GET", "/api/admin/me", headers=right)) == (429, "too_many_auth_failures")
    for key in (server.admin_key, PUBLIC):
        assert guesser("GET", doors[0], headers={"Authorization": f"Bearer {key}"}).status_code == 401


@pytest.mark.req("ADM-052")
def test_it_counts_nothing_that_is_no_wrong_guess(server: Server, team: dict[str, Caller], callers: Callers) -> None:
    """Each far more often than the budget, from one address each; then a right key from there is let in."""
    right = {"Authorization": f"Bearer {server.admin_key}"}
    expired = callers.signed_in()
    expired("DELETE", SESSION)
    harmless: list[tuple[Caller, str, str, Any, int]] = [
        (team["viewer"], "GET", "/api/admin/me", None, 200),
        (team["monitor"], "GET", "/api/admin/me", None, 200),
        (team["viewer"], "DELETE", f"/api/admin/rooms/{NOBODY_ROOM}", None, 403),
        (team["monitor"], "POST", "/api/admin/rooms", {}, 403),
        (callers.with_key(PUBLIC), "GET", "/api/admin/me", None, 403),
        (callers.with_key(None), "GET", "/api/admin/me", None, 401),
        (callers.with_key(None, Authorization="Bearer"), "GET", "/api/admin/me", None, 401),
        (callers.with_key(None), "GET", "/api/admin/me?key=x", None, 401),
        (callers.with_key(None), "POST", SESSION, {"key": "x"}, 403),
        (expired, "GET", "/api/admin/me", None, 401),
        (callers.signed_in(), "POST", "/api/admin/sse-ticket", None, 403),
    ]
    for caller, method, path, body, status in harmless:
        for _ in range(22):
            headers = {"X-QM-CSRF": ""} if status == 403 and path.endswith("ticket") else {}
            assert caller(method, path, body, headers=headers).status_code == status, path
        assert caller("GET", "/api/admin/me", headers=right).status_code == 200, path


@pytest.mark.req("ADM-036")
def test_a_header_alone_decides_whatever_cookie_comes_with_it(browser: Caller, team: dict[str, Caller]) -> None:
    for name, role in (("viewer", "viewer"), ("monitor", "monitor"), ("owner", "owner")):
        header = {"Authorization": team[name].http.headers["Authorization"], "X-QM-CSRF": ""}
        assert browser("GET", "/api/admin/me", headers=header).json()["role"] == role
        answer = browser("POST", "/api/admin/operators", {"no": 1}, headers={**header, "Sec-Fetch-Site": "cross-site"})
        assert code(answer) == ((400, "unknown_field") if role == "owner" else (403, "insufficient_role"))


@pytest.mark.req("ADM-079", "ADM-080")
def test_a_visitors_route_takes_no_ticket_from_the_consoles_cookie(callers: Callers, room: str) -> None:
    visitor = callers.with_key(None)
    token = visitor("POST", "/api/join", {"roomId": room}).json()["token"]
    visitor.http.cookies.clear()

    without = visitor("GET", f"/api/status?room={room}").json()

    visitor.keep_cookie(token)

    assert visitor("GET", f"/api/status?room={room}").json() | {"now": 0} == without | {"now": 0}
    assert visitor("GET", f"/api/status?room={room}&token={token}").json()["state"] != without["state"]


@pytest.mark.req("ADM-084", "ADM-085", "ADM-086")
def test_a_ticket_has_the_rights_of_whoever_asked_and_is_used_up(
    owner: Caller, stranger: Caller, callers: Callers, team: dict[str, Caller], room: str
) -> None:
    newest = entries(owner)[0]["id"]
    for name, caller in team.items():
        ticket = ticket_of(caller)
        with stream(stranger, f"?ticket={ticket}") as events:
            shown = next(one for one in events.frame()["rooms"] if one["id"] == room)
        assert ("returnOrigins" in shown) == (name != "monitor"), name
        assert code(callers.with_key(None)("GET", f"/api/admin/events?ticket={ticket}")) == (401, "unauthorized")
    assert code(team["page"]("POST", "/api/admin/sse-ticket", headers={"X-QM-CSRF": ""})) == (403, "csrf_required")
    assert entries(owner)[0]["id"] == newest
    guesser = callers.with_key(None)
    used = ticket_of(owner)
    stranger("HEAD", f"/api/admin/events?ticket={used}")
    statuses = [guesser("GET", f"/api/admin/events?ticket={used}").status_code for _ in range(21)]
    assert statuses == [401] * 20 + [429]


@pytest.mark.req("ADM-233", "ADM-234")
def test_the_team_shares_its_links_and_a_link_covers_rooms_to_come(owner: Caller, callers: Callers) -> None:
    made = [owner("POST", "/api/admin/operators", {"name": "o", "role": "operator"}).json() for _ in range(2)]
    one, two = (callers.with_key(new["key"]) for new in made)
    link = one("POST", "/api/admin/monitor-tokens").json()
    later = fresh_id()
    owner("POST", "/api/admin/rooms", {"id": later, "targetUrl": TARGET})

    watcher = callers.with_key(two("POST", f"/api/admin/monitor-tokens/{link['link']['id']}/reveal").json()["token"])

    assert watcher("GET", f"/api/admin/rooms/{later}").json()["room"]["id"] == later
    assert two("DELETE", f"/api/admin/monitor-tokens/{link['link']['id']}").json()["revoked"] == 1
    assert code(watcher("GET", "/api/admin/me")) == (401, "unauthorized")
    owner("DELETE", f"/api/admin/rooms/{later}")


@pytest.mark.req("ADM-245", "ADM-248", "ADM-250")
def test_each_act_leaves_an_entry_with_who_what_when_and_from_where(owner: Caller, callers: Callers) -> None:
    new = owner("POST", "/api/admin/operators", {"name": "Acting", "role": "owner"}).json()
    who, page = callers.with_key(new["key"]), callers.signed_in(new["key"])
    room = fresh_id()
    rooms = f"/api/admin/rooms/{room}"
    since = owner("GET", "/api/admin/health").json()["now"]
    other = who("POST", "/api/admin/operators", {"name": "Other", "role": "viewer"}).json()["operator"]["id"]
    links = [who("POST", "/api/admin/monitor-tokens").json()["link"]["id"] for _ in range(2)]
    acts: list[tuple[str, str, Any]] = [
        ("POST", "/api/admin/rooms", {"id": room, "targetUrl": TARGET}),
        ("POST", "/api/admin/rooms", {"id": room, "name": "not to be written down", "maxConcurrent": 77}),
        ("POST", f"{rooms}/pause", None),
        ("POST", f"{rooms}/resume", None),
        ("POST", f"{rooms}/rate", {"rate": 0}),
        ("POST", f"{rooms}/schedule", {"opensAt": since + 86_400_000}),
        ("POST", f"{rooms}/schedule", {"opensAt": None}),
        ("POST", f"{rooms}/flush", None),
        ("POST", f"{rooms}/purge", None),
        ("POST", f"/api/admin/operators/{other}", {"role": "operator"}),
        ("POST", f"/api/admin/monitor-tokens/{links[0]}/reveal", None),
        ("DELETE", f"/api/admin/monitor-tokens/{links[0]}", None),
        ("DELETE", "/api/admin/monitor-tokens", None),
        ("DELETE", f"/api/admin/operators/{other}", None),
        ("DELETE", f"/api/admin/operators/{other}?purge=1", None),
        ("DELETE", rooms, None),
    ]
    joined = None
    for method, path, body in acts:
        if path.endswith("/flush"):
            joined = callers.with_key(None)("POST", "/api/join", {"roomId": room}).json()
        if path.endswith("/purge") and joined is not None:
            assert who("POST", f"{rooms}/eject", {"ticket": joined["ticket"]}).status_code == 200
            callers.with_key(None)("POST", "/api/join", {"roomId": room})
        assert who(method, path, body).status_code in (200, 201), (method, path)
    page("DELETE", SESSION)
    expected = {
        "session.create", "session.delete", "room.create", "room.update", "room.state", "room.rate", "room.schedule",
        "room.flush", "room.purge", "visitor.eject", "room.delete", "operator.create", "operator.update",
        "operator.revoke", "operator.purge", "monitor_token.mint", "monitor_token.reveal", "monitor_token.revoke",
        "monitor_token.revoke_all",
    }  # fmt: skip

    def found() -> list[dict[str, Any]]:
        return entries(owner, actor=new["operator"]["id"], limit="1000")

    wait_for(lambda: {entry["action"] for entry in found()} >= expected)
    assert {entry["action"] for entry in found()} == expected
    addresses = {caller.http.headers["X-Forwarded-For"] for caller in (who, page)}
    for entry in found():
        assert (entry["actor"], entry["actorKind"], entry["role"], entry["ok"]) == ("Acting", "operator", "owner", True)
        assert entry["ip"] in addresses
        assert since - 5000 <= entry["ts"] <= owner("GET", "/api/admin/health").json()["now"]
        assert entry["roomId"] == (room if entry["action"].startswith(("room.", "visitor.")) else None)
    text = json.dumps(found())
    assert "not to be written down" not in text
    assert "77" not in [entry["detail"] for entry in found()]
    assert [entry["detail"] for entry in found() if entry["action"] == "room.update"] == ["name, maxConcurrent"]


@pytest.mark.req("ADM-238")
def test_four_things_are_hidden_from_a_link_and_shown_to_a_viewer(
    owner: Caller, team: dict[str, Caller], callers: Callers, room: str
) -> None:
    secret = {"returnOrigins": ["https://inside.example"], "rules": [{"action": "protect", "pattern": "/inside*"}]}
    owner("POST", "/api/admin/rooms", {"id": room, **secret})
    shown: dict[str, str] = {}
    for name in ("monitor", "viewer"):
        with ExitStack() as held:
            frame = held.enter_context(stream(team[name])).frame()
        paths = ("rooms", f"rooms/{room}", "health", "timeline", "protection")
        shown[name] = json.dumps(frame) + "".join(team[name]("GET", f"/api/admin/{path}").text for path in paths)
    for inside in ("https://inside.example", "/inside*", '"proxyOrigin"', '"config"', '"pid"', '"warnings"'):
        assert inside not in shown["monitor"], inside
        assert inside in shown["viewer"], inside
    for path in ("audit", "operators", "monitor-tokens", f"rooms/{room}/tickets/1", f"rooms/{room}/tickets?q=1"):
        assert code(team["monitor"]("GET", f"/api/admin/{path}")) == (403, "insufficient_role")
        assert team["viewer"]("GET", f"/api/admin/{path}").status_code == 200
