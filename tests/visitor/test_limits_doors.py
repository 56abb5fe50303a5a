"""Limits that churn cannot clear, and the contract of a check in every outcome."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from app.core.ids import RoomId
from app.core.secret import Secret
from app.core.settings import ROWS
from app.core.settings_rules import load
from app.domain.room import RoomState, UrlRule
from app.infrastructure.rate_limiter import RateLimiter
from tests.journal.house import House
from tests.visitor.site import Browser, Site
from tests.visitor.test_vouched import Connector, make

PAGE = "https://shop.example/checkout"
LIMITS = ("join", "check", "status", "waiting", "verify")


@pytest.fixture
def limiter() -> Iterator[RateLimiter]:
    """As with RATE_LIMIT_MAX_KEYS=1000."""
    table = RateLimiter.create("qm-doors-tests", workers=1, max_keys=1000)
    yield RateLimiter.attach(table.name, 0)
    table.close()


@pytest.mark.req("VIS-074", "CFG-236")
@pytest.mark.parametrize("max_keys", [1000, pytest.param(200_000, marks=pytest.mark.slow)])
@pytest.mark.req("CFG-074")
def test_100_000_other_keys_clear_no_limited_key(max_keys: int) -> None:
    table = RateLimiter.create("qm-churn", workers=1, max_keys=max_keys)
    limiter = RateLimiter.attach(table.name, 0, now=lambda: 5000.0)  # no window ends, however long this takes
    limited = [b"\x0a\0\0" + bytes([number]) for number in range(8)] + [b"\x20\x01\x0d\xb8\0\0\0\1"]
    for key in limited:
        while limiter.take("check", key, 3).allowed:
            pass
    size = os.stat(table.name).st_size

    for number in range(100_000):
        if number % 3:
            limiter.take("check", number.to_bytes(4, "big"), 3)
        else:  # addresses of one IPv6 /48 after the other
            limiter.take("check", b"\x2a\x06" + number.to_bytes(6, "big"), 3)
        if number % 2000 == 0:
            assert not any(limiter.take("check", key, 3).allowed for key in limited), number

    assert not any(limiter.take("check", key, 3).allowed for key in limited)
    assert os.stat(table.name).st_size == size
    limiter.close()
    table.close()


@pytest.mark.req("VIS-074", "VIS-233")
def test_a_new_wide_network_clears_no_limited_key() -> None:
    table = RateLimiter.create("qm-wide", workers=1, max_keys=8)  # one bucket
    limiter = RateLimiter.attach(table.name, 0, now=lambda: 5000.0)
    limited = [b"\x0a\0\0" + bytes([number]) for number in range(8)]
    for key in limited:
        while limiter.take("check", key, 3).allowed:
            pass

    assert not limiter.take("check", b"\x2a\x06\0\0\0\0\0\1", 3).allowed

    assert not any(limiter.take("check", key, 3).allowed for key in limited)
    limiter.close()
    table.close()


@pytest.mark.req("VIS-220", "VIS-075")
async def test_a_limited_client_stays_limited_while_others_come_by(house: House, limiter: RateLimiter) -> None:
    site = make(house, limiter, check_limit_per_min=5)
    await site.create()
    limited, connector = Browser(site), Connector(site)
    answers = [(await limited.check()).status for _ in range(6)]
    assert answers == [200] * 5 + [429]

    async def call(number: int, *, is_vouched: bool) -> int:
        address = f"198.18.{number // 250}.{number % 250}"
        if is_vouched:  # without a room: charged, and asks no store
            return (await connector.send(f"/api/check?ip={address}&agent=x")).status
        return (await Browser(site, peer=address).send("GET", "/api/check")).status

    for number in range(15_000):
        assert await call(number, is_vouched=number % 3 != 0) == 400
        if number % 500 == 0:
            assert (await limited.check()).status == 429, number
    assert (await limited.check()).status == 429
    assert (await limited.join()).status == 200, "another budget"


@pytest.mark.req("VIS-073")
@pytest.mark.parametrize("group", [*LIMITS, "sse_per_ip", "sse_max_total", "rate_limit_max_keys"])
@pytest.mark.parametrize("text", ["many", "1e3", "-5", "10 000"])
def test_a_limit_that_is_no_number_starts_with_the_default_and_says_so(group: str, text: str) -> None:
    attribute = f"{group}_limit_per_min" if group in LIMITS else group
    name = ROWS[attribute].name
    loaded = load({name: text})

    (warning,) = [one for one in loaded.warnings if one.variable == name]
    assert getattr(loaded.settings, attribute) == warning.using == getattr(load({}).settings, attribute)
    for part in (name, text, str(warning.using)):
        assert part in warning.message
    assert getattr(load({name: "0"}).settings, attribute) == (1000 if group == "rate_limit_max_keys" else 0)


DEFAULTS = {"join": 600, "check": 3000, "status": 6000, "waiting": 120, "notify": 30, "verify": 60}


@pytest.mark.req("VIS-069")
async def test_each_group_of_routes_has_a_table_and_a_limit_of_its_own(house: House, limiter: RateLimiter) -> None:
    shipped = load({}).settings
    assert {group: getattr(shipped, f"{group}_limit_per_min") for group in DEFAULTS} == DEFAULTS
    key = Secret("a-key-of-the-connectors")
    limits = {f"{group}_limit_per_min": number for number, group in enumerate(DEFAULTS, 2)}
    site = Site(house, limiter, **limits, public_api_key=key)
    await site.create(rate_per_minute=0)
    browser = Browser(site)
    bearer = {"authorization": f"Bearer {key.reveal()}"}

    async def asked(method: str, path: str, headers: dict[str, str]) -> int:
        sent = {"roomId": "shop"} if method != "GET" and "check" not in path else None
        return (await browser.send(method, path, sent, headers=headers)).status

    groups = {
        "join": [("POST", "/api/join"), ("POST", "/api/leave"), ("POST", "/api/v1/join")],
        "check": [("GET", "/api/check?room=shop"), ("POST", "/api/v1/check?room=shop"), ("GET", "/api/check")],
        "status": [("GET", "/api/status?room=shop"), ("GET", "/api/v1/status?room=shop"), ("GET", "/api/status")],
        "notify": [("POST", "/api/notify"), ("DELETE", "/api/notify"), ("POST", "/api/v1/notify")],
        "verify": [("GET", "/api/verify?room=shop"), ("GET", "/api/v1/verify?room=shop"), ("GET", "/api/verify")],
    }  # fmt: skip
    for group, routes in groups.items():
        limit = limits[f"{group}_limit_per_min"]
        headers = bearer if group == "verify" else {}
        found = [await asked(*routes[number % 3], headers=headers) for number in range(limit + 3)]
        assert [status == 429 for status in found] == [False] * limit + [True] * 3, group
    client = browser.client({})
    pages = [site.visitor.undeclared.page_budget("waiting", client).allowed for _ in range(8)]
    assert pages == [True] * limits["waiting_limit_per_min"] + [False] * 3


@pytest.mark.req("VIS-069")
async def test_a_limit_of_0_is_none(house: House, limiter: RateLimiter) -> None:
    site = Site(house, limiter, **{f"{group}_limit_per_min": 0 for group in DEFAULTS})
    await site.create(rate_per_minute=0)
    browser = Browser(site)

    answers = [await browser.check() for _ in range(20)] + [await browser.status() for _ in range(20)]

    assert {answer.status for answer in answers} == {200}
    assert not any("x-ratelimit-limit" in answer.headers for answer in answers)


@pytest.mark.req("VIS-123", "VIS-124", "VIS-125")
async def test_every_outcome_of_a_check_has_its_shape(site: Site) -> None:
    """``200`` for pass and queue alike; members and reasons of each."""
    browser = Browser(site)
    queue = {"action", "roomId", "reason", "roomState", "location"}
    passed = {"action", "roomId", "reason", "recheckSec"}
    seen: dict[str, set[str]] = {}

    async def told(reason: str, shape: set[str], **query: str) -> dict[str, Any]:
        answer = await browser.check(**query)
        assert answer.status == 200
        assert (answer.json["reason"], answer.json.keys()) == (reason, shape)
        assert answer.json["action"] == ("queue" if shape is queue else "pass")
        assert answer.json["roomId"] == "shop"
        seen[reason] = shape
        return answer.json

    await site.create(rate_per_minute=0, max_concurrent=1, rules=(UrlRule("r1", "skip", "/free"),))
    assert (await told("new", queue, url=PAGE))["roomState"] == "active"
    await told("not_targeted", passed, url="https://shop.example/free")
    await browser.join()
    await told("waiting", queue, url=PAGE)
    await site.update(state=RoomState.PAUSED)
    assert (await told("paused", queue))["roomState"] == "paused"
    await site.update(state=RoomState.BYPASS)
    await told("bypass", passed)
    await site.update(state=RoomState.ACTIVE, rate_per_minute=600)
    await browser.released()
    entered = await told("admitted", passed | {"doorKey", "sessionExpiresAt"}, url=PAGE)
    await told("session", passed | {"sessionExpiresAt"})
    assert entered["sessionExpiresAt"] > 1_600_000_000_000
    browser.jar["qm_dk_shop"] = "A" * 43
    await told("session_elsewhere", queue)
    browser.jar["qm_shop"] = "not-a-token"
    await told("bad_token", queue)
    assert seen.keys() == {
        "new", "not_targeted", "waiting", "paused", "bypass", "admitted", "session", "session_elsewhere", "bad_token",
    }  # fmt: skip


@pytest.mark.req("VIS-120")
async def test_it_takes_token_and_door_key_from_their_places_in_order(site: Site) -> None:
    await site.create()
    browser = Browser(site)
    token = (await browser.join()).json["token"]
    door = (await browser.check()).json["doorKey"]
    other = "B" * 43

    async def reason(body: dict[str, str] | None, header: str | None, cookies: dict[str, str], query: str = "") -> str:
        asker = Browser(site, peer="203.0.113.8", jar=cookies)
        headers = {} if header is None else {"x-qm-door-key": header}
        method = "GET" if body is None else "POST"
        answer = await asker.send(method, f"/api/check?room=shop{query}", body, headers=headers)
        assert answer.status == 200
        return str(answer.json["reason"])

    jar = {"qm_shop": token}
    assert await reason({"token": token, "doorKey": door}, other, {"qm_dk_shop": other}) == "session"
    assert await reason({"token": token, "doorKey": other}, door, {"qm_dk_shop": door}) != "session"
    assert await reason({"token": token}, door, {"qm_dk_shop": other}) == "session"
    assert await reason({"token": token}, other, {"qm_dk_shop": door}) != "session"
    assert await reason({"token": token}, None, {"qm_dk_shop": door}) == "session"
    assert await reason({}, None, {**jar, "qm_dk_shop": door}) == "session", "the cookie's ticket"
    assert await reason({"token": "x.y"}, door, jar) == "bad_token", "the body's token goes before the cookie's"
    assert await reason(None, door, {}, f"&token={token}") == "session"
    assert await reason(None, door, jar) == "session"
    assert await reason(None, None, jar, f"&doorKey={door}") != "session", "never in the query: URLs are logged"
    for path, body, code in (
        ("/api/check?roomId=shop", {"tag": "1.4.0"}, None),
        ("/api/check?room=shop", {"room": "shop"}, "unknown_field"),
        ("/api/check?room=shop", {"token": 7}, "invalid_token"),
        ("/api/check", {"token": token}, "missing_room"),
    ):
        assert (await browser.send("POST", path, body)).json.get("code") == code


@pytest.mark.req("VIS-129")
async def test_in_bypass_a_check_needs_no_ticket_and_counts_as_an_arrival(site: Site) -> None:
    await site.create(state=RoomState.BYPASS)

    async def arrivals() -> int:
        figures = (await site.house.admin.figures([RoomId("shop")]))[RoomId("shop")]
        return figures.joins_per_min

    for number in range(3):
        answer = await Browser(site, peer=f"198.18.0.{number}").check(url=PAGE)
        assert answer.json == {"action": "pass", "roomId": "shop", "reason": "bypass", "recheckSec": 600}
        assert answer.cookies == []
    assert (await Browser(site, peer="198.18.0.9").check(token="x.y")).json["reason"] == "bypass"
    await site.advance(2)
    assert await arrivals() == 4


OWN_PAGES = frozenset(b"/api/%b%b" % (v, name) for v in (b"", b"v1/") for name in (b"join", b"leave", b"notify"))
CHANGES = ("POST", "DELETE")
FOREIGN: tuple[tuple[dict[str, str], bool], ...] = (
    ({"sec-fetch-site": "cross-site"}, True),
    ({"sec-fetch-site": "same-site"}, True),
    ({"sec-fetch-site": "same-origin"}, False),
    ({"sec-fetch-site": "none"}, False),
    ({"origin": "https://evil.example", "content-type": "text/plain"}, True),
    ({"origin": "https://evil.example", "content-type": "application/x-www-form-urlencoded; charset=x"}, True),
    ({"origin": "null", "content-type": "multipart/form-data; boundary=x"}, True),
    ({"origin": "https://evil.example", "content-type": "application/json"}, False),
    ({"origin": "https://evil.example"}, False),
    ({"origin": "http://queue.example", "content-type": "text/plain"}, False),
    ({"origin": "https://qm.example", "content-type": "text/plain"}, False),
    ({"content-type": "text/plain"}, False),
)


@pytest.mark.req("VIS-067")
async def test_only_own_pages_join_leave_and_ask_for_notice(house: House, limiter: RateLimiter) -> None:
    site = Site(house, limiter, public_url="https://qm.example")
    await site.create(rate_per_minute=0)
    own = [(method, path.decode()) for method, path in site.table.routes if path in OWN_PAGES and method in CHANGES]
    wanted = {("POST", "join"), ("POST", "leave"), ("POST", "notify"), ("DELETE", "notify")}
    assert set(own) == {(method, f"/api/{v}{name}") for method, name in wanted for v in ("", "v1/")}

    for number, (headers, is_refused) in enumerate(FOREIGN):
        browser = Browser(site, peer=f"198.18.0.{number}")
        await browser.join()
        for method, path in own:
            answer = await browser.send(method, path, {"roomId": "shop"}, headers=headers)
            assert ((answer.status, answer.code) == (403, "cross_site")) is is_refused, (headers, method, path)
        if is_refused:
            assert (await browser.status()).json["state"] == "waiting", "nothing happened"
