"""Saving inline rooms through the admin API: what only an owner may change, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app.domain.room_fields import FIELDS
from tests.admin.callers import Caller, Callers, code, fresh_id
from tests.harness import Server

ORIGIN = "http://203.0.113.7:3000"


@pytest.fixture
def night(owner: Caller, callers: Callers) -> Caller:
    """An operator, who is no owner."""
    made = owner("POST", "/api/admin/operators", {"name": "Night ops", "role": "operator"})
    return callers.with_key(made.json()["key"])


@pytest.fixture
def inline(owner: Caller) -> Iterator[str]:
    """A room in front of a site of its own host."""
    room_id = fresh_id()
    body = {"id": room_id, "targetUrl": f"https://{room_id}.example/", "proxyOrigin": ORIGIN}
    assert owner("POST", "/api/admin/rooms", body).status_code == 200
    yield room_id
    owner("DELETE", f"/api/admin/rooms/{room_id}")


@pytest.mark.req("ADM-141", "ENG-028", "INL-016")
def test_only_a_change_of_where_traffic_goes_is_an_owners(owner: Caller, night: Caller, inline: str) -> None:
    read = owner("GET", f"/api/admin/rooms/{inline}").json()["room"]

    def save(**fields: Any) -> tuple[int, Any]:
        answer = night("POST", "/api/admin/rooms", {"id": inline, **fields})
        return answer.status_code, answer.json().get("changed", answer.json().get("code"))

    assert save(targetUrl=read["targetUrl"], proxyOrigin=ORIGIN, name="Shop") == (200, ["name"])
    assert save(**{**read, "name": "Other"}) == (200, ["name"]), "a whole object, posted back"
    others = {
        "name": "Third", "state": "paused", "rate": 61, "maxConcurrent": 5, "passedTtlSec": 601, "sessionTtlSec": 1801,
        "sessionMaxSec": 14_401, "presenceSec": 31, "queueMaxPerIp": 17, "preQueueMaxPerIp": 18, "sessionMaxPerIp": 3,
        "returnOrigins": ["https://back.example"], "tagOrigins": ["https://tag.example"],
        "rules": [{"action": "protect", "pattern": "/x*"}], "onBackendDown": "open", "protection": {"mode": "off"},
        "autoActivate": {"enabled": True}, "autotune": {"enabled": False}, "opensAt": read["createdAt"] + 86_400_000,
    }  # fmt: skip
    built = {row.name for row in FIELDS if row.built} - {"id", "targetUrl", "proxyOrigin"}
    assert others.keys() == built, "every other setting"
    changed = save(**others)
    assert changed[0] == 200, changed
    assert set(changed[1]) == built
    assert save(proxyOrigin="http://203.0.113.8:3000") == (403, "inline_requires_owner")
    assert save(targetUrl="https://elsewhere.example/") == (403, "inline_requires_owner")
    assert save(proxyOrigin=None) == (403, "inline_requires_owner")


@pytest.mark.req("ADM-149")
def test_clearing_the_origin_makes_a_snippet_room_of_it(owner: Caller, inline: str, room: str) -> None:
    assert owner("GET", f"/api/admin/rooms/{inline}").json()["room"]["mode"] == "inline"
    assert owner("GET", f"/api/admin/rooms/{room}").json()["room"]["mode"] == "snippet"

    cleared = owner("POST", "/api/admin/rooms", {"id": inline, "proxyOrigin": None}).json()

    assert (cleared["changed"], cleared["room"]["mode"], cleared["room"]["proxyOrigin"]) == (
        ["proxyOrigin"],
        "snippet",
        None,
    )
    assert cleared["room"]["origin"] is None


@pytest.mark.req("ADM-143")
def test_an_origin_that_cannot_be_has_its_own_code(owner: Caller, inline: str, room: str) -> None:
    before = owner("GET", f"/api/admin/rooms/{inline}").json()["room"]["etag"]
    for wrong, refusal in (
        ("http://203.0.113.7:3000/path", (400, "invalid_proxy_origin")),
        ("ftp://203.0.113.7", (400, "invalid_proxy_origin")),
        ("http://me:pw@203.0.113.7", (400, "invalid_proxy_origin")),
        (5, (400, "invalid_proxy_origin")),
        (f"https://{inline}.example", (400, "proxy_origin_loop")),
        ("http://10.1.2.3:3000", (400, "proxy_origin_private")),
        ("http://127.0.0.2:1", (400, "proxy_origin_private")),
    ):
        answer = owner("POST", "/api/admin/rooms", {"id": inline, "proxyOrigin": wrong})
        assert code(answer) == refusal, wrong
        assert answer.json()["fields"] == ["proxyOrigin"]
    other = {"id": room, "targetUrl": f"https://{inline}.example/other", "proxyOrigin": "http://203.0.113.9:3000"}
    assert code(owner("POST", "/api/admin/rooms", other)) == (409, "proxy_origin_conflict")
    assert owner("GET", f"/api/admin/rooms/{inline}").json()["room"]["etag"] == before


@pytest.mark.req("ADM-145")
def test_the_first_inline_room_warns_that_the_console_of_this_name_goes(
    server: Server, owner: Caller, callers: Callers
) -> None:
    room_id, host = fresh_id(), {"Host": "qm.weekday.test"}
    link = callers.with_key(owner("POST", "/api/admin/monitor-tokens", {}).json()["token"])
    body = {"id": room_id, "targetUrl": f"https://{room_id}.example/", "proxyOrigin": ORIGIN}
    assert owner("GET", "/api/admin/rooms", headers=host).status_code == 200
    assert link("GET", "/api/admin/rooms", headers=host).status_code == 200

    saved = owner("POST", "/api/admin/rooms", body, headers=host)

    assert saved.status_code == 200
    (warning,) = [one for one in saved.json()["warnings"] if one["code"] == "console_host_withheld"]
    assert warning["host"] == "qm.weekday.test"
    assert "ADMIN_HOST" in warning["message"]
    for caller, path in ((owner, "/api/admin/rooms"), (link, "/api/admin/rooms"), (owner, "/")):
        gone = caller("GET", path, headers=host)
        assert (gone.status_code, gone.content) == (404, b"")
    assert owner("GET", "/api/admin/rooms").status_code == 200, "an address is always a console's"
    owner("DELETE", f"/api/admin/rooms/{room_id}")
    assert owner("GET", "/api/admin/rooms", headers=host).status_code == 200
