"""A page left open for long: its place is signed anew by every stream it opens. Source: VIS-222."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest

from app.core.clock import wall_ms
from app.domain.keyring import Keyring
from app.domain.tokens import Claims, VisitorTokens
from app.infrastructure.rate_limiter import RateLimiter
from blueprints.visitor.request_reading import visitor_of
from tests.journal.house import House
from tests.visitor.site import SECRET, Browser, Site
from tests.visitor.test_streams import opened

PAGE = "https://shop.example/sale"

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


@pytest.mark.req("ENG-091")
@pytest.mark.parametrize(
    ("token_sec", "cookie_sec", "half_ms"),
    [(86_400, 86_400, 43_200_000), (1200, 86_400, 600_000), (86_400, 600, 300_000)],
)
def test_a_token_is_old_from_half_of_the_shorter_of_its_ages_on(token_sec: int, cookie_sec: int, half_ms: int) -> None:
    tokens = VisitorTokens(Keyring(SECRET), max_age_sec=token_sec, cookie_max_age_sec=cookie_sec)
    claims = Claims("shop", 1, 1, "", 1_000)

    assert tokens.refresh_after_ms == half_ms
    assert [tokens.is_due(claims, 1_000 + age) for age in (half_ms - 1, half_ms)] == [False, True]


async def joined(browser: Browser) -> tuple[str, list[str]]:
    answer = await browser.join()
    return answer.json["token"], answer.cookies


async def asked(browser: Browser) -> tuple[str, list[str]]:
    answer = await browser.status()
    return answer.json.get("token", ""), answer.cookies


async def streamed(browser: Browser) -> tuple[str, list[str]]:
    opening = await opened(browser)
    return json.loads(opening.first.partition(b"data: ")[2])["token"], [cookie.decode() for cookie in opening.cookies]


async def checked(browser: Browser) -> tuple[str, list[str]]:
    answer = await browser.check(url=PAGE)
    assert answer.json["action"] == "pass"
    return answer.json.get("token", ""), answer.cookies


async def gated(browser: Browser) -> tuple[str, list[str]]:
    """What goes on with the answer of an inline room's app."""
    request = browser.request("GET", "/")
    checks, rooms = browser.site.visitor.check, browser.site.visitor.rooms
    answer = await checks.gate(await rooms.find("shop"), visitor_of(request, "shop", None), PAGE)
    cookies = [cookie.decode() for cookie in answer.cookies]
    tokens = [cookie.partition("=")[2].partition(";")[0] for cookie in cookies if cookie.startswith("qm_shop=")]
    return tokens[0] if tokens else "", cookies


@pytest.mark.req("ENG-091")
@pytest.mark.parametrize("ask", [joined, asked, streamed, checked, gated])
async def test_every_answer_to_its_owner_signs_an_old_token_anew(
    site: Site, browser: Browser, ask: Callable[[Browser], Awaitable[tuple[str, list[str]]]]
) -> None:
    await site.create()
    await browser.join()
    if ask in (checked, gated):
        await browser.check(url=PAGE)
    session = browser.jar["qms_shop"]
    browser.jar["qm_shop"] = young = token_of(site, 43_190)
    kept, _ = await ask(browser)
    browser.jar["qm_shop"] = old = token_of(site, 43_210)

    token, cookies = await ask(browser)

    tokens = VisitorTokens(site.keyring, max_age_sec=86_400, cookie_max_age_sec=86_400)
    now = wall_ms()
    before, after = tokens.verify(old, "shop", now), tokens.verify(token, "shop", now)
    assert isinstance(before, Claims)
    assert isinstance(after, Claims)
    assert after._replace(iat=0) == before._replace(iat=0), "the same ticket"
    assert now - after.iat < 60_000
    assert [cookie.partition(";")[0] for cookie in cookies] == [f"qm_shop={token}", f"qms_shop={session}"]
    if ask not in (joined, streamed):  # these two sign every token anew
        assert kept in ("", young)


def token_of(site: Site, age_sec: int) -> str:
    """Token of ticket 1 that was issued so long ago."""
    tokens = VisitorTokens(site.keyring, max_age_sec=86_400, cookie_max_age_sec=86_400)
    return tokens.sign("shop", 1, 1, wall_ms() - age_sec * 1000)
