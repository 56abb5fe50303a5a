"""Operators and monitor links over real HTTP: what is answered, shown once, noted, and shown to nobody."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from tests.admin.callers import Caller, Callers, code
from tests.admin.test_http_stream import stream
from tests.harness import Server, wait_for

OPERATORS = "/api/admin/operators"
LINKS = "/api/admin/monitor-tokens"


def made(owner: Caller, role: str = "operator", name: str = "Night ops") -> dict[str, Any]:
    answer = owner("POST", OPERATORS, {"name": name, "role": role})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def entries(owner: Caller, **filters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = owner("GET", "/api/admin/audit", params=filters).json()["entries"]
    return found


@pytest.mark.req("ADM-201", "ADM-203")
def test_it_shows_a_new_key_once_and_never_again(server: Server, owner: Caller, callers: Callers) -> None:
    answer = owner("POST", OPERATORS, {"name": "  Night ops ", "role": "operator"})

    body = answer.json()
    key, ident = body["key"], body["operator"]["id"]
    assert answer.status_code == 201
    assert body["shownOnce"] is True
    assert body["operator"] == {
        "id": ident, "name": "Night ops", "role": "operator", "createdAt": body["operator"]["createdAt"],
        "createdBy": "ADMIN_KEY", "lastUsedAt": None, "lastUsedIp": None, "revokedAt": None, "revokedBy": None,
        "liveLinks": 0,
    }  # fmt: skip
    ops = callers.with_key(key)
    assert ops("GET", "/api/admin/me").json()["operatorId"] == ident
    later = [
        owner("GET", OPERATORS),
        owner("POST", f"{OPERATORS}/{ident}", {"name": "Day ops"}),
        owner("GET", "/api/admin/audit", params={"format": "csv"}),
        owner("GET", "/api/admin/health"),
        ops("GET", "/api/admin/me"),
        owner("DELETE", f"{OPERATORS}/{ident}"),
        owner("DELETE", f"{OPERATORS}/{ident}", params={"purge": "1"}),
    ]
    secret = key.split("_", 2)[2]
    for one in later:
        assert one.status_code == 200
        assert secret not in one.text
    assert secret not in server.stderr
    assert code(ops("GET", "/api/admin/me")) == (401, "unauthorized")


@pytest.mark.req("ADM-048")
def test_health_counts_who_has_access_and_says_that_there_is_no_sso(owner: Caller) -> None:
    def access() -> dict[str, Any]:
        found: dict[str, Any] = owner("GET", "/api/admin/health").json()["access"]
        return found

    before = access()
    ident = made(owner)["operator"]["id"]
    link = owner("POST", LINKS).json()["link"]["id"]

    assert before["sso"] is False
    assert (access()["operators"], access()["monitorLinks"]) == (before["operators"] + 1, before["monitorLinks"] + 1)
    owner("DELETE", f"{OPERATORS}/{ident}")
    owner("DELETE", f"{LINKS}/{link}")
    assert access() == before


@pytest.mark.req("ADM-207", "ADM-209", "ADM-213")
def test_it_answers_revoking_and_purging_as_documented(owner: Caller, callers: Callers) -> None:
    ident = made(owner)["operator"]["id"]

    first = owner("DELETE", f"{OPERATORS}/{ident}").json()
    again = owner("DELETE", f"{OPERATORS}/{ident}").json()
    purged = owner("DELETE", f"{OPERATORS}/{ident}?purge=1").json()

    assert (first["ok"], first["operator"]["revokedBy"], first["linksRevoked"]) == (True, "ADMIN_KEY", 0)
    assert (again["operator"]["revokedAt"], again["linksRevoked"]) == (first["operator"]["revokedAt"], 0)
    named = {"id": ident, "name": "Night ops"}
    assert purged == {"ok": True, "operator": named, "purged": True, "linksRevoked": 0}
    for method, query in (("DELETE", ""), ("DELETE", "?purge=1"), ("POST", "")):
        body = {"name": "x"} if method == "POST" else None
        for unknown in (ident, "00000000", "nope", "ABCDEF01"):
            assert code(owner(method, f"{OPERATORS}/{unknown}{query}", body)) == (404, "no_operator")
    assert code(owner("POST", f"{OPERATORS}/{made(owner)['operator']['id']}", {})) == (400, "nothing_to_change")
    acts = [entry["action"] for entry in entries(owner)[:4]]
    assert acts == ["operator.create", "operator.purge", "operator.revoke", "operator.create"]


@pytest.mark.req("ADM-214")
def test_an_owner_gets_the_answer_to_his_own_revocation(owner: Caller, callers: Callers) -> None:
    new = made(owner, "owner")
    himself = callers.with_key(new["key"])

    answer = himself("DELETE", f"{OPERATORS}/{new['operator']['id']}")

    assert (answer.status_code, answer.json()["operator"]["revokedBy"]) == (200, "Night ops")
    assert code(himself("GET", "/api/admin/me")) == (401, "unauthorized")


@pytest.mark.req("ADM-220", "ADM-223")
def test_a_link_opens_the_console_it_was_made_at_with_its_token_in_the_fragment(
    server: Server, owner: Caller, callers: Callers
) -> None:
    answer = owner("POST", LINKS, {"label": "Agency"}, headers={"Host": "queue.example", "X-Forwarded-Proto": "https"})

    body = answer.json()
    assert answer.status_code == 201
    assert body["url"] == f"https://queue.example/#monitor={body['token']}"
    watcher = callers.with_key(body["token"])
    assert watcher("GET", "/api/admin/me").json()["linkId"] == body["link"]["id"]
    shown = owner("POST", f"{LINKS}/{body['link']['id']}/reveal").json()
    assert shown["link"] | {"lastUsedAt": None} == body["link"]
    assert shown["url"] == f"{server.url}/#monitor={shown['token']}"
    assert callers.with_key(shown["token"])("GET", "/api/admin/me").status_code == 200
    listed = owner("GET", LINKS)
    assert body["token"].partition(".")[2] not in listed.text
    assert listed.json()["ttlSec"] == 604_800
    assert body["link"]["expiresAt"] - body["link"]["createdAt"] == 604_800_000


@pytest.mark.req("ADM-036", "ADM-074")
def test_a_link_in_an_owners_browser_reads_as_a_link_and_does_not_sign_him_out(owner: Caller, browser: Caller) -> None:
    link = owner("POST", LINKS).json()
    as_link = {"Authorization": f"Bearer {link['token']}"}

    assert browser("GET", "/api/admin/me", headers=as_link).json()["kind"] == "monitor"
    assert code(browser("GET", "/api/admin/audit", headers=as_link)) == (403, "insufficient_role")
    owner("DELETE", f"{LINKS}/{link['link']['id']}")
    dead = browser("GET", "/api/admin/me", headers=as_link)
    assert code(dead) == (401, "unauthorized")
    assert "set-cookie" not in dead.headers
    assert browser("GET", "/api/admin/me").json()["kind"] == "admin_key"


@pytest.mark.req("ADM-240", "ADM-242", "OBS-041")
def test_a_link_reads_what_may_leave_the_team(owner: Caller, callers: Callers, room: str) -> None:
    watcher = callers.with_key(owner("POST", LINKS).json()["token"])
    owner("POST", "/api/admin/rooms", {"id": room, "rules": [{"action": "protect", "pattern": "/secret-path*"}]})
    owner("POST", f"/api/admin/rooms/{room}/pause")

    health = watcher("GET", "/api/admin/health").json()
    assert set(health) == {
        "ready", "status", "version", "startedAt", "uptimeSec", "leader", "rooms", "backend", "incidents",
    }  # fmt: skip
    assert set(health["backend"]) == {"store", "valkey", "recoveringRooms", "ok", "valkeyEverConnected"}
    shown = watcher("GET", f"/api/admin/rooms/{room}")
    assert "secret-path" not in shown.text
    assert shown.json()["room"]["lastChange"]["by"] == "operator"
    assert room in [one["id"] for one in watcher("GET", "/api/admin/rooms").json()["rooms"]]
    wait_for(lambda: watcher("GET", f"/api/admin/timeline?roomId={room}").json()["items"] != [])
    actors = {mark["actor"] for mark in watcher("GET", f"/api/admin/timeline?roomId={room}").json()["items"]}
    assert actors == {"operator"}
    with stream(watcher) as events:
        frame = events.frame()
    assert "secret-path" not in json.dumps(frame)
    assert room in [one["id"] for one in frame["rooms"]]


@pytest.mark.req("ADM-244")
def test_a_link_writes_nothing_not_even_into_the_audit_trail(owner: Caller, callers: Callers, room: str) -> None:
    watcher = callers.with_key(owner("POST", LINKS).json()["token"])
    newest = entries(owner)[0]["id"]

    for _ in range(25):
        answer = watcher("POST", f"/api/admin/rooms/{room}/pause")
        assert code(answer) == (403, "insufficient_role")

    assert owner("GET", f"/api/admin/rooms/{room}").json()["room"]["state"] == "active"
    assert entries(owner)[0]["id"] == newest
    assert watcher("GET", "/api/admin/me").status_code == 200


@pytest.mark.req("ADM-081", "ADM-247", "ADM-258")
def test_it_notes_who_signed_in_and_out_and_who_did_what(
    server: Server, owner: Caller, callers: Callers, room: str
) -> None:
    new = made(owner, name="Desk")
    ident = new["operator"]["id"]
    page = callers.signed_in(new["key"])
    assert page("POST", f"/api/admin/rooms/{room}/pause").status_code == 200
    assert page("DELETE", "/api/admin/session").status_code == 200
    address = page.http.headers["X-Forwarded-For"]
    wait_for(lambda: len(entries(owner, actor=ident)) == 3)

    found = entries(owner, actor=ident)

    assert [entry["action"] for entry in found] == ["session.delete", "room.state", "session.create"] or [
        entry["action"] for entry in found
    ] == ["room.state", "session.delete", "session.create"]
    for entry in found:
        assert (entry["actor"], entry["actorKind"], entry["actorId"]) == ("Desk", "operator", ident)
        assert (entry["role"], entry["ip"], entry["ok"]) == ("operator", address, True)
        assert entry["instance"].startswith("i:")
        assert entry["roomId"] == (room if entry["action"] == "room.state" else None)


@pytest.mark.req("ADM-057", "ADM-250")
def test_it_notes_the_start_of_a_lock_and_no_single_failure(owner: Caller, callers: Callers) -> None:
    guesser = callers.with_key("wrong")
    address = guesser.http.headers["X-Forwarded-For"]

    for _ in range(25):
        guesser("GET", "/api/admin/me")

    def told() -> list[dict[str, Any]]:
        return [
            entry for entry in entries(owner) if address in (entry["detail"], entry["ip"]) or address in entry["detail"]
        ]

    wait_for(lambda: len(told()) >= 1)
    (entry,) = told()
    assert (entry["action"], entry["actor"], entry["actorKind"], entry["ip"]) == (
        "auth.lockout",
        "system",
        "system",
        None,
    )
    assert re.fullmatch(rf"{re.escape(address)}: 20 failed sign-ins in a minute", entry["detail"])


def sent_by_caller(answer: httpx.Response, credential: str) -> bool:
    """What somebody put into an address or a name himself, an error may name."""
    content = (answer.request.content or b"").decode()
    return credential in str(answer.request.url) or f'{{"{credential}"' in content or f'["{credential}"' in content


@pytest.mark.req("ADM-022", "ADM-259")
def test_no_credential_stands_in_a_log_an_entry_an_error_or_a_metric(
    server: Server, owner: Caller, callers: Callers
) -> None:
    """Every kind is used, rightly and wrongly, at its own doors and at others; then everything written is searched."""
    new, link = made(owner), owner("POST", LINKS, {"label": "searched"}).json()
    page = callers.signed_in(new["key"])
    ticket = owner("POST", "/api/admin/sse-ticket").json()["ticket"]
    cookie = page.http.headers["Cookie"].partition("=")[2]
    guess = "guessed-credential-of-somebody"
    said: list[str] = []
    kinds = {
        "admin": server.admin_key,
        "operator": new["key"].split("_", 2)[2],
        "link": link["token"].partition(".")[2],
        "cookie": cookie.partition(".")[2],
        "ticket": ticket,
        "secret": server.env["SECRET"],
        "public": server.env["PUBLIC_API_KEY"],
        "guess": guess,
    }
    for whole in (server.admin_key, new["key"], link["token"], cookie, ticket, server.env["PUBLIC_API_KEY"], guess):
        caller = callers.with_key(whole)
        stranger = callers.page()
        answers = (
            caller("GET", "/api/admin/me"),
            caller("POST", "/api/admin/rooms", {"id": whole}),
            caller("GET", f"/api/admin/{whole}"),
            stranger("GET", f"/api/admin/me?key={whole}"),
            stranger("GET", f"/api/admin/events?ticket={whole}", headers={"Connection": "close"})
            if whole is not ticket
            else stranger("GET", "/api/admin/events?ticket=x"),
            stranger("POST", "/api/admin/session", {"key": whole + "x"}),
            stranger("POST", "/api/admin/session", {"key": [whole]}),
            stranger("POST", "/api/admin/session", {whole: "key"}),
            stranger("DELETE", "/api/admin/session", headers={"Cookie": f"qm_console={whole}"}),
            callers.with_key(whole + "y")("GET", "/api/admin/me"),
        )
        said.extend(answer.text for answer in answers if not sent_by_caller(answer, whole))
    said += [
        owner("GET", "/api/admin/audit", params={"format": "csv"}).text,
        owner("GET", "/api/admin/health").text,
        owner("GET", OPERATORS).text,
        owner("GET", LINKS).text,
        owner("GET", "/metrics").text,
        server.stderr,
    ]
    for name, value in kinds.items():
        for text in said:
            assert value not in text, name
