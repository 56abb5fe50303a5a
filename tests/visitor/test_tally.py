"""What web workers count, summed over the fleet: rule hits, checks without address, refused addresses and origins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.room import RoomState, UrlRule
from app.infrastructure.engine_counts import EngineCounts
from app.infrastructure.engine_results import RoomFigures
from app.infrastructure.keys import RoomKeys, origins_key
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.valkey import Valkey
from app.services.room_details import Details, RoomDetails
from app.services.room_object import RoomView, room_object
from app.services.tally import Tally
from app.services.visitor_counts import MAX_ORIGIN_PAIRS, VisitorCounts
from tests.journal.house import House
from tests.visitor.site import Browser, Site

SHOP = RoomId("shop")
PAY = "https://shop.example/pay"
PROTECT, SKIP = UrlRule("r1", "protect", "/pay*"), UrlRule("r2", "skip", "/free")


def tally_of(site: Site, *, every_sec: float = 1.0) -> Tally:
    """What a worker of that site's process hands its counts over with."""
    counts = EngineCounts(site.house.prefix, LuaLoader(site.house.valkey))
    return Tally(counts=site.visitor.counts, engine=counts, every_sec=every_sec)


async def shown(house: House, room: RoomId = SHOP) -> dict[str, Any]:
    """The room's object as any instance would answer it."""
    reader = RoomDetails(house.admin)
    figures: RoomFigures = (await reader.figures([room], fresh=True))[room]
    details: Details | None = reader.of(room)
    return room_object(RoomView(await house.read(room), figures, details=details))


@pytest.fixture
async def other(house: House, limiter: RateLimiter) -> AsyncIterator[Site]:
    """A second process on the same stores."""
    made = Site(house, limiter)
    yield made
    await made.visitor.streams.stop()


@pytest.mark.req("ENG-203")
async def test_it_counts_the_checks_each_rule_decided_over_all_processes(site: Site, other: Site) -> None:
    await site.create(rules=(PROTECT, SKIP, UrlRule("r3", "skip", "/never")))
    before = (await shown(site.house))["rules"]

    for where, url in ((site, PAY), (site, PAY + "/x"), (other, PAY), (other, "https://shop.example/free")):
        await Browser(where).check(url=url)
    await Browser(site).check(url="https://shop.example/other")
    await Browser(site).send("HEAD", "/api/check?room=shop&url=https%3A%2F%2Fshop.example%2Fpay")
    for where in (site, other):
        await tally_of(where).hand_over()

    now = (await site.house.admin.figures([SHOP]))[SHOP].now
    assert [(rule["hits"], rule["lastMatchedAt"]) for rule in before] == [(0, None)] * 3
    first, second, third = (await shown(site.house))["rules"]
    assert (first["hits"], second["hits"]) == (3, 1)
    assert (third["hits"], third["lastMatchedAt"]) == (0, None)
    assert 0 <= now - second["lastMatchedAt"] <= now - first["lastMatchedAt"] + 60_000 < 120_000


@pytest.mark.req("ENG-203", "ENG-196")
async def test_it_counts_anew_when_pattern_or_action_of_a_rule_change_and_only_then(site: Site, other: Site) -> None:
    await site.create(rules=(PROTECT, SKIP))
    late, tally = tally_of(other), tally_of(site)
    for where in (site, other):
        for url in (PAY, "https://shop.example/free"):
            await Browser(where).check(url=url)
    await tally.hand_over()

    await site.update(rules=(UrlRule("r1", "protect", "/pay", "with a note"), UrlRule("r2", "skip", "/free", "note")))
    await late.hand_over()
    changed = (await shown(site.house))["rules"]
    assert (await Browser(site).check(url=PAY + "/x")).json["reason"] == "not_targeted", "it holds at the next check"
    await site.update(rules=(PROTECT, SKIP))
    await tally.hand_over()

    assert [rule["hits"] for rule in changed] == [0, 2]
    assert [(rule["hits"], rule["lastMatchedAt"] is None) for rule in (await shown(site.house))["rules"]] == [
        (0, True),
        (2, False),
    ]


async def test_it_counts_a_check_once_that_met_an_old_copy(site: Site, browser: Browser) -> None:
    await site.create(rules=(PROTECT,))
    await site.update(name="Shop of today")

    await browser.check(url=PAY)
    await browser.check()
    await tally_of(site).hand_over()

    room = await shown(site.house)
    assert (room["rules"][0]["hits"], room["checksWithoutUrl"]) == (1, 1)


@pytest.mark.req("ENG-202", "ENG-210")
async def test_it_sums_checks_without_address_and_blocked_addresses_per_room(site: Site, other: Site) -> None:
    await site.create()
    await site.create("other")
    tallies = [tally_of(site), tally_of(other)]

    for where in (site, other):
        await Browser(where).check(url="/relative")
        await Browser(where).check()
        await Browser(where).join(returnUrl="https://evil.example/")
    await Browser(site).check("other")
    for tally in tallies * 2:
        await tally.hand_over()

    room = await shown(site.house)
    assert (room["checksWithoutUrl"], room["blockedReturnUrls"]) == (4, 2)
    assert (await shown(site.house, RoomId("other")))["checksWithoutUrl"] == 1


