"""``GET /api/status`` and ``POST /api/leave``."""

from __future__ import annotations

import time

import pytest

from app.core.ids import RoomId
from app.domain.layout import Flag
from app.domain.room import RoomState
from app.domain.tokens import VisitorTokens
from app.infrastructure.rate_limiter import RateLimiter
from tests.journal.house import House, until
from tests.visitor.site import Browser, Site


def old_token(site: Site, ticket: int, age_sec: int, room: str = "shop") -> str:
    tokens = VisitorTokens(site.keyring, max_age_sec=86400, cookie_max_age_sec=86400)
    return tokens.sign(room, 1, ticket, int(time.time() - age_sec) * 1000)


async def test_it_tells_the_owner_his_place(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    joined = (await browser.join()).json

    answer = await browser.status()

    same = ("state", "roomId", "name", "roomState", "ticket", "ref", "position", "ahead", "joinedAt", "pollMs")
    assert {name: answer.json[name] for name in same} == {name: joined[name] for name in same}
    assert answer.cookies == []
    assert "token" not in answer.json
    assert "created" not in answer.json


@pytest.mark.req("VIS-159")
async def test_it_reveals_nothing_to_anybody_else(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    token = (await browser.join()).json["token"]
    common = {"state", "roomId", "name", "roomState", "reason", "rejoin", "now", "pollMs"}

    for who, query, reason in (
        (browser.twin(), {}, "new"),
        (browser.twin(), {"token": "rubbish"}, "bad_token"),
        (browser.twin(agent="Other/1.0"), {"token": token}, "bad_token"),
        (browser.twin(peer="203.0.113.4"), {"token": token}, "bad_token"),
    ):
        answer = await who.status(**query)
        assert answer.status == 200
        assert answer.json.keys() == common
        assert answer.json.items() >= {"state": "gone", "reason": reason, "rejoin": True}.items()
        assert answer.cookies == []
    await site.update(state=RoomState.BYPASS)
    assert (await browser.twin().status()).json["state"] == "bypass"


@pytest.mark.req("VIS-039")
async def test_it_marks_the_owner_as_told_of_his_pass(site: Site, browser: Browser) -> None:
    await site.create()
    await browser.join()
    await site.advance(5)
    before = (await site.house.tickets("shop"))[0]

    head = await browser.send("HEAD", "/api/status?room=shop")
    after_head = (await site.house.tickets("shop"))[0]
    get = await browser.status()

    assert not before.flags & Flag.TOLD
    assert after_head == before
    assert (await site.house.tickets("shop"))[0].seen > before.seen
    assert len(head.reply.body) == len(get.reply.body)
    assert (await site.house.tickets("shop"))[0].flags & Flag.TOLD


@pytest.mark.req("VIS-161", "VIS-130")
async def test_it_signs_an_old_token_anew_with_its_cookies(site: Site, browser: Browser) -> None:
    await site.create()
    await browser.join()
    session = browser.jar["qms_shop"]
    browser.jar["qm_shop"] = old = old_token(site, 1, 43_300)

    renewed = await browser.status()

    assert renewed.json["token"] == browser.jar["qm_shop"] != old
    assert renewed.json["location"].endswith(renewed.json["token"])
    assert [cookie.partition("=")[0] for cookie in renewed.cookies] == ["qm_shop", "qms_shop"]
    assert browser.jar["qms_shop"] == session
    assert (await browser.status()).cookies == []
    browser.jar["qm_shop"] = old_token(site, 1, 43_300)
    checked = await browser.check()
    assert checked.json["reason"] == "admitted"
    assert checked.json["token"] == browser.jar["qm_shop"]
    assert {cookie.partition("=")[0] for cookie in checked.cookies} == {"qm_dk_shop", "qm_shop", "qms_shop"}
    browser.jar["qm_shop"] = old_token(site, 1, 43_300)
    assert "token" in (await browser.check()).json
    stranger = await browser.twin(peer="203.0.113.3").status(token=old_token(site, 1, 43_300))
    assert "token" not in stranger.json


@pytest.mark.req("ENG-092")
async def test_it_refuses_a_token_over_its_age(site: Site, browser: Browser) -> None:
    await site.create()
    await browser.join()
    browser.jar["qm_shop"] = old_token(site, 1, 86_500)

    answer = await browser.status()

    assert answer.json["reason"] == "bad_token"
    assert site.visitor.counts.rejected_tokens == {"expired": 1}


async def test_it_finds_the_room_by_token_or_cookie(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    token = (await browser.join()).json["token"]
    doors = "; ".join(f"qm_dk_r{n}=x" for n in range(8))
    tangled = browser.twin(headers={"cookie": f"{doors}; qm_console=c; qm_lang=th; qm_shop={token}"})

    by_token = await browser.twin().send("GET", f"/api/status?token={token}")
    by_cookie = await tangled.send("GET", "/api/status")
    nothing = await browser.twin().send("GET", "/api/status")
    rubbish = await browser.twin().send("GET", "/api/status?token=x.y")

    assert by_token.json["position"] == 1
    assert by_cookie.json["position"] == 1
    assert [(a.status, a.code) for a in (nothing, rubbish)] == [(400, "missing_room")] * 2


@pytest.mark.req("VIS-056")
async def test_it_keeps_the_cookies_of_eight_rooms(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    for n in range(1, 9):
        browser.jar[f"qm_r{n}"] = old_token(site, 1, 1000 * n, room=f"r{n}")
    before = set(browser.jar)

    answer = await browser.join()

    cleared = [cookie.partition("=")[0] for cookie in answer.cookies if "Max-Age=0" in cookie]
    assert cleared == ["qm_r8", "qms_r8", "qm_dk_r8"]
    assert set(browser.jar) == (before - {"qm_r8"}) | {"qm_shop", "qms_shop"}
    fewer = browser.twin()
    fewer.jar = {f"qm_r{n}": "x" for n in range(1, 8)}
    assert not any("Max-Age=0" in cookie for cookie in (await fewer.join()).cookies)


@pytest.mark.parametrize("prepare", ["waiting", "passed", "active"])
async def test_it_ends_what_the_owner_leaves(site: Site, browser: Browser, prepare: str) -> None:
    await site.create(rate_per_minute=0 if prepare == "waiting" else 600)
    token = (await browser.join()).json["token"]
    if prepare == "active":
        await browser.check()
    stranger = await browser.twin(agent="Other").send("POST", "/api/leave", {"roomId": "shop", "token": token})

    answer = await browser.send("POST", "/api/leave", {"roomId": "shop"})
    again = await browser.send("POST", "/api/leave", {"roomId": "shop", "token": token})

    assert stranger.json == {"ok": True, "left": None}
    assert stranger.cookies == []
    assert answer.json == {"ok": True, "left": prepare}
    assert [cookie.partition(";")[0] for cookie in answer.cookies] == ["qm_shop=", "qm_dk_shop="]
    assert again.json == {"ok": True, "left": None}
    assert (await browser.status(token=token)).json["reason"] == "expired"
    assert "qms_shop" in browser.jar


async def test_it_judges_the_return_address_of_the_page(site: Site, browser: Browser) -> None:
    await site.create()
    token = (await browser.join()).json["token"]

    good = await browser.status(**{"return": "https://shop.example/cart?a=1"})
    bad = await browser.status(**{"return": "https://evil.example/"})

    assert good.json["location"] == f"https://shop.example/cart?a=1&qm_token={token}"
    assert bad.json["location"] == f"https://shop.example/?qm_token={token}"
    assert site.visitor.counts.totals["blockedReturnUrls"] == 0


@pytest.mark.req("ENG-235")
async def test_it_says_paused_without_an_estimate(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=60, max_concurrent=None)
    await browser.twin().join()
    await browser.join()
    waiting = (await browser.status()).json
    await site.update(state=RoomState.PAUSED)

    paused = (await browser.status()).json

    assert waiting.items() >= {"state": "waiting", "ahead": 0, "estWaitSec": 0}.items()
    assert paused.items() >= {"state": "paused", "roomState": "paused", "estWaitSec": None, "position": 1}.items()


async def test_it_says_at_capacity_to_a_pass_without_a_slot(site: Site, browser: Browser) -> None:
    await site.create(max_concurrent=1, passed_ttl_sec=600)
    passed = await browser.released()
    await site.advance(125)
    other = browser.twin(peer="198.51.100.2")
    await other.released()

    state = (await browser.status()).json

    assert state.keys() == {
        "state", "roomId", "name", "roomState", "ticket", "ref", "passedAt", "passExpiresAt", "doorAhead", "now",
        "pollMs",
    }  # fmt: skip
    assert (state["state"], state["ticket"], state["doorAhead"]) == ("at_capacity", passed["ticket"], 0)
    assert (await browser.check()).json["reason"] == "at_capacity"
    await site.advance(600)

    async def is_over() -> bool:
        await site.house.jobs.tick(RoomId("shop"))
        return bool((await other.check()).json["reason"] == "expired")

    await until(is_over)


@pytest.mark.req("VIS-187")
async def test_it_tells_of_a_session_only_by_cookie_or_door_key(site: Site, browser: Browser) -> None:
    await site.create()
    token = (await browser.join()).json["token"]
    door = (await browser.check()).json["doorKey"]
    del browser.jar["qm_dk_shop"]

    by_cookie = (await browser.status()).json
    by_key = (await browser.twin(headers={"cookie": f"qm_dk_shop={door}"}).status(token=token)).json
    by_looks = (await browser.twin().status(token=token)).json

    for state in (by_cookie, by_key):
        assert state.keys() >= {"ticket", "ref", "sessionExpiresAt", "location"}
        assert state["state"] == "active"
    assert by_looks.items() >= {"state": "gone", "reason": "session_elsewhere"}.items()


@pytest.mark.req("VIS-071")
async def test_it_limits_status_by_address(house: House, limiter: RateLimiter) -> None:
    site = Site(house, limiter, status_limit_per_min=1)
    await site.create(rate_per_minute=0)
    browser = Browser(site)
    await browser.join()
    first = await browser.status()
    seen = (await site.house.tickets("shop"))[0].seen
    await site.advance(5)

    limited = await browser.status()

    assert (first.status, limited.status, limited.code) == (200, 429, "rate_limited")
    assert (await site.house.tickets("shop"))[0].seen == seen
    assert (await Browser(site, peer="203.0.113.99").status()).status == 200


@pytest.mark.req("VIS-044")
async def test_it_answers_503_and_never_no_room_while_a_room_is_fenced(site: Site, browser: Browser) -> None:
    await site.create()
    await browser.join()
    assert await site.house.jobs.fence(RoomId("shop"), 1, 1)

    answers = [
        await browser.status(),
        await browser.check(),
        await browser.join(),
        await browser.send("POST", "/api/leave", {"roomId": "shop"}),
    ]

    assert [(answer.status, answer.code) for answer in answers] == [(503, "storage_unavailable")] * 4
    assert all(answer.headers["retry-after"] == "5" for answer in answers)
    assert all(answer.cookies == [] for answer in answers)
