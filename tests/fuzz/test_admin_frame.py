"""What every route of the admin API refuses in the same way, read off the tables of its routes and fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from app.domain.room_fields import FIELDS
from blueprints.admin import ROUTER
from blueprints.admin.routing import Route
from tests.fuzz.api import Api
from tests.harness import Server

ROOM = "shut"
WITH = {"origin": "&url=https://shop.example/", "place": "&ref=K7Q2MX"}
"""What a parameter needs beside it."""
BAD_VALUES = {
    ("audit", "ok"): (("1", "True", ""), "invalid_ok"),
    ("audit", "limit"): (("0", "1001", "1.5", "x", "", "٣"), "invalid_limit"),
    ("audit", "before"): (("0", "-1", "x", "9" * 19), "invalid_before"),
    ("audit", "format"): (("xml", ""), "invalid_format"),
    ("audit", "action"): (("%00", "a%0Ab"), "invalid_action"),
    ("audit", "actor"): (("%00",), "invalid_actor"),
    ("audit", "roomId"): (("%00",), "invalid_room_id"),
    ("audit", "from"): (("yesterday", "2026-13-01", "2026-01-01T25:00:00", "-1"), "invalid_time"),
    ("audit", "to"): (("", "1" * 16), "invalid_time"),
    ("timeline", "from"): (("yesterday", ""), "invalid_time"),
    ("timeline", "to"): (("2026-13-01T00:00:00Z",), "invalid_time"),
    ("timeline", "roomId"): (("nope", "%00"), "no_room"),
    ("rooms/<id>/tickets", "q"): (("", "no ref", "%00"), "invalid_q"),
    ("rooms/<id>/tickets", "ref"): (("", "12", "%00"), "invalid_ref"),
    ("rooms/<id>/tickets", "place"): (("", "0", "-1", "1.5", "x", "%00", "9" * 19), "invalid_place"),
    ("rooms/<id>/install-check", "url"): (("", "shop.example", "ftp://shop.example/"), "invalid_url"),
    ("rooms/<id>/install-check", "origin"): (("", "shop.example", "https://shop.example/a"), "invalid_origin"),
    ("history", "roomId"): (("nope", "%00"), "no_room"),
    ("history", "format"): (("xml", ""), "invalid_format"),
    ("reports", "bucket"): (("minute", ""), "invalid_bucket"),
    ("reports", "format"): (("xml", ""), "invalid_format"),
    ("reports", "from"): (("yesterday", ""), "invalid_time"),
    ("reports", "to"): (("2026-13-01", "1" * 16), "invalid_time"),
    ("reports", "roomId"): ((), "none is bad: it may be a room that is gone"),
    ("operators/<id>", "purge"): (("", "0", "true"), "invalid_purge"),
}
"""Route and parameter → values that it refuses, with the code. Every parameter of every table stands here."""


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A server with rooms, behind a proxy that can name addresses; one wrong key locks an address."""
    env: dict[str, str | None] = {"TRUST_PROXY": "1", "TRUST_PROXY_IPS": "127.0.0.1", "ADMIN_AUTH_FAIL_PER_MIN": "1"}
    with Server(env=env, workers=1) as server:
        api = Api(server)
        api.furnish()
        yield api


def path_of(route: Route) -> str:
    """The route's address, with parameters that exist."""
    return "/api/admin/" + route.path.replace("<id>", ROOM).replace("<n>", "1")


def ask(api: Api, method: str, path: str, body: Any = None) -> requests.Response:
    """One request as owner; ``body`` as JSON."""
    headers = {**api.owner, "X-QM-CSRF": "1"}
    return api.http.request(method, api.server.url + path, headers=headers, json=body, timeout=20)


def room(api: Api) -> dict[str, Any]:
    """The room's settings as they are."""
    found = api.get(f"/api/admin/rooms/{ROOM}").json()["room"]
    return {row.name: found[row.name] for row in FIELDS}


@pytest.mark.req("ADM-016")
def test_it_refuses_an_unknown_member_of_any_body_and_applies_nothing_of_it(api: Api) -> None:
    before = room(api)
    known = {
        "session": {"key": api.server.admin_key},
        "rooms": {"id": ROOM, "name": "another", "rate": 7},
        "rooms/<id>/state": {"state": "bypass"},
        "rooms/<id>/rate": {"rate": 7},
        "rooms/<id>/schedule": {"opensAt": "2026-12-31T00:00:00Z"},
        "rooms/<id>/eject": {"ticket": 1},
        "rooms/<id>/rules/test": {"url": "https://shop.example/"},
    }
    writes = [route for route in ROUTER.routes if route.method != "GET" and route.path != "session"]

    for route in [*writes, next(route for route in ROUTER.routes if (route.method, route.path) == ("POST", "session"))]:
        answer = ask(api, route.method, path_of(route), {**known.get(route.path, {}), "ratePerMinut": 1})

        assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field"), route
        assert answer.json()["fields"] == ["ratePerMinut"], route
        assert "Set-Cookie" not in answer.headers
    assert room(api) == before


@pytest.mark.req("ADM-019")
def test_it_refuses_unknown_parameters_and_bad_values_of_known_ones(api: Api) -> None:
    for route in ROUTER.routes:
        answer = ask(api, route.method, path_of(route) + "?zzz=1")
        assert (answer.status_code, answer.json()["code"], answer.json()["fields"]) == (400, "unknown_field", ["zzz"])

    every = {(route.path, name) for route in ROUTER.routes for name in route.query if name != "ticket"}
    assert every == set(BAD_VALUES)
    for (path, name), (values, code) in BAD_VALUES.items():
        for value in values:
            method = "DELETE" if name == "purge" else "GET"
            query = f"{name}={value}" + WITH.get(name, "")
            answer = ask(api, method, f"/api/admin/{path.replace('<id>', ROOM)}?{query}")
            assert answer.json().get("code") == code, (path, name, value, answer.text)
            assert answer.status_code == (404 if code == "no_room" else 400)
    for path in ("audit", "timeline"):
        for span in ("from=2000&to=1000", "from=1000&to=1000", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z"):
            answer = api.get(f"/api/admin/{path}?{span}")
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_range"), (path, span)


def test_it_converts_no_number_of_a_room_from_another_type(api: Api) -> None:
    before = room(api)
    for row in FIELDS:
        if row.bounds is None:
            continue
        low, high = row.bounds
        bad = [str(low), low + 0.5, float(high), True, [low], {}, low - 1, high + 1, *([] if row.nullable else [None])]
        for value in bad:
            answer = api.post("/api/admin/rooms", {"id": ROOM, "name": "another", row.name: value})

            assert (answer.status_code, answer.json()["code"]) == (400, row.error_code), (row.name, value)
            assert answer.json()["fields"] == [row.name]
    assert room(api) == before


@pytest.mark.req("ADM-017")
def test_it_tells_in_the_envelope_how_long_a_refused_caller_waits(api: Api) -> None:
    wrong = {"Authorization": "Bearer wrong", "X-Forwarded-For": "198.51.100.9", "Sec-Fetch-Mode": "navigate"}

    answers = [requests.get(f"{api.server.url}/api/admin/me", headers=wrong, timeout=20) for _ in range(2)]

    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [
        (401, "unauthorized"),
        (429, "too_many_auth_failures"),
    ]
    assert answers[1].json()["retryAfterSec"] == int(answers[1].headers["Retry-After"]) >= 1
    assert "retryAfterSec" not in answers[0].json()
    assert answers[1].headers["Content-Type"] == "application/json; charset=utf-8"
