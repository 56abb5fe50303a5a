"""A visitor who comes to another instance each time, and what waits for whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.room import RoomState, UrlRule
from app.infrastructure.rate_limiter import RateLimiter
from tests.journal.house import House, until
from tests.visitor.site import Browser, Site
from tests.visitor.test_check import PAGE, admitted
from tests.visitor.test_streams import opened


@pytest.fixture
async def other(house: House, limiter: RateLimiter) -> AsyncIterator[Site]:
    """A second instance on the stores of ``site``."""
    made = Site(house, limiter)
    yield made
    await made.stop()


@pytest.mark.req("ENG-002", "FLT-010", "FLT-015")
async def test_any_instance_answers_as_a_single_one_would(site: Site, other: Site, browser: Browser) -> None:
    """Each step at the instance that did not do the one before; both show the same afterwards."""
    await site.create(rate_per_minute=600, max_concurrent=10)
    both = (site, other)

    async def seen(room: str = "shop") -> dict[str, Any]:
        shown = []
        for one in both:
            browser.site = one
            answer = (await browser.status(room)).json
            shown.append({name: value for name, value in answer.items() if name not in ("token", "now", "location")})
        assert shown[0] == shown[1]
        return shown[0]

    await browser.join()
    first = await seen()
    browser.site = other
    again = (await browser.join()).json
    browser.site = site
    await site.house.jobs.tick(RoomId("shop"))
    entered = (await browser.check()).json
    browser.site = other
    session = (await browser.check()).json

    assert (again["created"], again["ticket"]) == (False, first["ticket"])
    assert (entered["reason"], session["reason"]) == ("admitted", "session")
    assert (await seen())["state"] == "active"


@pytest.mark.req("ENG-002")
async def test_a_change_holds_for_the_next_request_at_an_instance_that_was_told_nothing(
    site: Site, other: Site, browser: Browser
) -> None:
    await site.create(rate_per_minute=0, queue_max_per_ip=1)
    await other.rooms.refresh(RoomId("shop"))
    browser.site = other
    assert (await browser.join()).json["roomState"] == "active"
    stranger = browser.twin(agent="another")

    await site.update(state=RoomState.PAUSED)
    assert (await browser.status()).json["roomState"] == "paused"
    assert (await stranger.join()).code == "queue_identity_limit"
    await site.update(queue_max_per_ip=2)
    assert (await stranger.join()).json["position"] == 2
    await site.update(rules=(UrlRule("r1", "skip", "/free"),))
    assert (await stranger.check(url="https://shop.example/free")).json["reason"] == "not_targeted"
    await site.house.admin.eject(RoomId("shop"), 1, actor="op")
    assert (await browser.check()).json["reason"] == "ejected"
    await site.delete()
    assert (await browser.check()).code == "no_room"


@pytest.mark.req("ENG-008")
@pytest.mark.req("FLT-110")
async def test_status_and_stream_wait_for_no_admission(idle_house: House, limiter: RateLimiter) -> None:
    """Nothing is committed here but what the test says: rooms wait for their own admissions alone."""
    site = Site(idle_house, limiter)
    browsers = {}
    for room in ("shop", "drop"):
        await site.create(room)
        browsers[room] = Browser(site, peer="198.51.100.7" if room == "shop" else "198.51.100.8")
        coming = asyncio.ensure_future(browsers[room].released(room))
        while not coming.done():
            await idle_house.drain(room)
            await idle_house.commits._ask_now()
            await asyncio.sleep(0)
    entering = {room: asyncio.ensure_future(browser.check(room)) for room, browser in browsers.items()}
    while len(idle_house.commits._deadlines) < 2:
        await asyncio.sleep(0.01)

    state = await asyncio.wait_for(browsers["shop"].status(), 3)
    opening = await asyncio.wait_for(opened(browsers["shop"]), 3)
    assert not any(task.done() for task in entering.values())
    await idle_house.drain("drop")
    await idle_house.commits._ask_now()

    async def is_in() -> bool:
        return entering["drop"].done()

    await until(is_in)
    assert not entering["shop"].done()
    await idle_house.drain("shop")
    await idle_house.commits._ask_now()
    assert {(await task).json["reason"] for task in entering.values()} == {"admitted"}
    assert state.json["state"] == "active"
    assert b'"state":"active"' in opening.first
    await site.stop()


@pytest.mark.req("ENG-021")
async def test_every_question_about_a_deleted_room_is_answered_no_room(site: Site, browser: Browser) -> None:
    await site.create()
    held = await admitted(browser)
    await site.delete()

    answers = [
        await browser.join(),
        await browser.status(),
        await browser.check(),
        await browser.check(preview="1"),
        await browser.tag_check(url=PAGE, **held),
        await browser.send("POST", "/api/leave", {"roomId": "shop"}),
    ]

    assert {(answer.status, answer.code) for answer in answers} == {(404, "no_room")}


@pytest.mark.req("ENG-042")
@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ({"tag_origins": None, "return_origins": ("https://*.brand.example",)}, {"shop", "brand"}),
        ({"tag_origins": None}, {"shop"}),
        ({"tag_origins": (), "return_origins": ("https://*.brand.example",)}, {"shop"}),
        ({"tag_origins": ("https://app.other.example",), "return_origins": ("https://*.brand.example",)},
         {"shop", "other"}),
    ],
)  # fmt: skip
async def test_the_tag_may_ask_where_tag_origins_say(
    site: Site, browser: Browser, fields: dict[str, Any], allowed: set[str]
) -> None:
    origins = {
        "shop": "https://shop.example",
        "brand": "https://app.brand.example",
        "other": "https://app.other.example",
    }
    await site.create(**fields)

    answers = {name: (await browser.tag_check(origin=origin, url=PAGE)).status for name, origin in origins.items()}

    assert {name for name, status in answers.items() if status == 200} == allowed
    assert {status for name, status in answers.items() if name not in allowed} <= {403}


@pytest.mark.req("ENG-043")
async def test_a_room_without_rules_covers_every_page_that_asks(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)

    for url in (None, "https://shop.example/", "https://shop.example/any/page?x=1", "https://other.example/"):
        answer = await browser.check(**({} if url is None else {"url": url}))
        assert (answer.json["action"], answer.json["reason"]) == ("queue", "new")
