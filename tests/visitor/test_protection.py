"""Bot protection: who is scored, what a score leads to, and what is counted."""

from __future__ import annotations

import ipaddress
import itertools
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.client_address import TrustPolicy
from app.domain.facts import FactType
from app.domain.protection_mode import Protection, ProtectionMode
from app.domain.room import RoomState, UrlRule
from app.infrastructure.counter_board import CounterBoard
from app.infrastructure.engine_counts import EngineCounts
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.rate_limiter import RateLimiter
from app.services.fleet_counts import FleetCounts
from app.services.room_details import RoomDetails
from app.services.room_object import RoomView, room_object
from app.services.tally import Tally
from app.services.visitor_counts import VisitorCounts
from tests.journal.house import House
from tests.unit.test_bot_signals import CHROME, HINTS
from tests.visitor.site import AGENT, Browser, Site

SHOP = RoomId("shop")
ENFORCE, MONITOR, OFF = (Protection(ProtectionMode(word)) for word in ("enforce", "monitor", "off"))
BOT = "python-requests/2.31.0"
WHOLE = {
    "accept": "*/*", "accept-language": "en", "accept-encoding": "gzip", "sec-fetch-site": "same-origin",
    "sec-fetch-mode": "cors", "sec-fetch-dest": "empty", "sec-ch-ua": HINTS,
}  # fmt: skip


class Clock:
    """The limiter's clock, in seconds."""

    def __init__(self) -> None:
        self.now = 5000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limiter(clock: Clock) -> Iterator[RateLimiter]:
    table = RateLimiter.create("qm-protection-tests", workers=1, max_keys=4096)
    yield RateLimiter.attach(table.name, 0, now=clock)
    table.close()


def bot(site: Site, peer: str = "203.0.113.66", agent: str = BOT) -> Browser:
    return Browser(site, peer=peer, agent=agent)


def person(site: Site, peer: str = "198.51.100.7") -> Browser:
    """A browser with every header of one."""
    return Browser(site, peer=peer, agent=CHROME, headers=dict(WHOLE), scheme="https")


def totals(site: Site) -> dict[str, int]:
    return dict(site.visitor.counts.protected)


def last(site: Site) -> Any:
    return site.visitor.counts.decisions[-1].assessed


@pytest.mark.req("VIS-192", "VIS-194", "VIS-193")
async def test_it_only_counts_by_default(site: Site) -> None:
    await site.create()

    answer = await bot(site).join()

    assert answer.status == 200
    assert answer.json["created"] is True
    assert totals(site) == {"scored": 1, "wouldBlock": 1, "warned": 1}
    assert (last(site).outcome, last(site).score > 70) == ("wouldBlock", True)


@pytest.mark.req("VIS-192", "VIS-151", "VIS-195", "VIS-122")
async def test_it_refuses_a_place_and_nothing_but_the_place(site: Site) -> None:
    rules = (UrlRule("r1", "protect", "/checkout*"),)
    await site.create(protection=ENFORCE, rules=rules)
    refused = bot(site)

    answer = await refused.join()

    assert (answer.status, answer.code) == (403, "blocked_by_protection")
    assert answer.headers["x-qm-protection"] == f"block score={last(site).score}"
    assert (answer.cookies, answer.json.keys()) == ([], {"error", "code"})
    assert await site.house.journaled("shop", FactType.JOINED) == []
    assert totals(site) == {"scored": 1, "blocked": 1, "warned": 1}
    assert (await refused.check(url="https://shop.example/checkout")).json["reason"] == "new"
    assert (await refused.check(url="https://shop.example/about")).json["reason"] == "not_targeted"
    await site.update(state=RoomState.BYPASS)
    assert (await refused.check()).json["reason"] == "bypass"
    assert (await refused.join()).json["state"] == "bypass"
    assert totals(site) == {"scored": 1, "blocked": 1, "warned": 1}, "who needs no place is not scored"


@pytest.mark.req("VIS-191", "VIS-147", "VIS-195")
async def test_it_leaves_holders_of_a_place_alone(site: Site) -> None:
    await site.create(protection=MONITOR)
    holder = bot(site)
    await holder.released()
    scored = totals(site)
    await site.update(protection=ENFORCE)

    again = await holder.join()
    entered = await holder.check()
    inside = await holder.check()
    back = await holder.join()

    assert (again.json["created"], again.json["state"]) == (False, "passed")
    assert (entered.json["reason"], inside.json["reason"]) == ("admitted", "session")
    assert back.json["state"] == "active"
    assert totals(site) == scored
    assert (await bot(site, "203.0.113.67").join()).status == 403


