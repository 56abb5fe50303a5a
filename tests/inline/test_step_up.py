"""What a console session may not do on an inline host before its key was presented once more (ADM-298)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from blueprints.admin import ROUTER
from blueprints.admin.confirmed import HEADER, StepUp
from tests.inline.conftest import Front
from tests.inline.raw import Answer

SPEC = (Path(__file__).resolve().parents[2] / "docs/spec/05-admin-api-and-access.md").read_text("utf-8")
REQUIRED = (403, "step_up_required")
NAMED, LITERAL, ELSEWHERE = "shut.test", "192.0.2.44", "127.0.0.1"


class Console:
    """The page of a console on ``host``, signed in with ``key``."""

    def __init__(self, front: Front, host: str, key: str = "") -> None:
        self.front = front
        self.host = host
        self.key = key or front.server.admin_key
        self.base = "/__qm/api/admin/" if host.endswith(".test") else "/api/admin/"
        self.headers = {"X-QM-CSRF": "1", "Sec-Fetch-Site": "same-origin"}
        cookie = self.ask("POST", "session", {"key": self.key}).header("set-cookie") or ""
        self.headers["Cookie"] = cookie.partition(";")[0]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {self.base}{path} HTTP/1.1", f"Host: {self.host}", f"Content-Length: {len(data)}"]
        sent = {**self.headers, "Connection": "close", **headers}
        lines += [f"{name}: {value}" for name, value in sent.items() if value]
        with self.front.connect() as client:
            return client.ask("\n".join(lines), data)

    def says(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str | None]:
        answer = self.ask(method, path, body, **headers)
        return answer.status, json.loads(answer.body).get("code")

    def token(self) -> dict[str, str]:
        answer = json.loads(self.ask("POST", "step-up", {"key": self.key}).body)
        assert answer.keys() == {"stepUpToken", "expiresAt"}
        return {HEADER: answer["stepUpToken"]}


@pytest.fixture(scope="module")
def guarded(the_front: Front) -> Front:
    """Rooms of this file's own, on a host with a name and on one that is an address."""
    the_front.room("byip", targetUrl=f"http://{LITERAL}/")
    the_front.room("plain", targetUrl="https://plain.example/", proxyOrigin=None)
    the_front.room("doomed", targetUrl="http://doomed.test/")
    return the_front


def dangerous(front: Front) -> list[tuple[str, str, Any]]:
    """Every act of ADM-298 that there is a route for; none of them would change anything if it were let through."""
    moved = {"id": "doomed", "targetUrl": "http://doomed.test/elsewhere"}
    return [
        ("POST", "operators", {"no such field": 1}),
        ("POST", "operators/00000000", {"name": "nobody"}),
        ("DELETE", "rooms/no-such-room", None),
        ("POST", "shutdown", {"no such field": 1}),
        ("POST", "rooms", {"id": "new-inline", "targetUrl": "http://new.test/", "proxyOrigin": front.origin.address}),
        ("POST", "rooms", {"id": "plain", "proxyOrigin": front.origin.address}),
        ("POST", "rooms", {"id": "doomed", "proxyOrigin": None}),
        ("POST", "rooms", moved),
    ]


@pytest.mark.req("ADM-298", "WHK-115")
def test_a_session_on_an_inline_host_has_to_present_its_key_before_dangerous_acts(guarded: Front) -> None:
    guarded.room("doomed", targetUrl="http://doomed.test/")  # wherever others have moved it
    before = guarded.admin("GET", "rooms")[1]["rooms"]
    for host in (NAMED, LITERAL):
        console = Console(guarded, host)
        for method, path, body in dangerous(guarded):
            assert console.says(method, path, body) == REQUIRED, (host, path)
            assert console.says(method, path, body, **{HEADER: "qmsu_" + "A" * 43}) == REQUIRED
        assert console.says("POST", "rooms", {"id": "doomed", "rate": 7, "targetUrl": "http://doomed.test/"})[0] == 200
        assert console.says("POST", "rooms/doomed/pause")[0] == 200
        assert console.says("GET", "operators")[0] == 200
        assert console.says("DELETE", "operators/00000000") == (404, "no_operator")
    names = ("id", "targetUrl", "proxyOrigin")
    after = guarded.admin("GET", "rooms")[1]["rooms"]
    assert [[room[name] for name in names] for room in after] == [[room[name] for name in names] for room in before]


@pytest.mark.req("ADM-298")
def test_neither_a_script_with_a_key_nor_a_session_elsewhere_is_asked(guarded: Front) -> None:
    bearer = {"Authorization": f"Bearer {guarded.server.admin_key}", "Cookie": "", "X-QM-CSRF": ""}
    callers = [(Console(guarded, NAMED), bearer), (Console(guarded, ELSEWHERE), {})]
    for console, headers in callers:
        for method, path, body in dangerous(guarded)[:4]:
            assert console.says(method, path, body, **headers)[0] in (400, 404), path
        moved = {"id": "doomed", "targetUrl": f"http://doomed.test/{len(headers)}"}
        assert console.says("POST", "rooms", moved, **headers)[0] == 200