@pytest.mark.req("ENG-211")
async def test_it_sums_refused_origins_and_keeps_500_pairs(site: Site, other: Site) -> None:
    await site.create()
    await site.create("second")
    await Browser(site).tag_check(origin="https://old.example")
    for _ in range(2):
        await Browser(other).tag_check(origin="https://old.example")
    for number in range(MAX_ORIGIN_PAIRS - 1):
        site.visitor.counts.refused_origin("second", f"https://{number}.example")
        other.visitor.counts.refused_origin("second", f"https://{number + 10}.example")
    for where in (site, other):
        await tally_of(where).hand_over()

    first, second = await shown(site.house), await shown(site.house, RoomId("second"))
    assert first["refusedOriginChecks"] == [{"origin": "https://old.example", "count": 3}]
    kept = {pair["origin"]: pair["count"] for pair in second["refusedOriginChecks"]}
    assert len(kept) == MAX_ORIGIN_PAIRS, "499 of them and those under other"
    assert (kept["https://10.example"], kept["other"]) == (2, 10)

    await site.delete("second")
    fields = await site.house.valkey.execute("HKEYS", origins_key(site.house.prefix))
    assert fields == [b"shop https://old.example"]


async def test_it_keeps_counts_while_the_store_is_away_or_the_room_is_rebuilt(site: Site, browser: Browser) -> None:
    await site.create(rules=(PROTECT,))
    await browser.check(url=PAY)
    await browser.check()
    away = Valkey("unix:///nowhere/valkey.sock", timeout_ms=200)
    tally = Tally(counts=site.visitor.counts, engine=EngineCounts(site.house.prefix, LuaLoader(away)))
    with pytest.raises(StorageUnavailable):
        await tally.hand_over()
    await away.close()
    tally = tally_of(site)
    await site.house.drain("shop")
    assert await site.house.jobs.fence(SHOP, 1, 1)
    await tally.hand_over()
    assert await site.house.recovery.ensure(SHOP)
    await tally.hand_over()

    room = await shown(site.house)
    assert room["rules"][0]["hits"] == 1
    assert room["checksWithoutUrl"] == 1


async def test_it_counts_for_no_later_generation_and_drops_what_a_room_took_along(site: Site, browser: Browser) -> None:
    await site.create(rules=(PROTECT,))
    tally = tally_of(site)
    await browser.check(url=PAY)
    await tally.hand_over()
    key = RoomKeys(site.house.prefix, "shop").counts(1)
    assert await site.house.valkey.execute("EXISTS", key) == 1
    await browser.check(url=PAY)

    await site.delete()
    await tally.hand_over()
    await site.recreate(rules=(PROTECT,))
    await tally.hand_over()

    assert (await shown(site.house))["rules"][0]["hits"] == 0
    assert await site.house.valkey.execute("EXISTS", key) == 0


async def test_it_hands_over_by_itself_and_at_its_end(site: Site, browser: Browser) -> None:
    await site.create()
    tally = tally_of(site, every_sec=3600)
    await tally.start()
    await browser.check()

    await tally.stop()

    assert (await shown(site.house))["checksWithoutUrl"] == 1


def test_it_sums_hits_that_come_back_with_those_made_meanwhile() -> None:
    counts = VisitorCounts()
    taken: Any = {"key": (3, 100)}
    counts.rules = {"key": (1, 200)}  # type: ignore[dict-item]

    counts.take_back(taken | {"more": (1, 50)})

    assert counts.rules == {"key": (4, 200), "more": (1, 50)}


@pytest.mark.req("ENG-206", "ENG-207", "ENG-212")
async def test_it_lets_the_tag_ask_where_nobody_is_sent_and_the_other_way_round(site: Site) -> None:
    shop, brand = "https://www.shop.example", "https://landing.brand.example"
    policies: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]] = {
        "checkout": ((shop,), (shop, brand)),
        "wide-return": ((shop, brand), (shop,)),
        "as-return": ((brand,), None),
        "bare": ((), ()),
    }
    asks, sends = {}, {}

    for room, (returns, tags) in policies.items():
        await site.create(room, return_origins=returns, tag_origins=tags, state=RoomState.BYPASS)
        for origin in (shop, brand, "https://shop.example"):
            asks[room, origin] = (await Browser(site).tag_check(room, origin=origin)).status == 200
            state = (await Browser(site).join(room, returnUrl=origin + "/x")).json
            sends[room, origin] = state["location"].startswith(origin + "/x")

    assert all(asks[room, "https://shop.example"] and sends[room, "https://shop.example"] for room in policies)
    assert {room: (asks[room, brand], sends[room, brand]) for room in policies} == {
        "checkout": (True, False), "wide-return": (False, True), "as-return": (True, True), "bare": (False, False),
    }  # fmt: skip
    assert {room: (asks[room, shop], sends[room, shop]) for room in policies} == {
        "checkout": (True, True), "wide-return": (True, True), "as-return": (False, False), "bare": (False, False),
    }  # fmt: skip
