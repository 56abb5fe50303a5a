"""Both ways to answer a hot route: the same answers, one count of the budget, and a change of the room is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.services.visitor_counts import Counted
from blueprints.edge.hot import Answering, Ways
from blueprints.edge.request import HotRequest
from tests.visitor.site import Browser, Site

PAGE = "https://shop.example/basket"
ROUTES = {"check": ("POST", b"/api/check"), "status": ("GET", b"/api/status"), "join": ("POST", b"/api/join")}


@pytest.fixture
def begun(site: Site) -> dict[str, list[bool]]:
    """By route, whether each of its requests could begin without a coroutine."""
    return watch(site)


def watch(site: Site) -> dict[str, list[bool]]:
    found: dict[str, list[bool]] = {name: [] for name in ROUTES}
    for name, key in ROUTES.items():
        handler = site.table.routes[key]
        ways = site.table._ways[handler]
        site.table._ways[handler] = Ways(handler, noting(ways, found[name]), ways.recurs)
    return found


def noting(ways: Ways, found: list[bool]) -> Callable[[HotRequest, Answering], bool]:
    def begin(request: HotRequest, answering: Answering) -> bool:
        is_begun = ways.begin(request, answering)
        found.append(is_begun)
        return is_begun

    return begin


def timeless(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name not in ("now", "sessionExpiresAt", "token", "ticket")}


async def check(browser: Browser, url: str = PAGE) -> Any:
    return await browser.send("POST", "/api/check?room=shop", {"url": url}, headers={"origin": "https://shop.example"})


async def test_a_poll_that_comes_again_gets_the_same_answer(
    site: Site, browser: Browser, begun: dict[str, list[bool]]
) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()

    first, second, third = [await browser.status() for _ in range(3)]

    assert begun["status"] == [False, True, True]
    assert timeless(first.json) == timeless(second.json) == timeless(third.json)
    assert first.json["position"] == 1


async def test_a_check_that_comes_again_gets_the_same_answer(
    site: Site, browser: Browser, begun: dict[str, list[bool]]
) -> None:
    await site.create()
    await browser.released()
    admitted = await check(browser)

    first, second, third = [await check(browser) for _ in range(3)]

    assert admitted.json["reason"] == "admitted"
    assert begun["check"][-3:] == [False, True, True]
    assert timeless(first.json) == timeless(second.json) == timeless(third.json)
    assert first.json["reason"] == "session"
    assert first.headers == second.headers
    assert second.headers["access-control-allow-origin"] == "https://shop.example"


async def test_a_newcomer_is_answered_without_a_coroutine(site: Site, begun: dict[str, list[bool]]) -> None:
    await site.create(rate_per_minute=0)

    answers = [await Browser(site, peer=f"198.51.100.{n}").join() for n in range(1, 4)]

    assert begun["join"] == [True] * 3
    assert [answer.json["position"] for answer in answers] == [1, 2, 3]
    assert all(answer.json["created"] is True for answer in answers)


async def test_it_counts_a_request_once_whichever_way_it_goes(site: Site, browser: Browser) -> None:
    limits = {"check_limit_per_min": 4, "status_limit_per_min": 4, "join_limit_per_min": 4}
    limited = Site(site.house, site.context.limiter, **limits)
    begun = watch(limited)
    await limited.create(rate_per_minute=0)
    visitor = Browser(limited)

    joins = [await visitor.join() for _ in range(5)]
    polls = [await visitor.status() for _ in range(5)]
    checks = [await check(visitor) for _ in range(5)]

    for answers in (joins, polls, checks):
        assert [answer.status for answer in answers] == [200, 200, 200, 200, 429]
        left = [answer.request.budget.remaining for answer in answers if answer.request.budget]
        assert left == [3, 2, 1, 0, 0]
    assert begun["status"] == [False, True, True, True, False]
    assert begun["check"] == [False, True, True, True, False]
    refused = checks[-1].headers
    assert refused["access-control-allow-origin"] == "https://shop.example", "a page may read its refusal"
    await limited.stop()


async def test_a_check_of_a_room_that_was_changed_is_handed_back(
    site: Site, browser: Browser, begun: dict[str, list[bool]]
) -> None:
    await site.create()
    await browser.released()
    for _ in range(3):
        await check(browser)

    await site.update(session_ttl_sec=60)
    checked = await check(browser)

    assert begun["check"][-1] is True
    assert (checked.status, checked.json["recheckSec"]) == (200, 30)


async def test_a_poll_of_a_room_that_was_changed_is_handed_back(
    site: Site, browser: Browser, begun: dict[str, list[bool]]
) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()
    for _ in range(2):
        await browser.status()

    await site.update(name="New")
    polled = await browser.status()

    assert begun["status"][-1] is True
    assert (polled.status, polled.json["name"]) == (200, "New")


async def test_a_join_of_a_room_that_was_changed_is_handed_back(site: Site, begun: dict[str, list[bool]]) -> None:
    await site.create(rate_per_minute=0)
    await site.update(name="New")

    joined = await Browser(site).join()

    assert begun["join"] == [True]
    assert (joined.status, joined.json["name"], joined.json["position"]) == (200, "New", 1)


async def test_what_the_tag_policy_no_longer_covers_is_refused_at_once(site: Site, browser: Browser) -> None:
    await site.create(tag_origins=("https://shop.example", "https://blog.example"))
    origin = {"origin": "https://blog.example"}
    sent = [await browser.send("POST", "/api/check?room=shop", {"url": PAGE}, headers=origin) for _ in range(3)]
    assert [answer.status for answer in sent] == [200, 200, 200]

    await site.update(tag_origins=("https://shop.example",))
    await site.rooms.refresh(RoomId("shop"))
    refused = await browser.send("POST", "/api/check?room=shop", {"url": PAGE}, headers=origin)

    assert (refused.status, refused.code) == (403, "origin_not_allowed")


async def test_a_token_that_grew_old_is_signed_anew_by_the_long_way(
    site: Site, browser: Browser, begun: dict[str, list[bool]]
) -> None:
    await site.create()
    await browser.released()
    await check(browser)
    for _ in range(3):
        assert "token" not in (await check(browser)).json
    assert begun["check"][-1] is True
    young = dict(browser.jar)

    site.visitor.status._tokens.refresh_after_ms = 1
    site._repeats.clear()  # who was read when his token was young is asked for with it
    site._readings.clear()
    for _ in range(3):
        browser.jar = dict(young)
        renewed = await check(browser)
        assert renewed.json["token"] != young["qm_shop"]
        assert any(cookie.startswith("qm_shop=") for cookie in renewed.cookies)
    assert begun["check"][-3:] == [False, False, False]


async def test_a_token_is_counted_once_whichever_way_the_join_goes(site: Site, begun: dict[str, list[bool]]) -> None:
    await site.create(rate_per_minute=0)
    counts = site.visitor.counts
    one, several = Browser(site, peer="198.51.100.1"), Browser(site, peer="198.51.100.2")

    await one.send("POST", "/api/join", {"roomId": "shop"}, headers={"cookie": "qm_shop=forged.x"})
    await several.send("POST", "/api/join", {"roomId": "shop"}, headers={"cookie": "qm_shop=a.b; qm_shop=c.d"})

    assert begun["join"] == [True, False]
    assert counts.totals[Counted.REJECTED_TOKENS] == 3


@pytest.mark.req("VIS-047", "VIS-061")
async def test_a_refusal_of_many_names_nobody_the_page_of_another(
    site: Site, browser: Browser, begun: dict[str, list[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.create()
    await browser.released()
    for _ in range(4):
        await check(browser)
    shared = StorageUnavailable()

    async def fails(*_: object) -> None:
        raise shared

    monkeypatch.setattr(site.visitor.check._engine, "_call", fails)
    by_the_short_way = await check(browser)
    by_the_long_way = await check(browser, PAGE + "/else")
    without_page = await Browser(site, peer="198.51.100.9").send("POST", "/api/check?room=shop", {"url": PAGE})

    assert begun["check"][-3:] == [True, False, False]
    for answer in (by_the_short_way, by_the_long_way):
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (503, "https://shop.example")
    assert without_page.status == 503
    assert "access-control-allow-origin" not in without_page.headers


@pytest.mark.parametrize("body", [{"url": 5}, {"other": "x"}, b"{"])
async def test_a_page_may_read_what_was_wrong_with_its_check(site: Site, browser: Browser, body: Any) -> None:
    await site.create()

    refused = await browser.send("POST", "/api/check?room=shop", body, headers={"origin": "https://shop.example"})

    assert refused.status == 400
    assert refused.headers["access-control-allow-origin"] == "https://shop.example"