@pytest.mark.req("ADM-298", "WHK-114")
def test_whoever_presented_his_key_may_for_as_long_as_his_session_lasts(guarded: Front) -> None:
    key = guarded.admin("POST", "operators", {"name": "Ann", "role": "owner"})[1]["key"]
    bob = guarded.admin("POST", "operators", {"name": "Bob", "role": "operator"})[1]["key"]
    console, other = Console(guarded, NAMED, key), Console(guarded, NAMED, key)
    assert console.says("POST", "step-up", {"key": "guess"}) == (401, "unauthorized")
    assert console.says("POST", "step-up", {"key": bob}) == (403, "step_up_other_person")
    assert Console(guarded, NAMED, bob).says("POST", "step-up", {"key": bob}) == (403, "insufficient_role")
    for body in ({}, {"key": ""}, {"key": 1}, {"key": "k" * 513}):
        assert console.says("POST", "step-up", body) == (400, "invalid_key_field")
    assert console.says("POST", "step-up", {"key": key, "more": 1}) == (400, "unknown_field")
    token = console.token()

    made = console.ask("POST", "operators", {"name": "Made by Ann", "role": "viewer"}, **token)

    assert made.status == 201
    ident = json.loads(made.body)["operator"]["id"]
    assert console.says("POST", f"operators/{ident}", {"name": "Still by Ann"}, **token)[0] == 200
    assert console.says("POST", "rooms", {"id": "doomed", "targetUrl": "http://doomed.test/moved"}, **token)[0] == 200
    assert other.says("POST", f"operators/{ident}", {"name": "Not by Ann"}, **token) == REQUIRED
    guarded.room("spare", proxyOrigin=None)
    assert console.says("DELETE", "rooms/spare", **token)[0] == 200
    assert console.says("DELETE", "session")[0] == 200
    assert console.says("POST", f"operators/{ident}", {"name": "Gone"}, **token) == (401, "unauthorized")


@pytest.mark.req("ADM-009", "ADM-296", "WHK-115", "ADM-053")
def test_no_other_page_makes_a_browser_guess_keys(guarded: Front) -> None:
    console = Console(guarded, NAMED)
    for _ in range(25):  # more than an address may fail
        for site in ("cross-site", "same-site"):
            assert console.says("POST", "step-up", {"key": "guess"}, **{"Sec-Fetch-Site": site})[1] == "csrf_required"
            script = {"Authorization": f"Bearer {console.key}", "Cookie": "", "Sec-Fetch-Site": site}
            assert console.says("POST", "step-up", {"key": "guess"}, **script)[1] == "csrf_required"
            script["Authorization"] = "Bearer guess"
            assert console.says("POST", "step-up", {"key": "guess"}, **script)[1] == "csrf_required"
        assert console.says("POST", "step-up", {"key": "guess"}, **{"X-QM-CSRF": ""})[1] == "csrf_required"
    assert console.says("GET", "me")[0] == 200


@pytest.mark.req("ADM-165", "INL-023", "CON-185")
def test_the_deletion_of_a_hosts_last_inline_room_says_that_the_console_is_gone_from_there(guarded: Front) -> None:
    guarded.room("one", targetUrl="http://twins.test/")
    guarded.room("two", targetUrl="http://twins.test/b")
    console = Console(guarded, "twins.test")
    token = console.token()

    first, second = (json.loads(console.ask("DELETE", f"rooms/{room}", **token).body) for room in ("one", "two"))

    assert first["warnings"] == []
    (warning,) = second["warnings"]
    assert (warning["code"], warning["console"]) == ("inline_host_left", None)
    assert "PUBLIC_URL is unset, so it cannot be told where the console is." in warning["message"]
    assert console.says("GET", "me")[1] == "not_inline_host"


def routes_of(requirement: str) -> set[str]:
    line = next(line for line in SPEC.splitlines() if f"**{requirement}**" in line)
    return set(re.findall(r"`((?:POST|DELETE) [\w/<>-]+)`", line.partition("Of `POST rooms`")[0]))


@pytest.mark.req("ADM-298")
def test_every_route_that_the_contract_names_declares_it() -> None:
    declared = {f"{route.method} {route.path}": route.step_up for route in ROUTER.routes}
    by_session = routes_of("ADM-298")
    assert by_session >= {"POST operators", "POST operators/<id>", "DELETE rooms/<id>", "POST shutdown"}
    table = SPEC.partition("## 20 Roles matrix")[2]
    always = {
        f"POST {path.strip('`')}" for row in re.findall(r"^\| (`POST .*) \| with step-up.*$", table, re.M)
        for path in re.findall(r"POST ([\w/<>-]+)", row.partition(" | ")[0])
    }  # fmt: skip
    assert len(always) >= 4

    for route, rule in declared.items():
        is_named = route in by_session or route.endswith(("/pull-key", "/report-key"))
        wanted = StepUp.ALWAYS if route in always else StepUp.ON_SITE if is_named else StepUp.NEVER
        assert rule is (StepUp.BY_FIELDS if route == "POST rooms" else wanted), route
