"""The roles matrix as data: each route with each credential, by method (05, section 20).

What a cell promises is only whether the credential may: a permitted request is made so that it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from app.domain.roles import Role
from tests.admin.callers import Caller, Callers, code
from tests.harness import Server
from tests.house.roles_matrix import MATRIX

SIGN_IN: Final = "/api/admin/session"
NOBODY_ROOM: Final = "no-such-room-of-the-matrix"
REFUSED_BODY: Final = b'{"no such field": 1}'
"""Refused by every route that takes a body, after the role was looked at (ADM-289)."""
REFUSALS: Final = {(400, "unknown_field"), (400, "invalid_room_id"), (404, "no_room")}
READS: Final = {(200, None), (404, "no_room"), (400, "invalid_q"), (404, None), (400, None)}
"""What a permitted read answers; one by HEAD tells no code."""
CREDENTIALS: Final = ("nobody", "public", "monitor", "viewer", "operator", "owner", "admin_key")
SESSIONS: Final = ("viewer", "operator", "owner", "admin_key")
ROLE_OF: Final = {
    "monitor": Role.MONITOR,
    "viewer": Role.VIEWER,
    "operator": Role.OPERATOR,
    "owner": Role.OWNER,
    "admin_key": Role.OWNER,
}


@dataclass
class Team:
    """One caller per credential."""

    bearers: dict[str, Caller]
    pages: dict[str, Caller]
    keys: dict[str, str]


@pytest.fixture(scope="module")
def team(server: Server) -> Iterator[Team]:
    callers = Callers(server)
    admin = callers.with_key(server.admin_key)
    keys = {"public": "public-key-of-this-deployment", "admin_key": server.admin_key}
    for role in ("viewer", "operator", "owner"):
        made = admin("POST", "/api/admin/operators", {"name": f"matrix {role}", "role": role})
        assert made.status_code == 201, made.text
        keys[role] = made.json()["key"]
    keys["monitor"] = admin("POST", "/api/admin/monitor-tokens", {"label": "matrix"}).json()["token"]
    bearers = {name: callers.with_key(key) for name, key in keys.items()} | {"nobody": callers.with_key(None)}
    yield Team(bearers, {name: callers.signed_in(keys[name]) for name in SESSIONS}, keys)
    callers.close()


def cells() -> list[tuple[str, str, str]]:
    """Credential, method and path of every cell, HEAD included."""
    found = []
    for row in MATRIX:
        method, path = row.split()
        for method_asked in (method, "HEAD") if method == "GET" else (method,):
            found += [(credential, method_asked, path) for credential in CREDENTIALS]
            found += [(f"{credential} session", method_asked, path) for credential in SESSIONS]
    return found


def ask(caller: Caller, method: str, path: str) -> Any:
    """The request of a cell, which changes nothing."""
    own = path.replace("<id>", NOBODY_ROOM).replace("<n>", "1")
    if path == "events":
        with caller.http.stream(method, f"/api/admin/{own}") as answer:
            if answer.status_code != 200:
                answer.read()
            return answer
    body = REFUSED_BODY if method in ("POST", "DELETE") else None
    return caller(method, f"/api/admin/{own}", body)


@pytest.mark.req("ADM-285", "ADM-289", "ADM-035", "ADM-039", "ADM-239", "ADM-286", "ADM-025", "ADM-027", "ADM-028")
@pytest.mark.req("ADM-237")
@pytest.mark.parametrize(("credential", "method", "path"), cells(), ids=lambda value: str(value))
@pytest.mark.req("CON-223")
def test_it_obeys_each_cell_of_the_roles_matrix(team: Team, credential: str, method: str, path: str) -> None:
    name, _, way = credential.partition(" ")
    caller = team.pages[name] if way else team.bearers[name]
    least = MATRIX[f"{'GET' if method == 'HEAD' else method} {path}"]

    answer = ask(caller, method, path)

    body = {} if method == "HEAD" or answer.status_code == 200 else answer.json()
    if name == "nobody":
        assert answer.status_code == 401
    elif name == "public":
        assert answer.status_code == 403
        assert body == {} or (body["code"], body["role"]) == ("insufficient_role", "public")
    elif ROLE_OF[name] < least:
        assert answer.status_code == 403
        told = ("insufficient_role", ROLE_OF[name].word, least.word)
        assert body == {} or (body["code"], body["role"], body["needs"]) == told
    elif method in ("POST", "DELETE"):
        assert (answer.status_code, body["code"]) in REFUSALS
    else:
        assert (answer.status_code, body.get("code")) in READS


@pytest.mark.req("ADM-010")
def test_a_method_without_a_cell_is_refused_to_whoever_is_known(team: Team) -> None:
    paths = {row.split()[1] for row in MATRIX}
    for path in sorted(paths):
        own = path.replace("<id>", NOBODY_ROOM).replace("<n>", "1")
        for method in {"POST", "DELETE", "PUT", "PATCH"} - {
            row.split()[0] for row in MATRIX if row.endswith(f" {path}")
        }:
            assert code(team.bearers["monitor"](method, f"/api/admin/{own}")) == (405, "method_not_allowed")


@pytest.mark.req("ADM-066")
def test_every_key_signs_in_and_no_monitor_link_does(server: Server, callers: Callers, team: Team) -> None:
    for name in SESSIONS:
        answer = callers.page()("POST", SIGN_IN, {"key": team.keys[name]})
        assert (answer.status_code, answer.json()["role"]) == (200, ROLE_OF[name].word)
        assert answer.json()["kind"] == ("admin_key" if name == "admin_key" else "operator")
    page = callers.page()
    for _ in range(25):
        answer = page("POST", SIGN_IN, {"key": team.keys["monitor"]})
        assert code(answer) == (403, "monitor_cannot_sign_in")
        assert "set-cookie" not in answer.headers
    assert code(callers.page()("POST", SIGN_IN, {"key": team.keys["public"]})) == (403, "insufficient_role")


def test_anyone_may_sign_out_and_only_a_session_ends_by_it(callers: Callers, team: Team) -> None:
    for name in CREDENTIALS[1:]:
        answer = team.bearers[name]("DELETE", SIGN_IN)
        assert answer.status_code == (403 if name == "public" else 200), name
    for name in SESSIONS:
        page = callers.signed_in(team.keys[name])
        assert page("DELETE", SIGN_IN).json() == {"ok": True}
        assert code(page("GET", "/api/admin/me")) == (401, "unauthorized")
        assert team.bearers[name]("GET", "/api/admin/me").status_code == 200


@pytest.mark.req("ADM-082", "ADM-083")
def test_me_tells_each_credential_what_it_is_and_may(team: Team) -> None:
    rights = {"monitor": {"security", "reports"}}
    rights["viewer"] = rights["monitor"] | {"visitors", "audit", "diagnostics", "alerts"}
    rights["operator"] = rights["viewer"] | {"write", "links"}
    rights["owner"] = rights["operator"] | {"deleteRoom", "operators", "inline", "shutdown"}
    rights["admin_key"] = rights["owner"]
    for name, caller in (*team.bearers.items(), *team.pages.items()):
        if name in ("nobody", "public"):
            continue
        me = caller("GET", "/api/admin/me").json()
        via = "session" if caller in team.pages.values() else "bearer"
        kind = name if name in ("monitor", "admin_key") else "operator"
        assert (me["kind"], me["via"], me["role"]) == (kind, via, ROLE_OF[name].word)
        assert {group for group, may in me["can"].items() if may} == rights[name]
        assert (me["linkId"] is None) == (name != "monitor")
        assert (me["operatorId"] is None) == (kind != "operator")
        assert me["name"] == {"monitor": "Monitor link", "admin_key": "ADMIN_KEY"}.get(name, f"matrix {name}")
        assert (me["expiresAt"] is not None) == (via == "session" or name == "monitor")
