"""Changing SECRET while people wait: with SECRET_PREVIOUS nobody loses his place, in both forms of token."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.core.clock import wall_ms
from app.core.secret import Secret
from app.domain.keyring import Keyring, kid_of
from app.domain.tokens import Cause, VisitorTokens
from app.infrastructure.rate_limiter import RateLimiter
from app.services import refused_tokens
from app.services.visitor_counts import Counted
from tests.journal.house import House, until
from tests.visitor.site import SECRET, Browser, Site

NEW = "the-next-secret-of-the-tests-with-40-characters"
MakeSite = Callable[..., Awaitable[Site]]


@pytest.fixture
async def instance(house: House, limiter: RateLimiter) -> AsyncIterator[MakeSite]:
    """Makes instances as they are after a restart with other settings."""
    made: list[Site] = []

    async def make(**settings: Any) -> Site:
        made.append(Site(house, limiter, **settings))
        await made[-1].rooms.refresh("shop")  # type: ignore[arg-type]
        return made[-1]

    yield make
    for site in made:
        await site.stop()


def age(browser: Browser, seconds: int, **keys: Any) -> None:
    """Let the browser's token have been issued ``seconds`` ago by an instance with these keys."""
    ticket = payload_of(browser.jar["qm_shop"])["ticket"]
    signer = VisitorTokens(Keyring(**keys), max_age_sec=86400, cookie_max_age_sec=86400)
    browser.jar["qm_shop"] = signer.sign("shop", 1, ticket, wall_ms() - seconds * 1000)


def payload_of(token: str) -> dict[str, Any]:
    payload = json.loads(urlsafe_b64decode(token.split(".")[0] + "=="))
    assert isinstance(payload, dict)
    return payload


async def line_of(site: Site, browsers: list[Browser]) -> list[int | None]:
    """Position of each browser when it asks this instance by its token alone, as the tag's page does."""

    async def ask(browser: Browser) -> int | None:
        browser.site = site
        token = browser.jar["qm_shop"]
        answer = await browser.send("GET", f"/api/status?room=shop&token={token}", cookies=False)
        for cookie in answer.cookies:
            name, _, rest = cookie.partition("=")
            browser.jar[name] = rest.partition(";")[0]
        assert answer.status == 200
        position = answer.json.get("position")
        assert position is None or isinstance(position, int)
        return position

    return list(await asyncio.gather(*map(ask, browsers)))


async def waiting(site: Site, count: int) -> list[Browser]:
    """``count`` browsers in line, one behind the other."""
    await site.create(rate_per_minute=0, queue_max_per_ip=None)
    browsers = [Browser(site, agent=f"Browser/{n}") for n in range(count)]
    for start in range(0, count, 250):
        await asyncio.gather(*(browser.join() for browser in browsers[start : start + 250]))
    browsers.sort(key=lambda browser: payload_of(browser.jar["qm_shop"])["ticket"])
    return browsers


@pytest.mark.req("ENG-095", "ENG-087", "CFG-150", "CFG-151")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("before", [False, True])
async def test_it_keeps_every_place_over_a_rotation(instance: MakeSite, before: bool, after: bool) -> None:
    """Whichever form was written before and is written after."""
    old = await instance(token_sign_v2=before)
    browsers = await waiting(old, 12)
    for browser in browsers[:6]:
        age(browser, 50_000, secret=SECRET, sign_v2=before)

    rotated = await instance(secret=Secret(NEW), secret_previous=Secret(SECRET), token_sign_v2=after)
    during = await line_of(rotated, browsers)
    new = Browser(rotated, agent="Browser/new")
    await new.join()
    ended = await instance(secret=Secret(NEW), token_sign_v2=after)
    late = await line_of(ended, browsers)

    assert during == list(range(1, 13))
    assert payload_of(new.jar["qm_shop"]).get("kid") == (kid_of(NEW) if after else None)
    assert [payload_of(b.jar["qm_shop"]).get("kid") for b in browsers[:6]] == [kid_of(NEW) if after else None] * 6
    assert late == [*range(1, 7), *[None] * 6], "from then on the old secret's tokens are refused"


@pytest.mark.req("ENG-290")
async def test_nobody_of_a_thousand_moves_when_the_secret_is_rotated(instance: MakeSite) -> None:
    old = await instance(token_sign_v2=True)
    browsers = await waiting(old, 1000)
    for browser in browsers:
        age(browser, 43_201, secret=SECRET, sign_v2=True)

    rotated = await instance(secret=Secret(NEW), secret_previous=Secret(SECRET), token_sign_v2=True)
    during = await line_of(rotated, browsers)
    ended = await instance(secret=Secret(NEW), token_sign_v2=True)
    late = await line_of(ended, browsers)

    assert during == late == list(range(1, 1001))


