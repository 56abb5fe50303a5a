"""``GET /api/verify``."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from app.core.ids import RoomId
from app.domain.room import RoomState, UrlRule
from app.infrastructure.rate_limiter import RateLimiter
from tests.journal.house import House
from tests.journal.snapshot import snapshot
from tests.visitor.site import Browser, Site
from tests.visitor.test_vouched import ADMIN, KEY, Connector, make

SHOP, LANDING = "https://www.shop.example", "https://landing.brand.example"


@pytest.fixture
def site(house: House, limiter: RateLimiter) -> Site:
    return make(house, limiter)


async def verify(site: Site, key: str | None = KEY, **query: str) -> dict[str, Any]:
    answer = await Connector(site, key).send("/api/verify?" + urlencode(query))
    assert answer.status == 200, answer.json
    body = answer.json
    body["by"] = {check["id"]: check for check in body["checks"]}
    return body


def failed(answer: dict[str, Any]) -> set[str]:
    return {check["id"] for check in answer["checks"] if not check["ok"]}


@pytest.mark.req("VIS-142", "VIS-143", "VIS-144")
async def test_it_answers_as_the_contract_shows(site: Site) -> None:
    rules = (UrlRule("r1", "protect", "/sale*"),)
    await site.create(return_origins=(SHOP,), rules=rules)

    answer = await verify(site, room="shop", origin=LANDING, url=LANDING + "/sale")

    del answer["by"]
    assert answer == {
        "ok": False, "roomId": "shop",
        "checks": [
            {"id": "key", "ok": True, "message": "Public API key accepted"},
            {"id": "room", "ok": True, "message": "shop, generation 1"},
            {"id": "state", "ok": True, "message": "active"},
            {"id": "origin", "ok": False, "message": f"{LANDING} is not in tagOrigins",
             "fix": {"tagOrigins": [SHOP, LANDING]}},
            {"id": "returnUrl", "ok": False, "message": "Visitors from this page will be sent to the target URL"},
            {"id": "rule", "ok": True, "message": "Covered by rule r1", "rule": "r1", "covered": True},
        ],
    }  # fmt: skip


@pytest.mark.req("VIS-143", "VIS-144")
async def test_the_fix_it_names_lets_the_tag_ask_and_sends_nobody_elsewhere(site: Site) -> None:
    await site.create(return_origins=(SHOP,), tag_origins=("https://app.shop.example",))

    fix = (await verify(site, room="shop", origin=LANDING))["by"]["origin"]["fix"]
    await site.update(tag_origins=tuple(fix["tagOrigins"]))
    await site.rooms.refresh(RoomId("shop"))

    assert fix == {"tagOrigins": ["https://app.shop.example", LANDING]}
    assert (await verify(site, room="shop", origin=LANDING))["ok"] is True
    assert failed(await verify(site, room="shop", url=LANDING + "/x")) == {"returnUrl"}
    for text in ("null", "shop.example", "https://*.brand.example", "https://é.example"):
        found = await verify(site, room="shop", origin=text)
        assert failed(found) == {"origin"}
        assert "fix" not in found["by"]["origin"]


@pytest.mark.req("VIS-143")
async def test_it_tells_of_rooms_states_and_rules(site: Site) -> None:
    await site.create(rules=(UrlRule("a", "skip", "/free"), UrlRule("b", "protect", "/pay*")))
    await site.create("plain", state=RoomState.PAUSED)

    unknown = await verify(site, room="chekout", origin=SHOP, url="https://shop.example/")
    assert (unknown["ok"], failed(unknown), unknown["roomId"]) == (False, {"room"}, "chekout")
    assert (await verify(site, ADMIN, room="shop"))["by"]["key"]["message"] == "ADMIN_KEY accepted"
    assert {check["id"] for check in (await verify(site, room="shop"))["checks"]} == {"key", "room", "state"}
    whole = await verify(site, room="plain", origin="https://shop.example", url="https://shop.example/x")
    assert whole["ok"] is True
    assert (whole["by"]["state"]["message"], whole["by"]["rule"]["covered"]) == ("paused", True)
    for path, rule, covered in (("/free", "a", False), ("/pay/now", "b", True), ("/about", None, False)):
        found = (await verify(site, room="shop", url="https://shop.example" + path))["by"]["rule"]
        assert (found["ok"], found.get("rule"), found["covered"]) == (True, rule, covered)
    unreadable = (await verify(site, room="shop", url="/relative"))["by"]["rule"]
    assert (unreadable["ok"], unreadable["covered"]) == (False, True)


@pytest.mark.req("VIS-142")
async def test_it_counts_nothing_and_admits_nobody(site: Site) -> None:
    await site.create(rules=(UrlRule("r1", "protect", "/"),))
    await Browser(site).join()
    before = await snapshot(site.house.valkey, site.house.prefix, "shop")

    for _ in range(3):
        await verify(site, room="shop", origin=LANDING, url="https://shop.example/")
        await verify(site, room="nowhere", url="nonsense")

    after = await snapshot(site.house.valkey, site.house.prefix, "shop")
    assert (after["tickets"], after["doors"], after["header"]["seq"]) == (
        before["tickets"], before["doors"], before["header"]["seq"],
    )  # fmt: skip
    counts = site.visitor.counts
    assert (+counts.totals, counts.rules, counts.unknown_rooms, counts.refused_origins) == ({}, {}, {}, {})


@pytest.mark.req("VIS-145", "ADM-047", "CFG-139", "PAG-050")
async def test_it_wants_the_key_in_its_header_and_counts_wrong_ones(house: House, limiter: RateLimiter) -> None:
    site = make(house, limiter, admin_auth_fail_per_min=2)
    await site.create()

    in_query = await Connector(site).send(f"/api/verify?room=shop&key={KEY}")
    nothing = [await Connector(site, None).send("/api/verify?room=shop") for _ in range(3)]
    wrong = [await Connector(site, "guess").send("/api/verify?room=shop") for _ in range(2)]
    locked = await Connector(site).send("/api/verify?room=shop")

    assert (in_query.status, in_query.json) == (
        401, {"ok": False, "error": "Public API key sent in the URL", "code": "credential_in_query"},
    )  # fmt: skip
    assert [(answer.status, answer.code) for answer in (*nothing, *wrong, locked)] == [(401, "unauthorized")] * 6
    assert (await Connector(site).check()).status == 401, "one lock for every door of the key"
    assert (await Connector(site, peer="192.0.2.20").send("/api/verify")).code == "missing_room"


@pytest.mark.req("CFG-073")
async def test_it_has_a_budget_of_its_own(house: House, limiter: RateLimiter) -> None:
    site = make(house, limiter, verify_limit_per_min=2)
    await site.create()

    answers = [await Connector(site).send("/api/verify?room=shop") for _ in range(3)]

    assert [answer.status for answer in answers] == [200, 200, 429]
    assert [answer.request.budget.remaining for answer in answers if answer.request.budget] == [1, 0, 0]
    assert (await Connector(site).check()).status == 200


async def test_it_says_that_the_store_is_away(site: Site) -> None:
    await site.create()
    assert await site.house.jobs.fence(RoomId("shop"), 1, 1)

    answer = await Connector(site).send("/api/verify?room=shop")

    assert (answer.status, answer.code) == (503, "storage_unavailable")
