"""The visitor states, member by member, from join, status and stream alike. Source: 03, chapter 17."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from app.core.ids import RoomId
from app.domain.refs import ref_of
from app.domain.room import RoomState
from tests.journal.house import until
from tests.visitor.site import Answer, Browser, Site
from tests.visitor.test_streams import opened

COMMON: Final = {"state", "roomId", "name", "roomState", "now", "pollMs"}
PLACE: Final = COMMON | {"ticket", "ref", "position", "ahead", "joinedAt", "estWaitSec", "estWaitIsFloor"}
PASS: Final = COMMON | {
    "ticket", "ref", "joinedAt", "passedAt", "waitedSec", "passExpiresAt", "claimUntil", "holdsSlot", "location",
}  # fmt: skip


async def shown(browser: Browser) -> dict[str, Any]:
    """The state that status and stream tell, which has to be one and the same."""
    state = (await browser.status()).json
    frame = json.loads((await opened(browser)).first.partition(b"data: ")[2])
    signed = {"token", "now", "location"}
    assert _without(frame, signed) == _without(state, signed)
    assert ("location" in frame) == ("location" in state)
    return state


def _without(state: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name not in names}


@pytest.mark.req("VIS-182", "VIS-183", "VIS-190")
async def test_it_tells_a_place_in_line_and_no_estimate_while_paused(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=60, max_concurrent=None)
    await browser.twin(peer="198.51.100.8").join()  # the first is let in at once
    for n in range(9, 12):
        await browser.twin(peer=f"198.51.100.{n}").join()
    joined = (await browser.join()).json
    assert joined.keys() == PLACE | {"created", "reason", "token"}

    state = await shown(browser)

    assert state.keys() == PLACE
    assert state.items() >= {
        "state": "waiting", "roomId": "shop", "name": "shop", "roomState": "active", "ticket": 5, "position": 4,
        "ahead": 3, "estWaitIsFloor": False, "pollMs": 5000, "ref": ref_of("shop", 1, 5),
        "joinedAt": joined["joinedAt"],
    }.items()  # fmt: skip
    assert type(state["estWaitSec"]) is int
    assert state["joinedAt"] <= state["now"]
    await site.update(state=RoomState.PAUSED)
    paused = await shown(browser)
    assert paused.keys() == PLACE
    assert paused.items() >= {"state": "paused", "roomState": "paused", "estWaitSec": None, "position": 4}.items()
    await site.update(state=RoomState.ACTIVE, rate_per_minute=0)
    still = await shown(browser)
    assert still.items() >= {"state": "waiting", "estWaitSec": None, "estWaitIsFloor": False}.items()


@pytest.mark.req("VIS-185", "VIS-186")
async def test_it_tells_a_pass_with_and_without_a_slot_and_who_stands_before_him(site: Site, browser: Browser) -> None:
    await site.create(max_concurrent=1, passed_ttl_sec=600)
    first = await browser.released()
    assert first.keys() == PASS
    assert first["holdsSlot"] is True
    assert first["passedAt"] < first["claimUntil"] < first["passExpiresAt"]
    assert first["waitedSec"] == (first["passedAt"] - first["joinedAt"]) // 1000
    await site.advance(125)  # the claim window is over, the slot goes on
    later = browser.twin(peer="198.51.100.2")
    await later.released()
    await site.advance(125)
    await browser.twin(peer="198.51.100.3").released()

    eldest, second = await shown(browser), await shown(later)

    for state, ticket, ahead in ((eldest, 1, 0), (second, 2, 1)):
        assert state.keys() == COMMON | {"ticket", "ref", "passedAt", "passExpiresAt", "doorAhead"}
        assert (state["state"], state["ticket"], state["doorAhead"]) == ("at_capacity", ticket, ahead)
        assert state["ref"] == ref_of("shop", 1, ticket)
    assert eldest["passExpiresAt"] == first["passExpiresAt"]


async def test_it_tells_a_pass_whose_slot_is_not_held_any_more(site: Site, browser: Browser) -> None:
    await site.create(max_concurrent=5, passed_ttl_sec=600)
    await browser.released()
    await site.advance(125)

    async def is_released() -> bool:
        await site.house.jobs.tick(RoomId("shop"))
        return (await browser.status()).json.get("claimUntil", 1) is None

    await until(is_released)
    state = await shown(browser)

    assert state.keys() == PASS
    assert (state["state"], state["holdsSlot"], state["claimUntil"]) == ("passed", False, None)


@pytest.mark.req("VIS-188")
async def test_it_sends_everybody_in_during_bypass_and_keeps_every_ticket(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()
    await site.update(state=RoomState.BYPASS)
    stranger = browser.twin(peer="203.0.113.4")

    for who in (browser, stranger):
        state = await shown(who)
        assert state.keys() == COMMON | {"location"}
        assert state.items() >= {
            "state": "bypass", "roomState": "bypass", "location": "https://shop.example/"
        }.items()  # fmt: skip
        joined = await who.join()
        assert joined.json.keys() == COMMON | {"location", "created"}
        assert joined.cookies == []
    await site.update(state=RoomState.ACTIVE)

    assert (await browser.status()).json.items() >= {"state": "waiting", "ticket": 1, "position": 1}.items()
    assert (await stranger.status()).json["reason"] == "new"


@pytest.mark.req("VIS-189")
async def test_it_tells_why_a_place_is_gone(site: Site, browser: Browser) -> None:
    await site.create()
    await browser.released()
    found: dict[str, dict[str, Any]] = {"new": await shown(browser.twin())}
    found["bad_token"] = (await browser.twin().status(token="x.y")).json
    await browser.check()
    del browser.jar["qm_dk_shop"]
    found["session_elsewhere"] = (await browser.twin().status(token=browser.jar["qm_shop"])).json
    late = browser.twin(peer="198.51.100.4")
    await late.released()
    await site.advance(601)
    await site.house.jobs.tick(RoomId("shop"))
    found["expired"] = await shown(late)
    await site.update(rate_per_minute=0)
    out, purged = browser.twin(peer="198.51.100.5"), browser.twin(peer="198.51.100.6")
    await site.house.admin.eject(RoomId("shop"), (await out.join()).json["ticket"], actor="test")
    found["ejected"] = await shown(out)
    await purged.join()
    await site.house.admin.purge(RoomId("shop"), actor="test")
    by_purge = await shown(purged)
    await site.delete()
    await site.recreate()
    found["stale_generation"] = (await out.status()).json

    for reason, state in found.items():
        assert state.keys() == COMMON | {"reason", "rejoin"}, reason
        assert state.items() >= {"state": "gone", "reason": reason, "rejoin": True}.items()
    assert by_purge.keys() == COMMON | {"reason", "rejoin", "by"}
    assert by_purge.items() >= {"reason": "ejected", "rejoin": False, "by": "purge"}.items()


@pytest.mark.req("VIS-148")
async def test_it_answers_every_join_with_state_and_token_and_says_what_became_of_an_earlier_ticket(
    site: Site, browser: Browser
) -> None:
    await site.create(rate_per_minute=0)

    first = await browser.join()
    again = await browser.join()
    by_token = await browser.twin().join(token=first.json["token"])
    await site.house.admin.eject(RoomId("shop"), 1, actor="test")
    after = await browser.join()

    def told(answer: Answer) -> tuple[Any, ...]:
        return answer.status, answer.json["created"], answer.json.get("reason"), answer.json["ticket"]

    assert told(first) == (200, True, "new", 1)
    assert told(again) == (200, False, None, 1)
    assert told(by_token) == (200, False, None, 1)
    assert told(after) == (200, True, "ejected", 2)
    for answer in (first, again, after):
        cookies = dict(cookie.partition(";")[0].split("=", 1) for cookie in answer.cookies)
        assert cookies["qm_shop"] == answer.json["token"]
        assert cookies.keys() == {"qm_shop", "qms_shop"}


@pytest.mark.req("VIS-156")
async def test_it_answers_a_join_with_the_door_key_with_the_session_and_where_it_is(
    site: Site, browser: Browser
) -> None:
    await site.create()
    await browser.released()
    door = (await browser.check()).json["doorKey"]
    token = browser.jar["qm_shop"]
    page = "https://shop.example/cart"

    elsewhere = browser.twin(headers={"cookie": f"qm_dk_shop={door}"})
    answer = await elsewhere.join(token=token, returnUrl=page)
    wrong = await browser.twin(headers={"cookie": f"qm_dk_shop={door[:-1]}!"}).join(token=token)

    assert answer.json.items() >= {"state": "active", "ticket": 1, "created": False}.items()
    assert answer.json["location"] == f"{page}?qm_token={answer.json['token']}"
    assert wrong.json["ticket"] != 1


@pytest.mark.req("VIS-146")
async def test_it_takes_the_token_of_the_body_and_else_that_of_the_cookie(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    other = browser.twin()
    mine, others = (await browser.join()).json["token"], (await other.join()).json["token"]
    both = browser.twin(headers={"cookie": f"qm_shop={mine}"})

    assert (await both.join()).json["ticket"] == 1
    assert (await both.join(token=others)).json["ticket"] == 2
    assert (await both.join(token=None)).json["ticket"] == 1
    assert (await both.join(token="")).json["ticket"] == 1
    missing = await both.send("POST", "/api/join", {"token": mine})
    assert (missing.status, missing.code) == (400, "missing_room")
    ignored = await both.join(**{"from": "forged", "returnUrl": "https://evil.example/"})
    assert (ignored.status, ignored.json["ticket"]) == (200, 1)


@pytest.mark.req("VIS-157", "VIS-162")
async def test_it_answers_status_by_token_else_by_cookie_and_never_sooner_by_asking_more(
    site: Site, browser: Browser
) -> None:
    await site.create(rate_per_minute=0)
    token = (await browser.join()).json["token"]
    bare = browser.twin()

    by_token = [await bare.send("GET", f"/api/status?{q}token={token}") for q in ("", "room=shop&", "roomId=shop&")]
    by_cookie = [await browser.send("GET", f"/api/status?{q}") for q in ("", "room=shop", "token=&room=shop")]
    nobody = await bare.send("GET", "/api/status")
    unread = await bare.send("GET", "/api/status?token=x.y")

    assert {answer.json["ticket"] for answer in by_token + by_cookie} == {1}
    assert [(a.status, a.code) for a in (nobody, unread)] == [(400, "missing_room")] * 2
    behind = browser.twin(peer="198.51.100.30")
    await behind.join()
    for _ in range(50):
        await browser.status()
    assert {(await browser.status()).json["pollMs"], (await behind.status()).json["pollMs"]} == {5000}
    assert (await behind.status()).json["position"] == 2
