"""A page left open for long: its place is signed anew by every stream it opens. Source: VIS-222."""

from __future__ import annotations

import pytest

from app.core.clock import wall_ms
from app.infrastructure.rate_limiter import RateLimiter
from tests.journal.house import House
from tests.visitor.site import Browser, Site
from tests.visitor.test_streams import opened

MODULES = ("status", "stream_open", "visitor_tokens", "join", "check")


@pytest.mark.req("VIS-222", "VIS-164", "CFG-052")
@pytest.mark.req("FLT-133")
async def test_it_keeps_the_place_of_a_page_left_open_for_half_an_hour(
    house: House, limiter: RateLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    later_ms = 0
    for name in MODULES:
        monkeypatch.setattr(f"app.services.{name}.wall_ms", lambda: wall_ms() + later_ms)
    site = Site(house, limiter, token_max_age_sec=600)
    await site.create(rate_per_minute=0)
    page, sleeper = Browser(site), Browser(site, peer="198.51.100.8")
    await page.join()
    await sleeper.join()
    first = page.jar["qm_shop"]
    spread = [site.visitor.streams.refresh_in_sec("shop", (1, n)) for n in range(1, 2001)]

    for _ in range(6):
        later_ms += 310_000
        await site.advance(310)
        opening = await opened(page)
        assert not opening.is_over
        for cookie in opening.cookies:
            name, _, rest = cookie.decode().partition("=")
            page.jar[name] = rest.partition(";")[0]

    assert 300 <= min(spread) < 302
    assert 328 < max(spread) <= 330
    state = (await page.status()).json
    assert (state["state"], state["ticket"], state["position"]) == ("waiting", 1, 1)
    assert page.jar["qm_shop"] != first
    assert (await sleeper.status()).json["reason"] == "bad_token", "an old token without a stream is of no use"
    await site.stop()