@pytest.mark.req("ENG-096")
async def test_it_voids_every_token_when_nothing_of_the_old_secret_is_left(instance: MakeSite) -> None:
    old = await instance()
    browsers = await waiting(old, 3)

    rotated = await instance(secret=Secret(NEW))

    assert await line_of(rotated, browsers) == [None] * 3
    check = await browsers[0].tag_check(token=browsers[0].jar["qm_shop"])
    assert (check.json["action"], check.json["reason"]) == ("queue", "bad_token")
    joined = await browsers[0].send(
        "POST", "/api/join", {"roomId": "shop", "token": browsers[0].jar["qm_shop"]}, cookies=False
    )
    assert (joined.json["position"], joined.json["reason"], joined.json["created"]) == (4, "bad_token", True)
    browsers[1].site = rotated
    kept = await browsers[1].join()
    assert (kept.json["position"], kept.json["created"]) == (2, False), "his own cookie is signed by no secret"


def refused_token(cause: str) -> str:
    """A token that is refused for ``cause`` and nothing else."""
    signer = VisitorTokens(Keyring(SECRET), max_age_sec=86400, cookie_max_age_sec=86400)
    other_key = VisitorTokens(Keyring(NEW, sign_v2=True), max_age_sec=86400, cookie_max_age_sec=86400)
    return {
        "malformed": "no token",
        "bad_signature": signer.sign("shop", 1, 1, wall_ms()).split(".")[0] + "." + "A" * 43,
        "unknown_kid": other_key.sign("shop", 1, 1, wall_ms()),
        "wrong_room": signer.sign("other", 1, 1, wall_ms()),
        "expired": signer.sign("shop", 1, 1, wall_ms() - 86_500_000),
        "future": signer.sign("shop", 1, 1, wall_ms() + 70_000),
    }[cause]


CAUSES = ("malformed", "bad_signature", "unknown_kid", "wrong_room", "expired", "future")


@pytest.mark.req("ENG-093")
@pytest.mark.parametrize("cause", CAUSES)
async def test_it_counts_a_refused_token_and_makes_no_error_of_it(site: Site, cause: str) -> None:
    await site.create(rate_per_minute=0)
    await Browser(site, agent="first").join()
    browser = Browser(site, jar={"qm_shop": refused_token(cause)})

    check = await browser.check()
    joined = await browser.join()

    assert (check.status, check.json["action"], check.json["reason"]) == (200, "queue", "bad_token")
    assert (joined.status, joined.json["position"], joined.json["reason"]) == (200, 2, "bad_token")
    counts = site.visitor.counts
    assert {str(name): number for name, number in counts.rejected_tokens.items()} == {cause: 2}
    assert counts.by_room["shop", Counted.REJECTED_TOKENS] == 2


def told(lines: Any) -> list[str]:
    return [line["room"] for line in lines if line["event"] == "many tickets rejected: signing key or clock?"]


async def test_it_leaves_nothing_running_when_it_stops_while_it_tells_of_refused_tokens(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_tokens, "GATHER_SEC", 0.0)
    site.many_refused.note("shop", Cause.EXPIRED)
    for _ in range(3):
        await asyncio.sleep(0)

    await site.many_refused.stop()

    assert [task for task in asyncio.all_tasks() if task.get_name() == "refused-tokens"] == []


@pytest.mark.req("ENG-094", "CFG-154", "OBS-186")
async def test_it_says_once_that_many_tokens_of_a_room_are_refused(
    instance: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever processes they came to; twenty of one room within a minute, then silence for ten."""
    monkeypatch.setattr(refused_tokens, "GATHER_SEC", 0.0)
    now = float(wall_ms())
    monkeypatch.setattr(refused_tokens, "wall_ms", lambda: int(now))
    one, two = await instance(), await instance()
    await one.create("shop", rate_per_minute=0)
    await one.create("other", rate_per_minute=0)
    await two.rooms.refresh("other")  # type: ignore[arg-type]
    house = one.house
    key = f"{house.prefix}{{shop}}:refused"

    async def refuse(site: Site, room: str, times: int) -> None:
        browser = Browser(site, jar={f"qm_{room}": "no token"})
        for _ in range(times):
            await browser.check(room)
        await asyncio.sleep(0)
        while site.many_refused._task is not None:  # all of it is on the way
            await asyncio.sleep(0)

    async def noted(length: int) -> None:
        async def are_there() -> bool:
            return bool(await house.valkey.execute("LLEN", key) == length)

        await until(are_there)

    with capture_logs() as lines:
        await refuse(one, "shop", 10)
        await refuse(two, "shop", 9)
        await refuse(two, "other", 19)
        await noted(19)
        assert told(lines) == []
        now += 61_000
        await refuse(one, "shop", 1)
        await noted(20)
        assert told(lines) == [], "the first nineteen are older than a minute"
        await refuse(two, "shop", 19)

        async def is_told() -> bool:
            return told(lines) == ["shop"]

        await until(is_told)
        now += 1000
        await refuse(one, "shop", 40)
        await refuse(two, "shop", 1)
        assert told(lines) == ["shop"], "once in ten minutes"
        assert await house.valkey.execute("PTTL", key + "-told") in range(500_000, 600_001)
        assert await house.valkey.execute("PTTL", key) in range(1, 60_001)
        await house.valkey.execute("DEL", key + "-told")  # ten minutes later
        await refuse(one, "shop", 20)

        async def is_told_again() -> bool:
            return told(lines) == ["shop", "shop"]

        await until(is_told_again)
    assert all(line["cause"] == "malformed" for line in lines if line.get("cause"))