@pytest.mark.req("VIS-147")
async def test_it_decides_before_the_cap_of_the_address_and_in_the_pre_queue(site: Site) -> None:
    await site.create(protection=ENFORCE, queue_max_per_ip=1, rate_per_minute=0)
    await Browser(site, peer="203.0.113.66").join()

    assert (await bot(site).join()).code == "blocked_by_protection"
    assert (await Browser(site, peer="203.0.113.66").join()).code == "queue_identity_limit"


@pytest.mark.req("VIS-192")
async def test_the_mode_of_a_room_goes_before_the_servers(house: House, limiter: RateLimiter) -> None:
    for number, (server, room, status, scored) in enumerate(
        (
            ("enforce", None, 403, 1), ("enforce", MONITOR, 200, 1), ("enforce", OFF, 200, 0),
            ("monitor", None, 200, 1), ("monitor", ENFORCE, 403, 1), ("off", None, 200, 0), ("off", ENFORCE, 403, 1),
        )
    ):  # fmt: skip
        site = Site(house, limiter, protection_mode=server)
        await site.create(f"r{number}", protection=room)

        assert (await bot(site).join(f"r{number}")).status == status
        assert totals(site).get("scored", 0) == scored
        assert len(site.visitor.counts.decisions) == scored


@pytest.mark.req("ENG-046")
async def test_a_changed_mode_holds_for_the_next_join(site: Site) -> None:
    await site.create()
    assert (await bot(site).join()).status == 200
    await site.update(protection=ENFORCE)
    assert (await bot(site, "203.0.113.67").join()).status == 403
    await site.update(protection=None)
    assert (await bot(site, "203.0.113.68").join()).status == 200
    room = await site.house.read("shop")
    assert room.config.protection is None


@pytest.mark.req("VIS-193", "CFG-077")
async def test_the_threshold_itself_passes(house: House, limiter: RateLimiter) -> None:
    nameless = {"agent": "", "headers": {"accept": "*/*", "accept-language": "en", "accept-encoding": "gzip"}}

    for block_at, status in ((40, 200), (39, 200)):  # an empty agent scores 40, bounded to stay below the threshold
        site = Site(house, limiter, protection_mode="enforce", protection_warn_at=10, protection_block_at=block_at)
        await site.create(f"r{block_at}", rate_per_minute=0)
        answer = await Browser(site, **nameless).join(f"r{block_at}")  # type: ignore[arg-type]
        assert answer.status == status
        assert last(site).outcome == "warned"
    site = Site(house, limiter, protection_mode="enforce", protection_block_at=100)
    await site.create("open", rate_per_minute=0)
    assert (await bot(site).join("open")).status == 200, "100 refuses nobody"


@pytest.mark.req("VIS-204", "CFG-078")
async def test_it_never_scores_a_listed_address_and_believes_no_forged_one(house: House, limiter: RateLimiter) -> None:
    listed = (ipaddress.ip_network("203.0.113.0/24"), ipaddress.ip_network("2001:db8::/32"))
    site = Site(house, limiter, protection_mode="enforce", protection_allow_ips=listed)
    await site.create(rate_per_minute=0)
    forged = Browser(site, peer="198.51.100.9", agent=BOT, headers={"x-forwarded-for": "203.0.113.5"})

    for peer in ("203.0.113.5", "2001:db8::5", "::ffff:203.0.113.9"):
        assert (await bot(site, peer).join()).status == 200
    assert totals(site) == {"allowListed": 3}
    assert (await forged.join()).status == 403
    site.policy = TrustPolicy.of(1, [ipaddress.ip_network("198.51.100.9/32")])
    assert (await forged.join()).status == 200, "from a declared proxy it is the visitor's address"


@pytest.mark.req("VIS-203")
async def test_it_reports_crawlers_and_lets_them_be(site: Site) -> None:
    await site.create(protection=ENFORCE, rate_per_minute=0)

    crawler = await bot(site, agent="Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)").join()
    liar = await bot(site, agent="python-requests/2.31 googlebot").join()

    assert (crawler.status, liar.status) == (200, 403)
    assert totals(site) == {"crawlers": 1, "scored": 1, "blocked": 1, "warned": 1}


@pytest.mark.req("VIS-202", "VIS-201")
async def test_only_a_token_of_this_server_and_room_is_a_cookie(site: Site) -> None:
    await site.create(rate_per_minute=0)
    await site.create("other", rate_per_minute=0)
    browser = Browser(site)
    await browser.join()
    await site.house.admin.eject(SHOP, 1, actor="test")  # type: ignore[arg-type]
    token = browser.jar["qm_shop"]

    def has_cookie() -> bool:
        return "queue_cookie" in last(site).signals

    assert (await browser.join()).json["reason"] == "ejected"
    assert has_cookie()
    for number, value in enumerate((token[:-1], token + "x", "planted", "")):
        await Browser(site, peer=f"203.0.113.{number}", jar={"qm_shop": value}).join()
        assert not has_cookie()
    await Browser(site, peer="203.0.113.20").join("other", token=token)
    assert not has_cookie()


