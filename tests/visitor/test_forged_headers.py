"""900 made-up addresses of one machine are one visitor (VIS-218)."""

from __future__ import annotations

from collections import Counter

import pytest

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
