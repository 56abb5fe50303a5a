"""The installation check: judged by the room's settings and by what has arrived, with at most one proposed change."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from app.domain.roles import Role
from app.infrastructure.pages_seen import KEPT, PageSeen, PagesSeen
from blueprints.admin.lookup import ROUTES
from tests.admin.callers import Caller, code
from tests.admin.conftest import Process
from tests.harness import Server, wait_for

PAGE = "https://landing.brand.example/buy?x=1"
ORIGIN = "https://landing.brand.example"
SHOP = "https://www.shop.example"


def looked(owner: Caller, room: str, url: str = PAGE, origin: str | None = None) -> Any:
    query = f"url={quote(url, safe='')}" + ("" if origin is None else f"&origin={quote(origin, safe='')}")
    answer = owner("GET", f"/api/admin/rooms/{room}/install-check?{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def check(server: Server, room: str, origin: str, **body: str) -> int:
    answer = httpx.post(
        f"{server.url}/api/check?room={room}",
        content=json.dumps(body),
        headers={"Origin": origin, "Content-Type": "text/plain", "X-Forwarded-For": "203.0.113.77"},
        timeout=20,
    )
    return answer.status_code


def codes(answer: Any) -> list[str]:
    assert all(finding["text"].endswith((".", ":")) for finding in answer["findings"])
    return [finding["code"] for finding in answer["findings"]]


@pytest.mark.req("ADM-189", "ADM-190", "PAG-210", "PAG-211", "PAG-212", "PAG-213")
def test_it_judges_the_origin_and_the_page_and_proposes_one_change(owner: Caller, room: str) -> None:
    rules = [{"id": "r1", "action": "protect", "pattern": f"{ORIGIN}/buy*"}]
    owner("POST", "/api/admin/rooms", {"id": room, "returnOrigins": [SHOP], "rules": rules})
    before = owner("GET", f"/api/admin/rooms/{room}").json()["room"]["etag"]

    refused = looked(owner, room)

    assert refused == {
        "roomId": room, "origin": ORIGIN, "url": PAGE, "tagAllowed": False, "returnAllowed": False, "covered": True,
        "rule": "r1", "lastCheckAt": None, "tagVersion": None, "refusedChecks": 0, "findings": refused["findings"],
        "fix": {"tagOrigins": [SHOP, ORIGIN]},
    }  # fmt: skip
    assert codes(refused) == ["tag_origin_missing", "page_origin_not_returnable", "no_check_seen"]
    assert owner("GET", f"/api/admin/rooms/{room}").json()["room"]["etag"] == before, "a look changes nothing"
    # What is proposed can be saved as it is, and then the tag may run there; where visitors are sent stays.
    saved = owner("POST", "/api/admin/rooms", {"id": room, **refused["fix"]}).json()["room"]
    assert (saved["tagOrigins"], saved["returnOrigins"]) == ([SHOP, ORIGIN], [SHOP])
    mended = looked(owner, room)
    assert (mended["tagAllowed"], mended["returnAllowed"], mended["fix"]) == (True, False, None)
    elsewhere = looked(owner, room, f"{SHOP}/page", origin=f"{ORIGIN}:443")
    assert (elsewhere["origin"], elsewhere["tagAllowed"], elsewhere["covered"]) == (ORIGIN, True, False)
    assert (elsewhere["rule"], codes(elsewhere)[0]) == (None, "page_not_covered")
    third = looked(owner, room, "http://landing.brand.example/buy")
    assert third["fix"] == {"tagOrigins": [SHOP, ORIGIN, "http://landing.brand.example"]}, "another scheme"
    many = [f"https://a{n}.example" for n in range(50)]
    owner("POST", "/api/admin/rooms", {"id": room, "tagOrigins": many})
    full = looked(owner, room)
    assert (full["fix"], codes(full)[:2]) == (None, ["tag_origin_missing", "tag_origins_full"])


@pytest.mark.req("ADM-189", "ADM-191", "PAG-210", "PAG-214", "PAG-215")
def test_it_tells_what_has_really_arrived(server: Server, owner: Caller, room: str) -> None:
    owner("POST", "/api/admin/rooms", {"id": room, "returnOrigins": [SHOP], "state": "bypass"})
    for _ in range(3):
        assert check(server, room, ORIGIN, url=PAGE, tag="1.4.0") == 403
    for n in range(2):
        assert check(server, room, SHOP, url=f"{SHOP}/{n}", tag="1.3.9") == 200
    assert check(server, room, SHOP) == 200

    wait_for(lambda: looked(owner, room)["refusedChecks"] == 3)
    refused = looked(owner, room)
    assert (refused["lastCheckAt"], refused["tagVersion"]) == (None, None), "a refused check is not seen as working"
    assert "3 checks from it were refused so far" in refused["findings"][0]["text"]
    wait_for(lambda: "checks_without_url" in codes(looked(owner, room, f"{SHOP}/")))
    seen = looked(owner, room, f"{SHOP}/")
    assert seen["lastCheckAt"] <= owner("GET", "/api/admin/rooms").json()["ts"]
    assert codes(seen) == ["checks_without_url", "old_tag"]
    assert "1.3.9" in seen["findings"][1]["text"]
    for _ in range(3):
        looked(owner, room, f"{SHOP}/")
    again = looked(owner, room, f"{SHOP}/")
    assert again == seen, "looking counts nothing"


@pytest.mark.req("ADM-192", "PAG-211", "PAG-215")
def test_both_questions_are_viewers_leave_no_trace_and_refuse_what_is_no_address(owner: Caller, room: str) -> None:
    roles = {route.path: route.role for route in ROUTES if route.path.split("/")[-1] in ("test", "install-check")}
    assert roles == {"rooms/<id>/rules/test": Role.VIEWER, "rooms/<id>/install-check": Role.VIEWER}
    path = f"/api/admin/rooms/{room}/install-check"
    for query, refusal in (
        ("", (400, "invalid_url")),
        ("url=/buy", (400, "invalid_url")),
        ("url=ftp://a.example/", (400, "invalid_url")),
        ("url=https://me:pw@a.example/", (400, "invalid_url")),
        ("url=https://a.example/&origin=a.example", (400, "invalid_origin")),
        ("url=https://a.example/&origin=", (400, "invalid_origin")),
        ("url=https://a.example/&page=1", (400, "unknown_field")),
    ):
        assert code(owner("GET", f"{path}?{query}")) == refusal, query
    assert code(owner("GET", "/api/admin/rooms/nope/install-check?url=https://a.example/")) == (404, "no_room")
    looked(owner, room)
    owner("POST", f"/api/admin/rooms/{room}/rules/test", {"url": PAGE})
    entries = owner("GET", "/api/admin/audit", params={"roomId": room}).json()["entries"]
    assert [entry["action"] for entry in entries] == ["room.create"]


async def test_it_keeps_the_pages_heard_of_last(process: Process) -> None:
    seen = PagesSeen(process.valkey, process.prefix)
    await seen.add({("shop", b"https://a.example", "1.4.0"), ("shop", b"https://a.example", "1.3.0")}, 5)
    await seen.add({("shop", b"https://a.example", "1.4.0")}, 9)
    await seen.add({("shop", b"https://a.example", "<b>")}, 7)
    await seen.add({("shop", b"https://a.example", "1.4.0"), ("other", b"https://a.example", None)}, 8)

    assert await seen.of("shop") == [
        PageSeen("https://a.example", "1.4.0", 9),
        PageSeen("https://a.example", None, 7),
        PageSeen("https://a.example", "1.3.0", 5),
    ]
    for n in range(0, KEPT, 100):
        await seen.add({("x", b"https://%d.example" % m, None) for m in range(n, n + 100)}, 10)
    assert await seen.of("shop") == []
    assert len(await seen.of("x")) == KEPT
