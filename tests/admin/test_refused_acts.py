"""What the audit trail says of acts that were refused, and of acts that failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.admin.callers import TARGET, Caller, Callers, code
from tests.admin.test_http_outage import halted
from tests.harness import Server, wait_for

INLINE = {"targetUrl": "https://inline.example", "proxyOrigin": "http://203.0.113.7:3000"}


def entries(owner: Caller, **filters: str) -> list[dict[str, Any]]:
    answer = owner("GET", "/api/admin/audit", params=filters)
    found: list[dict[str, Any]] = answer.json().get("entries", [])
    return found


def named(server: Server, word: str) -> list[int]:
    """Processes of the server whose command line begins with ``word``."""
    return [pid for pid, line in server.descendants().items() if line.split(" ")[0].rpartition("/")[2].startswith(word)]


@contextmanager
def all_halted(server: Server, word: str) -> Iterator[None]:
    """Every process of the server whose command line begins with ``word`` stands still."""
    with ExitStack() as held:
        for pid in named(server, word):
            held.enter_context(halted(pid))
        yield


@pytest.mark.req("ADM-140", "ADM-138", "ADM-139")
def test_only_an_owner_sends_an_inline_room_somewhere_and_a_refusal_is_noted(
    owner: Caller, callers: Callers, room: str
) -> None:
    made = owner("POST", "/api/admin/operators", {"name": "Ops", "role": "operator"}).json()
    head = owner("POST", "/api/admin/operators", {"name": "Head", "role": "owner"}).json()
    operator, chief = callers.with_key(made["key"]), callers.with_key(head["key"])
    before = owner("GET", f"/api/admin/rooms/{room}").json()["room"]

    for caller in (operator, callers.signed_in(made["key"])):
        edit = caller("POST", "/api/admin/rooms", {"id": room, "proxyOrigin": INLINE["proxyOrigin"]})
        create = caller("POST", "/api/admin/rooms", {"id": f"{room}-inline", **INLINE})
        assert code(edit) == code(create) == (403, "inline_requires_owner")
        assert edit.json()["fields"] == ["proxyOrigin"]
        assert "other settings of this room can still be edited" in edit.json()["error"]
        assert "can still be created as a snippet room" in create.json()["error"]
    assert code(operator("POST", "/api/admin/rooms", {"id": room, "proxyOrigin": 5})) == (400, "invalid_proxy_origin")
    noted = entries(owner, actor=made["operator"]["id"])
    assert [(one["action"], one["roomId"], one["detail"], one["ok"]) for one in noted if not one["ok"]] == [
        ("room.create", f"{room}-inline", "inline_requires_owner: targetUrl, proxyOrigin", False),
        ("room.update", room, "inline_requires_owner: proxyOrigin", False),
    ] * 2
    assert owner("GET", f"/api/admin/rooms/{room}").json()["room"]["etag"] == before["etag"]
    assert operator("POST", "/api/admin/rooms", {"id": room, "targetUrl": TARGET + "/x"}).status_code == 200
    accepted = chief("POST", "/api/admin/rooms", {"id": room, "proxyOrigin": INLINE["proxyOrigin"]})
    assert accepted.status_code == 200, accepted.text
    assert operator("POST", "/api/admin/rooms", {"id": room, "rate": 7}).status_code == 200
    for change in ({"targetUrl": TARGET}, {"proxyOrigin": None}):
        answer = operator("POST", "/api/admin/rooms", {"id": room, **change})
        assert code(answer) == (403, "inline_requires_owner")
    same = operator("POST", "/api/admin/rooms", {"id": room, "proxyOrigin": INLINE["proxyOrigin"], "rate": 8})
    assert same.json()["changed"] == ["rate"]
    wait_for(lambda: bool(entries(owner, action="room.inline", roomId=room)))
    (inline,) = entries(owner, action="room.inline", roomId=room)
    assert (inline["actor"], inline["detail"]) == ("Head", f"proxyOrigin: none → {INLINE['proxyOrigin']}")
    assert code(operator("DELETE", f"/api/admin/rooms/{room}")) == (403, "insufficient_role")
    assert not [
        one for one in entries(owner, actor=made["operator"]["id"], ok="false") if one["action"] == "room.delete"
    ]


@pytest.mark.slow
@pytest.mark.req("ADM-251", "ADM-253", "ADM-265", "ADM-283")
def test_an_act_that_could_not_be_recorded_is_noted_when_that_is_possible_again() -> None:
    """And meanwhile nothing claims to be whole: no list is empty, no key is good that nobody confirmed."""
    env: dict[str, str | None] = {"PG_STATEMENT_TIMEOUT_MS": "1000", "RESYNC_MS": "1000"}
    with Server(env=env, workers=1) as server:
        callers = Callers(server)
        owner = callers.with_key(server.admin_key)
        assert owner("POST", "/api/admin/rooms", {"id": "shop", "targetUrl": TARGET}).status_code == 200
        made = owner("POST", "/api/admin/operators", {"name": "Ops", "role": "owner"}).json()
        ops, page = callers.with_key(made["key"]), callers.signed_in(made["key"])
        with all_halted(server, "postgres"):
            assert code(owner("GET", "/api/admin/audit")) == (503, "storage_unavailable")
            assert code(owner("GET", "/api/admin/operators")) == (503, "storage_unavailable")
            assert code(owner("DELETE", f"/api/admin/operators/{made['operator']['id']}")) == (
                503, "storage_unavailable",
            )  # fmt: skip
            purged = owner("DELETE", f"/api/admin/operators/{made['operator']['id']}?purge=1")
            assert code(purged) == (503, "storage_unavailable")
            for caller in (ops, page):
                answer = caller("GET", "/api/admin/me")
                assert code(answer) == (503, "storage_unavailable")
                assert answer.headers["retry-after"] == "5"
                assert "set-cookie" not in answer.headers
            assert owner("GET", "/api/admin/rooms").json()["rooms"][0]["waiting"] == 0
            assert owner("POST", "/api/admin/rooms/shop/pause").status_code == 200
            assert code(owner("POST", "/api/admin/rooms/shop/flush")) == (503, "storage_unavailable")
        wait_for(lambda: ops("GET", "/api/admin/me").status_code == 200, 60)
        wait_for(lambda: len(entries(owner, ok="false")) >= 3, 60)
        failed = {(one["action"], one["roomId"], one["detail"]) for one in entries(owner, ok="false")}
        for action in ("operator.revoke", "operator.purge"):
            assert (action, None, "not recorded: it may have taken effect") in failed
        callers.close()
