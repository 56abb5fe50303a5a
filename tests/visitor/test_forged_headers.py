"""What a machine says of itself and of the scheme counts only when its peer was declared (VIS-218, CFG-109)."""

from __future__ import annotations

from collections import Counter

import pytest

from app.core.ids import RoomId
from app.domain.client_address import NO_PROXY, TrustPolicy
from app.domain.net_ranges import parse_ranges
from app.infrastructure.rate_limiter import RateLimiter
from tests.journal.house import House
from tests.visitor.site import Browser, Site

FORGED = ("x-forwarded-for", "x-real-ip", "cf-connecting-ip", "true-client-ip", "forwarded")


@pytest.mark.req("VIS-218", "VIS-017", "VIS-013", "CFG-099")
async def test_it_gives_900_forged_addresses_one_budget_and_one_cap(house: House, limiter: RateLimiter) -> None:
    site = Site(house, limiter, join_limit_per_min=600)
    try:
        await site.create(rate_per_minute=0, queue_max_per_ip=16)
        answers: Counter[tuple[int, str | None]] = Counter()
        for number in range(900):
            address = f"9.9.{number // 250}.{number % 250}"
            browser = Browser(site, headers=dict.fromkeys(FORGED, address))
            answer = await browser.join()
            answers[answer.status, answer.code] += 1
        assert answers == {(200, None): 16, (429, "queue_identity_limit"): 584, (429, "rate_limited"): 300}
        assert (await Browser(site, peer="198.51.100.8").join()).status == 200
    finally:
        await site.stop()


@pytest.mark.req("VIS-019", "VIS-020", "CFG-108", "CFG-022")
async def test_it_builds_addresses_by_the_public_one_else_by_scheme_and_host_it_may_believe(
    house: House, limiter: RateLimiter
) -> None:
    forwarded = {"x-forwarded-proto": "https", "x-forwarded-host": "line.brand.example"}
    declared = TrustPolicy.of(1, parse_ranges("198.51.100.7"))
    await house.create("shop")

    async def location(policy: TrustPolicy, scheme: str = "http", **settings: str) -> str:
        site = Site(house, limiter, **settings)
        site.policy = policy
        await site.rooms.refresh(RoomId("shop"))
        answer = await Browser(site, headers=forwarded, scheme=scheme).check()
        await site.stop()
        return str(answer.json["location"])

    assert await location(NO_PROXY) == "http://queue.example/w/shop"
    assert await location(NO_PROXY, scheme="https") == "https://queue.example/w/shop"
    assert await location(declared) == "https://line.brand.example/w/shop"
    for policy in (NO_PROXY, declared):
        assert await location(policy, public_url="https://qm.example") == "https://qm.example/w/shop"


@pytest.mark.req("CFG-109", "VIS-021", "VIS-019")
@pytest.mark.req("CFG-107")
async def test_it_marks_cookies_secure_behind_a_declared_proxy_or_when_told_to(
    house: House, limiter: RateLimiter
) -> None:
    async def is_secure(policy: TrustPolicy, **settings: bool) -> bool:
        site = Site(house, limiter, **settings)
        site.policy = policy
        await site.rooms.refresh(RoomId("shop"))
        joined = await Browser(site, headers={"x-forwarded-proto": "https"}).join()
        await site.stop()
        found = {"; Secure" in cookie for cookie in joined.cookies}
        assert len(joined.cookies) == 2
        assert len(found) == 1
        return found.pop()

    await house.create("shop")
    declared = TrustPolicy.of(1, parse_ranges("198.51.100.7"))
    assert not await is_secure(NO_PROXY)
    assert not await is_secure(TrustPolicy.of(1, ()))
    assert await is_secure(declared)
    assert await is_secure(NO_PROXY, cookie_secure=True)
    assert not await is_secure(declared, cookie_secure=False)