def signals(site: Site) -> set[str]:
    return {str(one) for one in last(site).signals}


@pytest.mark.req("VIS-198")
async def test_it_notices_what_one_address_does_again_and_again(site: Site, clock: Clock) -> None:
    await site.create(rate_per_minute=0, queue_max_per_ip=None)
    uneven = itertools.cycle((7.0, 31.0, 12.0))

    async def join(peer: str = "203.0.113.1", agent: str = AGENT, after: float | None = None) -> set[str]:
        clock.now += next(uneven) if after is None else after
        await Browser(site, peer=peer, agent=agent).join()
        return signals(site)

    assert [("cookieless_repeat" in await join()) for _ in range(6)] == [False] * 4 + [True] * 2
    assert "cookieless_repeat" not in await join(agent="Another/1.0"), "another client behind the same address"
    assert "cookieless_repeat" not in await join(after=601.0), "ten minutes later"
    beats = ["machine_cadence" in await join("203.0.113.2", f"UA/{n}", after=3.0) for n in range(9)]
    assert beats == [False] * 7 + [True] * 2
    burst = ["join_burst" in await join("203.0.113.3", f"UA/{n}", after=(0.1, 1.3)[n % 2]) for n in range(32)]
    assert burst == [False] * 30 + [True] * 2


@pytest.mark.req("VIS-198")
async def test_a_join_whose_copy_of_the_room_is_old_is_one_ask(site: Site, clock: Clock) -> None:
    await site.create(rate_per_minute=0, queue_max_per_ip=None)
    found = []

    for number, after in enumerate((7.0, 31.0, 12.0, 8.0, 29.0)):
        clock.now += after
        await site.update(presence_sec=100 + number)
        await Browser(site, peer="203.0.113.1").join()
        found.append("cookieless_repeat" in signals(site))

    assert found == [False] * 4 + [True], "each is asked again with the new copy, but it is one ask of its address"


@pytest.mark.req("VIS-198")
async def test_it_notices_one_address_all_over_the_line(site: Site, clock: Clock) -> None:
    await site.create(rate_per_minute=0, queue_max_per_ip=None)
    found = []

    for number in range(60):
        clock.now += 17 + number % 5
        own = number % 10 == 0
        await Browser(site, peer="203.0.113.4" if own else f"198.18.0.{number}", agent=f"UA/{number}").join()
        if own:
            found.append("address_spread" in signals(site))
    await Browser(site, peer="203.0.113.4", agent="UA/60").join()

    assert found == [False] * 5 + [True], "from a line of 50 on"
    assert "address_spread" in signals(site)


@pytest.mark.req("VIS-198", "VIS-023")
async def test_it_minds_forged_headers_until_the_peer_is_known_as_a_proxy(site: Site) -> None:
    await site.create(rate_per_minute=0, queue_max_per_ip=None)

    seen = []
    for number in range(12):
        proxied = Browser(site, agent=f"UA/{number}", headers={"x-real-ip": f"198.18.0.{number}"})
        await proxied.join()
        seen.append("forged_forwarded" in signals(site))

    assert seen == [True] * 9 + [False] * 3
    site.policy = TrustPolicy.of(1, [ipaddress.ip_network("192.0.2.1/32")])
    declared = Browser(site, peer="192.0.2.1", agent="UA/x", headers={"x-forwarded-for": "198.18.0.99"})
    await declared.join()
    assert "forged_forwarded" not in signals(site)


@pytest.mark.req("VIS-224", "VIS-199")
async def test_an_office_behind_one_address_is_never_refused(house: House, limiter: RateLimiter, clock: Clock) -> None:
    site = Site(house, limiter, protection_mode="enforce")
    await site.create(rate_per_minute=0, queue_max_per_ip=None)
    people = [person(site) for _ in range(40)]
    for one in people:
        one.headers["x-forwarded-for"] = "10.1.2.3"

    for one in people * 2:
        clock.now += 1.0
        assert (await one.join()).status == 200
    await site.house.admin.purge(SHOP, actor="test")
    for one in people:
        clock.now += 1.0
        assert (await one.join()).status == 200

    assert totals(site)["scored"] == 80
    assert "blocked" not in totals(site)
    assert max(decision.assessed.score for decision in site.visitor.counts.decisions) < 70
    fired = set(site.visitor.counts.signals)
    assert {"machine_cadence", "join_burst", "forged_forwarded", "queue_cookie", "consistent_browser"} <= fired


