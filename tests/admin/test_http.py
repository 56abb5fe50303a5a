"""The frame of the admin API over real HTTP: who is let in, what every route refuses, headers."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

from blueprints.admin import ROUTER
from tests.admin.callers import Caller, Callers, code
from tests.harness import Server, troubles

NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html"}
PATHS = sorted({route.path.replace("<id>", "shop") for route in ROUTER.routes})


@pytest.mark.req("ADM-010")
def test_it_gives_no_list_of_its_routes_to_a_stranger(owner: Caller, stranger: Caller) -> None:
    unknown = (
        "",
        "/",
        "/nope",
        "/rooms/",
        "/rooms/a/b/c",
        "/rooms/a/nope",
        "/me/",
        "/ME",
        "/rooms//pause",
        "/%6de",
    )
    for path in unknown:
        for prefix in ("/api/admin", "/api/v1/admin"):
            assert code(stranger("GET", prefix + path)) == (401, "unauthorized"), path
            assert code(stranger("PUT", prefix + path)) == (401, "unauthorized"), path
            assert code(owner("GET", prefix + path)) == (404, "not_found"), path
            assert code(owner("POST", prefix + path)) == (404, "not_found"), path
    for path in PATHS:
        known = {route.method for route in ROUTER.routes if route.path.replace("<id>", "shop") == path}
        assert code(stranger("PATCH", f"/api/admin/{path}")) == (401, "unauthorized"), path
        answer = owner("PATCH", f"/api/admin/{path}")
        assert code(answer) == (405, "method_not_allowed"), path
        assert set(answer.headers["allow"].split(", ")) == known | ({"HEAD"} if "GET" in known else set())


@pytest.mark.req("ADM-037")
def test_every_route_needs_a_credential_and_tells_strangers_the_same(stranger: Caller) -> None:
    for route in ROUTER.routes:
        if route.path == "session":
            continue
        answer = stranger(route.method, "/api/admin/" + route.path.replace("<id>", "shop"), b"{")

        assert code(answer) == (401, "unauthorized")
        assert answer.json()["error"] == "A valid key is required."
        assert answer.headers["www-authenticate"] == 'Bearer realm="queue-manager"'
        assert "set-cookie" not in answer.headers


@pytest.mark.req("ADM-012")
def test_it_never_allows_another_origin_anything(owner: Caller, stranger: Caller) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for path in (*PATHS, "nope", ""):
        for caller in (owner, stranger):
            for prefix in ("/api/admin/", "/api/v1/admin/"):
                answer = caller("OPTIONS", prefix + path, headers=headers)
                assert code(answer) == (405, "method_not_allowed"), path
                assert not [name for name in answer.headers if name.startswith("access-control")]
                assert answer.headers["allow"] == "DELETE, GET, HEAD, POST"
    for method, path in (("GET", "me"), ("GET", "rooms"), ("POST", "sse-ticket"), ("GET", "nope"), ("POST", "rooms")):
        answer = owner(method, f"/api/admin/{path}", headers=headers)
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.req("ADM-013", "ADM-015")
def test_every_answer_is_uncached_and_unsniffed_json(owner: Caller, stranger: Caller, room: str) -> None:
    answers = [
        owner("GET", "/api/admin/me"),
        owner("GET", "/api/admin/health"),
        owner("GET", "/api/admin/rooms"),
        owner("GET", f"/api/admin/rooms/{room}"),
        owner("POST", "/api/admin/rooms", {"id": room}),
        owner("POST", "/api/admin/sse-ticket"),
        owner("GET", "/api/admin/nope"),
        owner("PUT", "/api/admin/me"),
        owner("POST", "/api/admin/rooms", b"{"),
        stranger("GET", "/api/admin/me"),
        stranger("POST", "/api/admin/session", b"{}"),
        owner("OPTIONS", "/api/admin/me"),
        owner("POST", "/api/admin/rooms", b"x" * 70_000),
        owner("GET", "/api/admin/me", headers=NAVIGATION),
        stranger("GET", "/api/admin/me", headers=NAVIGATION),
    ]
    assert code(answers[12]) == (413, "body_too_large")
    for answer in answers:
        assert answer.headers["cache-control"] == "no-store", answer.request.url
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert isinstance(answer.json(), dict)


def test_the_alias_gives_the_same_answers(owner: Caller, stranger: Caller, room: str) -> None:
    for path in ("me", f"rooms/{room}", "rooms/nope", "nope"):
        for caller in (owner, stranger):
            one, other = caller("GET", f"/api/admin/{path}"), caller("GET", f"/api/v1/admin/{path}")
            assert (one.status_code, one.json()) == (other.status_code, other.json())
    assert owner("POST", f"/api/v1/admin/rooms/{room}/pause").json()["changed"] == ["state"]
    assert owner("POST", "/api/v1/admin/rooms", {"id": room, "rate": 7}).json()["changed"] == ["rate"]
    assert owner("POST", f"/api/v1/admin/rooms/{room}/rate", {"rate": 8}).json()["room"]["rate"] == 8
    assert len(owner("POST", "/api/v1/admin/sse-ticket").json()["ticket"]) == 43
    assert owner("DELETE", f"/api/v1/admin/rooms/{room}").json()["ok"] is True


def test_head_answers_like_get_without_a_body(owner: Caller, stranger: Caller, room: str) -> None:
    for path in ("me", f"rooms/{room}", "rooms/nope", "nope"):
        for caller in (owner, stranger):
            full, head = caller("GET", f"/api/admin/{path}"), caller("HEAD", f"/api/admin/{path}")
            assert (head.status_code, head.content) == (full.status_code, b"")
            assert head.headers["content-length"] == full.headers["content-length"]
    stream = owner("HEAD", "/api/admin/events")
    assert (stream.status_code, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


@pytest.mark.req("ADM-014")
@pytest.mark.parametrize(
    "kind", [None, "application/x-www-form-urlencoded", "text/plain", "application/json", "nonsense"]
)
def test_it_reads_json_whatever_the_content_type_says(owner: Caller, room: str, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}

    answer = owner("POST", f"/api/admin/rooms/{room}/rate", b'{"ratePerMinute":31}', headers=headers)

    assert answer.json()["room"]["rate"] == 31


@pytest.mark.req("ADM-015")
@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"5", b'"x"', b"null", b"\xff\xfe", b'{"id":"a","id":"b"}', b"{} x", b"id=shop"],
)
def test_it_refuses_a_body_that_is_no_json_object(owner: Caller, room: str, body: bytes) -> None:
    for path in ("rooms", f"rooms/{room}/rate", f"rooms/{room}/pause", "sse-ticket"):
        assert code(owner("POST", f"/api/admin/{path}", body)) == (400, "bad_json")


def test_it_takes_a_room_with_everything_at_its_longest(owner: Caller, room: str) -> None:
    rules = [{"action": "skip", "pattern": "/" + "p" * 511, "note": "n" * 120} for _ in range(50)]

    answer = owner("POST", "/api/admin/rooms", {"id": room, "rules": rules})

    assert answer.json()["changed"] == ["rules"]
    assert len(answer.json()["room"]["rules"]) == 50


@pytest.mark.req("ADM-015")
def test_an_empty_body_counts_as_an_empty_object(owner: Caller, room: str) -> None:
    for body in (None, b"", b"  ", b"{}"):
        assert owner("POST", f"/api/admin/rooms/{room}/pause", body).status_code == 200
        assert code(owner("POST", "/api/admin/rooms", body)) == (400, "invalid_room_id")


def test_it_refuses_names_that_a_route_does_not_list(owner: Caller, room: str) -> None:
    for path in (
        f"rooms/{room}/pause",
        f"rooms/{room}/resume",
        "sse-ticket",
        f"rooms/{room}/state",
        f"rooms/{room}/eject",
        f"rooms/{room}/flush",
        f"rooms/{room}/purge",
    ):
        answer = owner("POST", f"/api/admin/{path}", {"stat": "paused"})
        assert code(answer) == (400, "unknown_field")
        assert answer.json()["fields"] == ["stat"]
    for method, path in (
        ("GET", "me"),
        ("GET", "rooms"),
        ("GET", f"rooms/{room}"),
        ("POST", "rooms"),
        ("GET", "health"),
        ("GET", "events"),
    ):
        answer = owner(method, f"/api/admin/{path}?limit=5&x=1&limit=6", {})
        assert code(answer) == (400, "unknown_field")
        assert answer.json()["fields"] == ["limit", "x"]
    assert owner("GET", f"/api/admin/rooms/{room}").json()["room"]["state"] == "active"


@pytest.mark.req("ADM-044")
@pytest.mark.parametrize("name", ["key", "admin_key", "api_key", "access_token", "token", "monitor"])
def test_it_refuses_a_credential_in_the_address_even_beside_a_good_one(
    server: Server, owner: Caller, stranger: Caller, name: str
) -> None:
    for path in ("me", "rooms", "nope", "events", "rooms/a/pause"):
        for caller in (owner, stranger):
            for value in (server.admin_key, "wrong", ""):
                assert code(caller("GET", f"/api/admin/{path}?{name}={value}")) == (401, "credential_in_query")
    sign_in = stranger("POST", f"/api/admin/session?{name}=x", {"key": server.admin_key}, headers={"X-QM-CSRF": "1"})
    assert code(sign_in) == (401, "credential_in_query")
    for _ in range(10):  # far more than the budget of failures by now
        assert code(stranger("GET", f"/api/admin/me?{name}=wrong")) == (401, "credential_in_query")
    assert code(stranger("GET", "/api/admin/me")) == (401, "unauthorized")
    right = {"Authorization": f"Bearer {server.admin_key}"}
    assert stranger("GET", "/api/admin/me", headers=right).status_code == 200
    assert owner("GET", "/api/admin/me").status_code == 200


@pytest.mark.req("ADM-044", "ADM-045")
@pytest.mark.parametrize(("method", "route"), [("GET", "health"), ("POST", "session")])
def test_it_logs_such_an_address_without_its_value(server: Server, owner: Caller, method: str, route: str) -> None:
    for _ in range(20):
        owner(method, f"/api/admin/{route}?API_key=do-not-log-me", headers={"Connection": "close"})

    lines = [line for line in server.stderr.splitlines() if "credential_in_query" in line and f"route={route}" in line]
    assert len(lines) == 1, "one a minute, whichever worker is asked"
    assert "parameter=" in lines[0]
    assert "do-not-log-me" not in server.stderr


@pytest.mark.req("ADM-046", "ADM-035")
def test_a_ticket_is_no_credential_on_any_other_route(owner: Caller, stranger: Caller) -> None:
    ticket = owner("POST", "/api/admin/sse-ticket").json()["ticket"]

    assert code(stranger("GET", f"/api/admin/me?ticket={ticket}")) == (401, "unauthorized")
    assert code(owner("GET", f"/api/admin/me?ticket={ticket}")) == (400, "unknown_field")
    for _ in range(25):
        stranger("GET", "/api/admin/rooms?ticket=x")
    assert code(stranger("GET", "/api/admin/me")) == (401, "unauthorized")


@pytest.mark.req("ADM-058")
def test_it_locks_an_address_after_its_failures_and_no_other(server: Server, callers: Callers) -> None:
    guesser, neighbour = callers.with_key("wrong"), callers.with_key(server.admin_key)

    statuses = [guesser("GET", "/api/admin/me").status_code for _ in range(21)]
    locked = guesser("GET", "/api/admin/me", headers={"Authorization": f"Bearer {server.admin_key}"})

    assert statuses == [401] * 20 + [429]
    assert code(locked) == (429, "too_many_auth_failures")
    wait = int(locked.headers["retry-after"])
    assert 1 <= wait <= 60
    assert locked.json()["retryAfterSec"] == wait
    assert f"Try again in {wait} seconds" in locked.json()["error"]
    assert (locked.headers["x-ratelimit-limit"], locked.headers["x-ratelimit-remaining"]) == ("20", "0")
    sign_in = guesser("POST", "/api/admin/session", {"key": server.admin_key}, headers={"X-QM-CSRF": "1"})
    assert code(sign_in) == (429, "too_many_auth_failures")
    del guesser.http.headers["Authorization"]
    assert guesser("GET", "/").status_code == 200
    assert code(guesser("GET", "/api/admin/me")) == (401, "unauthorized")
    assert neighbour("GET", "/api/admin/me").status_code == 200
    own = f"address={guesser.http.headers['X-Forwarded-For']}"
    assert sum("auth_lockout_started" in line and own in line for line in server.stderr.splitlines()) == 1


def test_the_public_key_has_no_right_here(callers: Callers) -> None:
    connector = callers.with_key("public-key-of-this-deployment")

    for path in ("me", "rooms", "nope"):
        answer = connector("GET", f"/api/admin/{path}")
        assert code(answer) == (403, "insufficient_role")
        assert answer.json()["needs"] == "viewer"


def test_me_tells_what_the_credential_is(owner: Caller, browser: Caller) -> None:
    by_key, by_session = owner("GET", "/api/admin/me").json(), browser("GET", "/api/admin/me").json()

    assert by_key["expiresAt"] is None
    assert {**by_key, "via": "session", "expiresAt": by_session["expiresAt"]} == by_session
    assert (by_key["kind"], by_key["via"], by_key["role"], by_key["name"]) == (
        "admin_key",
        "bearer",
        "owner",
        "ADMIN_KEY",
    )
    assert by_key["operatorId"] is None
    assert by_key["linkId"] is None
    assert by_key["can"]["write"] is True
    assert by_key["can"]["deleteRoom"] is True


def test_health_shows_the_values_in_use_and_no_secret(server: Server, owner: Caller, room: str) -> None:
    answer = owner("GET", "/api/admin/health")
    body = answer.json()

    assert (body["ready"], troubles(body)) == (True, [])
    assert body["rooms"]["count"] >= 1
    assert (body["backend"]["valkey"], body["backend"]["postgres"], body["backend"]["ok"]) == ("up", "up", True)
    assert body["access"]["sso"] is False
    assert body["config"]["ADMIN_AUTH_FAIL_PER_MIN"]["value"] == 20
    assert body["config"]["TRUST_PROXY_IPS"]["value"] == ["127.0.0.1/32"]
    assert body["keys"]["adminKey"] == "set"
    assert len(body["keys"]["kid"]) == 8
    assert body["pid"] == server.pid
    for secret in (server.admin_key, server.env["SECRET"], server.env["PUBLIC_API_KEY"]):
        assert secret not in answer.text
        assert secret not in server.stderr


def test_it_answers_two_authorization_headers_as_a_wrong_key(server: Server) -> None:
    host = urlsplit(server.url)
    request = (
        f"GET /api/admin/me HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.100.250\r\nConnection: close\r\n"
        f"Authorization: Bearer {server.admin_key}\r\nAuthorization: Bearer {server.admin_key}\r\n\r\n"
    )
    with socket.create_connection((host.hostname, host.port), timeout=10) as link:
        link.sendall(request.encode())
        status = link.makefile("rb").readline()

    assert status.split()[1] in (b"401", b"400")
