"""``/api/check``, direct."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Coroutine
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import pytest

from app.core.ids import RoomId
from app.domain.client_address import TrustPolicy
from app.domain.facts import FactType
from app.domain.room import RoomState, UrlRule
from app.infrastructure.rate_limiter import RateLimiter
from tests.journal.house import House, until
from tests.journal.snapshot import snapshot
from tests.visitor.site import Browser, Site

T = TypeVar("T")
PAGE = "https://shop.example/checkout"
CORS = {
    "access-control-allow-origin": "https://shop.example",
    "access-control-allow-credentials": "true",
    "vary": "Origin",
    "access-control-expose-headers": "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After",
}


async def admitted(browser: Browser, room: str = "shop") -> dict[str, str]:
    """Walk a browser in, as the tag does; its token and door key."""
    token = (await browser.join(room)).json["token"]
    answer = (await browser.tag_check(room, token=token, url=PAGE)).json
    assert answer["reason"] == "admitted", answer
    return {"token": token, "doorKey": answer["doorKey"]}


async def stored(house: House, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, whose facts are committed while it waits."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await house.drain("shop")
        await asyncio.sleep(0.01)
    return task.result()


@pytest.mark.req("VIS-130")
async def test_it_sends_a_newcomer_to_the_waiting_page(site: Site, browser: Browser) -> None:
    await site.create()

    answer = await browser.check(url=PAGE)

    assert answer.status == 200
    assert answer.json == {
        "action": "queue", "roomId": "shop", "reason": "new", "roomState": "active",
        "location": "http://queue.example/w/shop?qm_return=https%3A%2F%2Fshop.example%2Fcheckout",
    }  # fmt: skip
    assert answer.cookies == []


@pytest.mark.req("VIS-130")
async def test_it_lets_the_holder_of_a_pass_in_and_gives_him_a_door_key(site: Site, browser: Browser) -> None:
    await site.create()
    await browser.join()

    answer = await browser.check(url=PAGE)

    body = answer.json
    assert body.keys() == {"action", "roomId", "reason", "doorKey", "sessionExpiresAt", "recheckSec"}
    assert (body["action"], body["reason"], body["recheckSec"]) == ("pass", "admitted", 600)
    assert answer.cookies == [f"qm_dk_shop={body['doorKey']}; Path=/; Max-Age=14400; HttpOnly; SameSite=Lax"]
    assert len(body["doorKey"]) == 43
    assert len(await site.house.journaled("shop", FactType.ADMITTED)) == 1


async def test_it_knows_the_admitted_browser_by_its_door_key(site: Site, browser: Browser) -> None:
    await site.create()
    held = await admitted(browser)

    by_body = await browser.tag_check(url=PAGE, **held)
    by_header = await browser.twin(peer="203.0.113.5", agent="x").send(
        "GET", f"/api/check?room=shop&token={held['token']}", headers={"x-qm-door-key": held["doorKey"]}
    )
    browser.jar["qm_dk_shop"] = held["doorKey"]
    by_cookie = await browser.check()

    for answer in (by_body, by_header, by_cookie):
        assert answer.json["reason"] == "session"
        assert answer.json.keys() == {"action", "roomId", "reason", "sessionExpiresAt", "recheckSec"}
        assert answer.cookies == []


@pytest.mark.req("ENG-154")
async def test_it_keeps_a_second_browser_with_the_same_token_out(site: Site, browser: Browser) -> None:
    await site.create()
    held = await admitted(browser)

    for second in (browser.twin(), browser.twin(agent="Other/2.0"), browser.twin(peer="203.0.113.5")):
        for door in ({}, {"doorKey": "A" * 43}):
            answer = await second.tag_check(token=held["token"], url=PAGE, **door)
            assert answer.json["action"] == "queue"
            assert answer.json["reason"] in {"session_elsewhere", "bad_token"}
    assert (await browser.tag_check(url=PAGE, **held)).json["reason"] == "session"


async def test_it_does_not_take_a_stolen_token(site: Site, browser: Browser) -> None:
    await site.create()
    token = (await browser.join()).json["token"]

    for thief in (browser.twin(agent="Other/2.0"), browser.twin(peer="203.0.113.5")):
        assert (await thief.tag_check(token=token, url=PAGE)).json["reason"] == "bad_token"
    assert (await browser.tag_check(token=token, url=PAGE)).json["reason"] == "admitted"


async def test_it_knows_the_browser_by_its_fingerprint_when_no_cookie_comes(site: Site, browser: Browser) -> None:
    await site.create()
    token = (await browser.join()).json["token"]

    answer = await browser.tag_check(token=token, url=PAGE)

    assert answer.json["reason"] == "admitted"


async def test_it_tells_the_edge_nodes_of_a_declared_proxy_apart_no_more(site: Site, browser: Browser) -> None:
    site.policy = TrustPolicy.of(1, [ipaddress.ip_network("10.0.0.0/8")])
    await site.create()
    through = {"x-forwarded-for": "203.0.113.77"}
    first = Browser(site, peer="10.0.0.1", headers=through)
    token = (await first.join()).json["token"]

    other_node = Browser(site, peer="10.0.0.2", headers=through)
    other_visitor = Browser(site, peer="10.0.0.1", headers={"x-forwarded-for": "203.0.113.78"})

    assert (await other_visitor.tag_check(token=token, url=PAGE)).json["reason"] == "bad_token"
    assert (await other_node.tag_check(token=token, url=PAGE)).json["reason"] == "admitted"


@pytest.mark.req("ENG-092")
async def test_it_names_the_reason_for_which_a_visitor_has_to_wait(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()
    assert (await browser.check()).json["reason"] == "waiting"

    await site.update(state=RoomState.PAUSED)
    paused = (await browser.check()).json
    await site.house.admin.eject("shop", 1, actor="test")  # type: ignore[arg-type]
    ejected = (await browser.check()).json

    assert (paused["reason"], paused["roomState"]) == ("paused", "paused")
    assert ejected["reason"] == "ejected"
    browser.jar["qm_shop"] = "not-a-token"
    assert (await browser.check()).json["reason"] == "bad_token"
    assert site.visitor.counts.rejected_tokens == {"malformed": 1}


async def test_it_lets_everybody_pass_in_bypass(site: Site, browser: Browser) -> None:
    await site.create(state=RoomState.BYPASS)

    answer = await browser.check(url=PAGE)

    assert answer.json == {"action": "pass", "roomId": "shop", "reason": "bypass", "recheckSec": 600}
    assert answer.cookies == []


@pytest.mark.parametrize(("session_ttl", "recheck"), [(60, 30), (90, 30), (900, 300), (86400, 600)])
@pytest.mark.req("VIS-127")
async def test_it_asks_for_a_recheck_by_the_life_of_a_session(
    site: Site, browser: Browser, session_ttl: int, recheck: int
) -> None:
    await site.create(state=RoomState.BYPASS, session_ttl_sec=session_ttl, session_max_sec=86400)

    assert (await browser.check()).json["recheckSec"] == recheck


@pytest.mark.req("ENG-202", "VIS-121")
async def test_it_covers_pages_by_the_rules(site: Site, browser: Browser) -> None:
    await site.create(rules=(UrlRule("r1", "protect", "/checkout*"),))

    free = await browser.check(url="https://shop.example/about")

    assert free.json == {"action": "pass", "roomId": "shop", "reason": "not_targeted", "recheckSec": 600}
    for url in (
        "https://shop.example/checkout",
        "https://shop.example/x/../CHECKOUT",
        "nonsense",
        "https://x/" + "y" * 5000,
    ):
        assert (await browser.check(url=url)).json["action"] == "queue", url
    assert (await browser.check()).json["action"] == "queue"
    assert site.visitor.counts.by_room["shop", "checksWithoutUrl"] == 3


@pytest.mark.parametrize(
    ("url", "returns_to"),
    [
        (PAGE, PAGE),
        ("https://www.shop.example/a b?q=ü#f", "https://www.shop.example/a%20b?q=%C3%BC#f"),
        ("https://evil.example/", None),
        ("javascript:alert(1)", None),
        ("https://shop.example@evil.example/", None),
        (None, None),
    ],
)
async def test_it_takes_the_page_along_only_where_the_policy_covers_it(
    site: Site, browser: Browser, url: str | None, returns_to: str | None
) -> None:
    await site.create(return_origins=("https://www.shop.example",))

    answer = await browser.send("POST", "/api/check?room=shop", {"url": url} if url else {})

    parts = urlsplit(answer.json["location"])
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == "http://queue.example/w/shop"
    assert parse_qs(parts.query).get("qm_return", [None]) == [returns_to]


async def test_it_names_the_public_address_when_there_is_one(house: House, limiter: RateLimiter) -> None:
    site = Site(house, limiter, public_url="https://qm.example/")
    await site.create()

    assert (await Browser(site).check()).json["location"] == "https://qm.example/w/shop"


@pytest.mark.req("ENG-287", "VIS-128", "ENG-146")
async def test_it_withdraws_an_admission_whose_commit_fails(idle_house: House, limiter: RateLimiter) -> None:
    site = Site(idle_house, limiter)
    await site.create()
    browser = Browser(site)
    token = (await stored(idle_house, browser.join())).json["token"]
    before = (await browser.status()).json

    checking = asyncio.ensure_future(browser.tag_check(token=token, url=PAGE))
    while not checking.done() and not idle_house.commits._deadlines:
        await asyncio.sleep(0.01)
    idle_house.commits.hear(b'{"failed":[["shop",1]]}')
    failed = await checking
    await idle_house.start_drainer()
    after = (await browser.status()).json
    reasons: list[str | None] = []

    async def is_admitted() -> bool:  # 503 until the drainer has caught up
        reasons.append((await browser.tag_check(token=token, url=PAGE)).json.get("reason"))
        return reasons[-1] is not None

    await until(is_admitted)

    assert (failed.status, failed.code) == (503, "storage_unavailable")
    assert failed.cookies == []
    same = ("state", "ticket", "holdsSlot", "passedAt")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    for name in ("passExpiresAt", "claimUntil"):
        assert abs(after[name] - before[name]) <= 1000  # the engine keeps ends in tenths of a second
    assert reasons[-1] == "admitted"


async def test_it_refuses_an_admission_while_commits_fail_and_lets_sessions_go_on(
    idle_house: House, limiter: RateLimiter
) -> None:
    site = Site(idle_house, limiter)
    await site.create()
    browser, other = Browser(site), Browser(site, peer="198.51.100.8")
    held = await stored(idle_house, admitted(browser))
    await stored(idle_house, other.released())
    token = other.jar["qm_shop"]
    idle_house.commits.hear(b'{"failed":"*","by":""}')

    refused = await other.tag_check(token=token, url=PAGE)

    assert (refused.status, refused.code) == (503, "storage_unavailable")
    assert (await browser.tag_check(url=PAGE, **held)).json["reason"] == "session"
    assert (await browser.twin(peer="198.51.100.9").tag_check(url=PAGE)).json["reason"] == "new"
    assert (await other.status()).json["state"] == "passed"


@pytest.mark.req("VIS-061", "ENG-207")
async def test_it_tells_a_page_of_a_covered_origin_its_answer(site: Site, browser: Browser) -> None:
    await site.create(tag_origins=("https://*.brand.example",))

    for origin in ("https://shop.example", "https://www.brand.example"):
        answer = await browser.tag_check(origin=origin, url=PAGE)
        assert answer.status == 200
        assert answer.headers == {**CORS, "access-control-allow-origin": origin}


@pytest.mark.req("VIS-061")
@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "https://brand.example", "null", "http://shop.example", "https://shop.example:8443", "x"],
)
async def test_it_refuses_a_page_of_another_origin(site: Site, browser: Browser, origin: str) -> None:
    await site.create(tag_origins=("https://*.brand.example",))

    answer = await browser.tag_check(origin=origin, url=PAGE)

    assert (answer.status, answer.code) == (403, "origin_not_allowed")
    assert not any(name.startswith("access-control") for name in answer.headers)
    assert site.visitor.counts.refused_origins == {("shop", origin): 1}


@pytest.mark.req("VIS-064")
@pytest.mark.parametrize("origin", ["http://queue.example", "https://queue.example", "https://qm.example"])
async def test_it_needs_no_policy_for_its_own_host(house: House, limiter: RateLimiter, origin: str) -> None:
    site = Site(house, limiter, public_url="https://qm.example")
    await site.create()

    answer = await Browser(site).send("GET", "/api/check?room=shop", headers={"origin": origin})

    assert answer.status == 200
    assert (await Browser(site).send("GET", "/api/check?room=shop", headers={"origin": origin + ":81"})).status == 403


@pytest.mark.req("VIS-062")
async def test_it_lets_the_tag_read_refusals_too(house: House, limiter: RateLimiter) -> None:
    site = Site(house, limiter, check_limit_per_min=2)
    await site.create()
    browser = Browser(site)

    bad = await browser.send("POST", "/api/check?room=shop", b"{", headers={"origin": "https://shop.example"})
    await browser.tag_check()
    limited = await browser.tag_check()
    assert await house.jobs.fence(RoomId("shop"), 1, 1)
    away = await browser.twin(peer="203.0.113.9").tag_check()

    assert (away.status, away.code) == (503, "storage_unavailable")
    assert away.headers.items() >= CORS.items()
    assert (bad.status, bad.code) == (400, "bad_json")
    assert bad.headers.items() >= CORS.items()
    assert (limited.status, limited.code) == (429, "rate_limited")
    assert limited.headers.items() >= CORS.items()
    assert site.visitor.counts.by_room["shop", "rateLimitedChecks"] == 1


@pytest.mark.req("VIS-071")
async def test_it_admits_nobody_over_the_limit(house: House, limiter: RateLimiter) -> None:
    site = Site(house, limiter, check_limit_per_min=1)
    await site.create()
    browser = Browser(site)
    await browser.join()
    assert (await browser.twin().check(url=PAGE)).json["reason"] == "new"

    answer = await browser.check(url=PAGE)

    assert (answer.status, answer.code, answer.cookies) == (429, "rate_limited", [])
    assert answer.json.keys() == {"error", "code"}
    assert (await browser.status()).json["state"] == "passed"
    assert await house.journaled("shop", FactType.ADMITTED) == []


@pytest.mark.req("VIS-065")
async def test_it_answers_a_preflight_of_a_covered_origin_only(site: Site, browser: Browser) -> None:
    await site.create()
    preflight = {"access-control-request-method": "POST", "access-control-request-headers": "x-qm-door-key"}

    good = await browser.send(
        "OPTIONS", "/api/check?room=shop", headers={"origin": "https://shop.example", **preflight}
    )
    bad = await browser.send("OPTIONS", "/api/check?room=shop", headers={"origin": "https://evil.example", **preflight})

    assert good.status == 204
    assert good.headers.items() >= {
        **CORS, "access-control-allow-methods": "GET, HEAD, POST",
        "access-control-allow-headers": "content-type, x-qm-door-key", "access-control-max-age": "600",
    }.items()  # fmt: skip
    assert bad.status == 403
    assert not any(name.startswith("access-control") for name in bad.headers)
    assert good.request.budget is None


@pytest.mark.req("VIS-228")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-mode": "navigate", "sec-fetch-site": "none"}, 403),
        ({"sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin"}, 403),
        ({"sec-fetch-mode": "no-cors", "sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-mode": "no-cors", "sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-mode": "cors", "sec-fetch-site": "cross-site", "origin": "https://shop.example"}, 200),
        ({"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}, 200),
        ({}, 200),
    ],
)
async def test_it_spends_no_pass_for_a_link_an_image_or_a_frame(
    site: Site, browser: Browser, headers: dict[str, str], status: int
) -> None:
    await site.create()
    await browser.join()

    answer = await browser.send("GET", "/api/check?room=shop", headers=headers)

    assert answer.status == status
    if status == 403:
        assert (await browser.status()).json["state"] == "passed"
        assert answer.cookies == []


@pytest.mark.parametrize("query", ["ip=203.0.113.9&agent=x", "ip=203.0.113.9", "agent=x", "ip=&agent=", "ip=1&key=k"])
async def test_it_lets_nobody_speak_for_another_visitor_without_a_key(site: Site, browser: Browser, query: str) -> None:
    await site.create(state=RoomState.BYPASS)

    answer = await browser.send("GET", "/api/check?room=shop&" + query)

    assert answer.status == 401
    assert answer.code == ("credential_in_query" if "key" in query else "unauthorized")
    assert site.visitor.counts.by_room["shop", "refusedKeyChecks"] == 1


@pytest.mark.req("VIS-044")
@pytest.mark.parametrize(
    ("query", "status", "code"),
    [("", 400, "missing_room"), ("?room=", 400, "missing_room"), ("?room=nowhere", 404, "no_room"),
     ("?room=%00", 404, "no_room"), ("?room=%FF", 404, "no_room"), ("?roomId=shop", 200, None)],
)  # fmt: skip
async def test_it_needs_a_room_that_exists(
    site: Site, browser: Browser, query: str, status: int, code: str | None
) -> None:
    await site.create()

    answer = await browser.send("GET", "/api/check" + query)

    assert answer.status == status
    assert code is None or answer.code == code
    assert site.visitor.counts.totals["unknownRoomChecks"] == (1 if code == "no_room" else 0)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "bad_json"),
        (b'{"token":7}', 400, "invalid_token"),
        (b'{"url":[]}', 400, "invalid_url"),
        (b'{"doorKey":1}', 400, "invalid_door_key"),
        (b'{"surprise":1}', 400, "unknown_field"),
        (b"", 200, None),
        (b'{"token":null,"url":null}', 200, None),
        (b'{"token":"\\u0000","doorKey":"\\u0000","url":"\\u0000"}', 200, None),
    ],
)
async def test_it_reads_the_body_of_the_tag(
    site: Site, browser: Browser, body: bytes, status: int, code: str | None
) -> None:
    await site.create()

    answer = await browser.send("POST", "/api/check?room=shop", body)

    assert answer.status == status
    assert code is None or answer.code == code


async def records_of(site: Site) -> dict[str, Any]:
    """What a check may change: tickets with their presence, sessions with their last use, the number of facts."""
    shot = await snapshot(site.house.valkey, site.house.prefix, "shop")
    return {"tickets": shot["tickets"], "doors": shot["doors"], "seq": shot["header"]["seq"]}


@pytest.mark.req("VIS-039", "VIS-226")
@pytest.mark.parametrize("prepare", ["new", "waiting", "passed", "session", "elsewhere", "bypass", "free", "bad"])
async def test_it_changes_nothing_for_a_head_request(site: Site, browser: Browser, prepare: str) -> None:
    await site.create(rules=(UrlRule("r1", "skip", "/free"),), rate_per_minute=0 if prepare == "waiting" else 600)
    url = "https://shop.example/free" if prepare == "free" else PAGE
    if prepare in {"waiting", "passed", "session", "elsewhere"}:
        await browser.join()
    if prepare in {"session", "elsewhere"}:
        assert (await browser.check(url=url)).json["reason"] == "admitted"
    if prepare == "elsewhere":
        browser.jar["qm_dk_shop"] = "A" * 43
    if prepare == "bad":
        browser.jar["qm_shop"] = "x.y"
    if prepare == "bypass":
        await site.update(state=RoomState.BYPASS)
    await site.advance(5)
    before = await records_of(site)

    path = "/api/check?room=shop&url=" + url.replace(":", "%3A")
    head = await browser.send("HEAD", path)
    assert await records_of(site) == before
    get = await browser.send("GET", path)

    assert head.status == get.status == 200
    assert len(head.reply.body) == len(get.reply.body)
    assert head.json.get("reason") == get.json["reason"]
    assert head.cookies == []
    assert (await records_of(site) != before) is (prepare in {"passed", "session"})


@pytest.mark.req("VIS-227")
async def test_it_finds_the_visitors_own_among_planted_cookies(site: Site, browser: Browser) -> None:
    await site.create()
    attacker = browser.twin(peer="203.0.113.66", agent="Evil/1.0")
    await attacker.released()
    await browser.released()
    own, planted = browser.jar, attacker.jar
    tokens = f"qm_shop={planted['qm_shop']}; qm_shop=rubbish; qm_shop={own['qm_shop']}"
    wrong_session = f"qms_shop={'A' * 43}; qms_shop={own['qms_shop']}; qm_dk_shop=planted"
    moved = browser.twin(peer="203.0.113.200", headers={"cookie": f"{tokens}; {wrong_session}"})
    whole_pair = f"{tokens}; qms_shop={planted['qms_shop']}; qms_shop={own['qms_shop']}"
    at_home = browser.twin(headers={"cookie": whole_pair})

    states = [(await who.status()).json for who in (moved, at_home)]
    rejoined = (await moved.join()).json
    answer = await moved.check(url=PAGE)

    assert [(state["state"], state["ticket"]) for state in states] == [("passed", 2)] * 2
    assert (rejoined["ticket"], rejoined["created"]) == (2, False)
    assert moved.jar["qms_shop"] == own["qms_shop"]
    assert answer.json["reason"] == "admitted"
    doors = f"qm_dk_shop=planted; qm_dk_shop={answer.json['doorKey']}; qm_shop={own['qm_shop']}"
    assert (await browser.twin(headers={"cookie": doors}).check(url=PAGE)).json["reason"] == "session"
    for planted_before, state in ((3, "active"), (4, "gone")):
        cookie = "qm_shop=rubbish; " * planted_before + f"qm_shop={own['qm_shop']}; qms_shop={own['qms_shop']}"
        assert (await browser.twin(headers={"cookie": cookie}).status()).json["state"] == state


async def test_it_never_lets_strange_bytes_in(site: Site, browser: Browser) -> None:
    await site.create()

    for text in ("%00", "%FF%FE", "é" * 300, "a" * 20000, "\x7f\x80", '"', "'; DROP TABLE", "%", "=;=;", "[" * 3000):
        for headers in ({"cookie": f"qm_shop={text}; qms_shop={text}; qm_dk_shop={text}"}, {"x-qm-door-key": text},
                        {"user-agent": text}, {"origin": text}):  # fmt: skip
            answer = await browser.send("GET", "/api/check?room=shop&token=" + "x" * 10, headers=headers)
            assert answer.status in {200, 403}
            assert answer.status == 403 or answer.json["action"] == "queue"