@pytest.mark.req("VIS-206")
async def test_it_tells_no_client_his_score(site: Site) -> None:
    await site.create(rate_per_minute=0)

    answer = await bot(site).join()

    assert last(site).score > 70
    assert "x-qm-protection" not in answer.headers
    assert not {"score", "signals", "protection"} & answer.json.keys()


@pytest.mark.req("VIS-207")
async def test_it_asks_no_store_and_its_memory_does_not_grow(house: House, limiter: RateLimiter) -> None:
    commands = []
    execute = house.valkey.execute

    async def counted(*command: Any) -> Any:
        commands.append(command[0])
        return await execute(*command)

    house.valkey.execute = counted  # type: ignore[method-assign]
    sizes = {}
    for mode in ("off", "enforce"):
        site = Site(house, limiter, protection_mode=mode)
        await site.create(mode, rate_per_minute=0)
        commands.clear()
        for number in range(5):
            await Browser(site, peer=f"198.18.1.{number}").join(mode)
            await bot(site, f"198.18.2.{number}").join(mode)
        sizes[mode] = [name for name in commands if name == "FCALL"]
    assert len(sizes["enforce"]) <= len(sizes["off"])

    table = RateLimiter.create("qm-small", workers=1, max_keys=1000)
    small = RateLimiter.attach(table.name, 0)
    size = os.stat(table.name).st_size
    for number in range(20_000):
        small.note_ask(number.to_bytes(4, "big"), number + 1)
        small.note_ticket(number.to_bytes(4, "big"), 7, number + 1)
    kept = sum(bool(small.tickets_of(number.to_bytes(4, "big"), 7)) for number in range(20_000))
    assert os.stat(table.name).st_size == size
    assert 0 < kept <= 1000
    table.close()


def fleet_of(site: Site, name: str) -> tuple[Tally, FleetCounts]:
    board = CounterBoard(site.house.valkey, site.house.prefix, name, 0)
    fleet = FleetCounts(site.visitor.counts, board)
    counts = EngineCounts(site.house.prefix, LuaLoader(site.house.valkey))
    return Tally(counts=site.visitor.counts, engine=counts, fleet=fleet), fleet


@pytest.mark.req("VIS-205")
async def test_it_counts_for_the_whole_fleet_and_keeps_the_last_fifty(house: House, limiter: RateLimiter) -> None:
    sites = [Site(house, limiter, protection_mode="enforce") for _ in range(2)]
    await sites[0].create(rate_per_minute=0)
    await sites[1].rooms.refresh(SHOP)
    tallies = [fleet_of(site, f"i:{number}") for number, site in enumerate(sites)]
    await bot(sites[0]).join()
    await person(sites[1]).join()
    for tally, _ in tallies:
        await tally.hand_over()
    for number in range(52):
        await bot(sites[number % 2], f"198.18.5.{number}", "curl/8").join()
        for tally, _ in tallies:
            await tally.hand_over()

    sums = [await fleet.sums() for _, fleet in tallies]
    recent = await tallies[0][1].decisions()
    reader = RoomDetails(house.admin)
    figures = (await reader.figures([SHOP], fresh=True))[SHOP]
    shown = room_object(RoomView(await house.read("shop"), figures, details=reader.of(SHOP)))

    for one in sums:
        assert one.protection == {"scored": 54, "blocked": 53, "warned": 53}
        assert one.signals["declared_automation"] == 53
    assert shown["protectionCounts"] == {
        "scored": 54, "warned": 53, "wouldBlock": 0, "blocked": 53, "crawlers": 0, "allowListed": 0,
    }  # fmt: skip
    detail = (await house.admin.figures([SHOP], detailed={SHOP}))[SHOP].detail
    assert detail is not None
    assert (detail.hours[-1].blocked, detail.hours[-1].warned) == (53, 53), "they stand in the hours of the room"
    assert len(recent) == 50
    assert recent[0].keys() == {"ts", "roomId", "address", "userAgent", "score", "outcome", "signals"}
    assert {one["userAgent"] for one in recent} == {"curl/8"}
    assert [one["ts"] for one in recent] == sorted((one["ts"] for one in recent), reverse=True)
    successor = FleetCounts(VisitorCounts(), CounterBoard(house.valkey, house.prefix, "i:0", 0))
    assert (await successor.sums()).protection["scored"] == 54, "a worker that was started again goes on counting"
    json.dumps(sums[0].health_blocks())
