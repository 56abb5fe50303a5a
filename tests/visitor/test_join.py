"""``POST /api/join``."""

from __future__ import annotations

import asyncio

import pytest

from app.core.clock import wall_ms
from app.core.ids import RoomId
from app.domain.facts import FactType
from app.domain.refs import ref_of
from app.domain.room import RoomState
from app.domain.tokens import Claims, VisitorTokens
from tests.journal.house import House, ticket_numbers
from tests.visitor.site import Browser, Site


def claims_of(site: Site, token: str, room: str = "shop") -> Claims:
    tokens = VisitorTokens(site.keyring, max_age_sec=86400, cookie_max_age_sec=86400)
    claims = tokens.verify(token, room, wall_ms())
    assert isinstance(claims, Claims)
    return claims


async def test_it_lets_the_first_visitor_of_an_idle_room_pass(site: Site, browser: Browser) -> None:
    await site.create()

    answer = await browser.join()

    state = answer.json
    assert answer.status == 200
    assert state.items() >= {
        "state": "passed", "roomId": "shop", "name": "shop", "roomState": "active", "created": True, "reason": "new",
        "ticket": 1, "waitedSec": 0, "holdsSlot": True, "pollMs": 5000, "ref": ref_of("shop", 1, 1),
    }.items()  # fmt: skip
    # The engine keeps ends in tenths of a second.
    assert abs(state["passExpiresAt"] - state["passedAt"] - 600_000) <= 100
    assert abs(state["claimUntil"] - state["passedAt"] - 120_000) <= 100
    assert state["location"] == "https://shop.example/?qm_token=" + state["token"]
    assert claims_of(site, state["token"])[:3] == ("shop", 1, 1)


async def test_it_gives_a_place_at_the_end_of_the_line(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()

    state = (await browser.twin(peer="198.51.100.8").join()).json

    assert state.items() >= {
        "state": "waiting", "ticket": 2, "position": 2, "ahead": 1, "estWaitSec": None, "estWaitIsFloor": False,
        "created": True, "reason": "new",
    }.items()  # fmt: skip
    assert state["joinedAt"] <= state["now"]


async def test_it_sets_the_ticket_and_the_session_cookie(site: Site, browser: Browser) -> None:
    await site.create()

    answer = await browser.join()

    ticket, session = answer.cookies
    assert ticket == f"qm_shop={answer.json['token']}; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax"
    assert session.startswith("qms_shop=")
    assert len(browser.jar["qms_shop"]) == 43
    assert session.endswith("; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax")
    assert browser.jar["qms_shop"] not in answer.reply.body.decode()


@pytest.mark.req("VIS-154", "ENG-072")
async def test_it_gives_the_same_place_to_the_same_browser(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    first = (await browser.join()).json

    again = await browser.join()

    assert again.json["created"] is False
    assert "reason" not in again.json
    assert again.json["ticket"] == first["ticket"]
    assert again.json["token"]
    by_token = await browser.twin().join(token=first["token"])
    assert by_token.json["ticket"] == first["ticket"]
    assert len(await site.house.journaled("shop", FactType.JOINED)) == 1


async def test_it_finds_the_place_by_the_session_cookie_alone(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    first = (await browser.join()).json
    del browser.jar["qm_shop"]
    session = browser.jar["qms_shop"]

    again = await browser.join()

    assert (again.json["ticket"], again.json["created"]) == (first["ticket"], False)
    assert browser.jar["qms_shop"] == session


async def test_it_makes_a_new_session_value_for_a_new_ticket(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    browser.jar["qms_shop"] = planted = "P" * 43

    await browser.join()

    assert browser.jar["qms_shop"] != planted
    thief = browser.twin(peer="203.0.113.1", agent="Other/1.0")
    thief.jar = {"qms_shop": planted, "qm_shop": browser.jar["qm_shop"]}
    assert (await thief.status()).json["reason"] == "bad_token"


@pytest.mark.parametrize(
    ("change", "same"),
    [({}, True), ({"agent": "Other/1.0"}, False), ({"peer": "203.0.113.1"}, False)],
)
async def test_it_gives_a_stranger_with_the_token_a_place_of_his_own(
    site: Site, browser: Browser, change: dict[str, str], same: bool
) -> None:
    await site.create(rate_per_minute=0)
    token = (await browser.join()).json["token"]

    answer = (await browser.twin(**change).join(token=token)).json

    assert (answer["ticket"] == 1) is same
    assert answer.get("reason") == (None if same else "bad_token")


@pytest.mark.parametrize("token", ["x", "a.b", "eyJ9.AAAA", "x" * 5000, "é"])
async def test_it_gives_a_new_place_for_a_token_it_refuses(site: Site, browser: Browser, token: str) -> None:
    await site.create(rate_per_minute=0)

    answer = await browser.join(token=token)

    assert (answer.status, answer.json["reason"], answer.json["created"]) == (200, "bad_token", True)
    assert site.visitor.counts.totals["rejectedTokens"] == 1


@pytest.mark.req("VIS-149", "ENG-287")
async def test_it_withdraws_the_place_when_the_commit_fails(idle_house: House, limiter: object) -> None:
    site = Site(idle_house, limiter)  # type: ignore[arg-type]
    await site.create(rate_per_minute=0, queue_max_per_ip=1)
    browser = Browser(site)

    joining = asyncio.ensure_future(browser.join())
    while not joining.done() and not idle_house.commits._deadlines:
        await asyncio.sleep(0.01)
    idle_house.commits.hear(b'{"failed":[["shop",1]]}')
    answer = await joining

    assert (answer.status, answer.code) == (503, "storage_unavailable")
    assert "retry-after" in answer.headers
    assert answer.cookies == []
    await idle_house.start_drainer()
    again = (await browser.join()).json
    assert again["position"] == 1
    assert ticket_numbers(await idle_house.journaled("shop", FactType.JOINED)) == [1, again["ticket"]]
    assert len(await idle_house.journaled("shop", FactType.JOIN_WITHDRAWN)) == 1


async def test_it_refuses_at_once_while_commits_fail(site: Site, browser: Browser) -> None:
    await site.create()
    site.house.commits.hear(b'{"failed":"*","by":""}')

    answer = await browser.join()

    assert (answer.status, answer.code) == (503, "storage_unavailable")
    header = await site.house.jobs.header(RoomId("shop"))
    assert header is not None
    assert header["last_ticket"] == 0


@pytest.mark.req("ENG-160", "ENG-161")
async def test_it_refuses_a_place_over_the_cap_of_the_address(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0, queue_max_per_ip=2)
    await browser.twin().join()
    await browser.twin().join()

    answer = await browser.join()
    elsewhere = await browser.twin(peer="198.51.100.99").join()

    assert (answer.status, answer.code) == (429, "queue_identity_limit")
    assert answer.json["error"] == "This address already holds 2 places in this line"
    assert answer.headers["retry-after"] == "30"
    assert answer.cookies == []
    assert answer.json.keys() == {"error", "code"}
    assert elsewhere.json["ticket"] == 3, "no number was used up"


@pytest.mark.req("VIS-231")
async def test_it_refuses_newcomers_while_the_store_is_short_of_memory(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    holder = browser.twin()
    await holder.join()

    await site.house.valkey.execute("CONFIG", "SET", "maxmemory", "1")
    try:
        answer, known = await browser.join(), await holder.join()
    finally:
        await site.house.valkey.execute("CONFIG", "SET", "maxmemory", "0")

    assert (answer.status, answer.code) == (503, "line_full")
    assert [answer.headers[name] for name in ("retry-after", "x-qm-queued")] == ["30", "1"]
    assert (answer.cookies, answer.json.keys()) == ([], {"error", "code"})
    assert (known.status, known.json["ticket"], known.json["created"]) == (200, 1, False)


async def test_it_gives_no_ticket_in_bypass(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()
    await site.update(state=RoomState.BYPASS)

    answer = await browser.join(returnUrl="https://shop.example/cart")

    assert answer.json.items() >= {"state": "bypass", "created": False, "location": "https://shop.example/cart"}.items()
    assert "token" not in answer.json
    assert answer.cookies == []


@pytest.mark.req("ENG-210")
@pytest.mark.parametrize(
    ("return_url", "location", "blocked"),
    [
        ("https://www.shop.example/a?b=1#c", "https://www.shop.example/a?b=1&qm_token={}#c", 0),
        ("https://www.shop.example/?qm_token=old&x=1", "https://www.shop.example/?x=1&qm_token={}", 0),
        ("https://evil.example/", "https://shop.example/?qm_token={}", 1),
        ("javascript:alert(1)", "https://shop.example/?qm_token={}", 1),
        ("/relative", "https://shop.example/?qm_token={}", 1),
        ("https://shop.example@evil.example/", "https://shop.example/?qm_token={}", 1),
        (None, "https://shop.example/?qm_token={}", 0),
    ],
)
async def test_it_sends_a_released_visitor_only_where_the_policy_allows(
    site: Site, browser: Browser, return_url: str | None, location: str, blocked: int
) -> None:
    await site.create(return_origins=("https://www.shop.example",))

    state = (await browser.join(returnUrl=return_url)).json

    assert state["location"] == location.format(state["token"])
    assert site.visitor.counts.totals["blockedReturnUrls"] == blocked
    assert site.visitor.counts.by_room["shop", "blockedReturnUrls"] == blocked


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "missing_room"),
        (b"{}", 400, "missing_room"),
        (b"[]", 400, "bad_json"),
        (b"{", 400, "bad_json"),
        (b"\xff", 400, "bad_json"),
        (b'{"roomId":7}', 400, "invalid_room_id"),
        (b'{"roomId":"shop","token":7}', 400, "invalid_token"),
        (b'{"roomId":"shop","returnUrl":{}}', 400, "invalid_return_url"),
        (b'{"roomId":"shop","from":[]}', 400, "invalid_from"),
        (b'{"roomId":"shop","rate":1}', 400, "unknown_field"),
        (b'{"roomId":"nowhere"}', 404, "no_room"),
        (b'{"roomId":"../x"}', 404, "no_room"),
        (b'{"roomId":"' + b"x" * 17000 + b'"}', 413, "body_too_large"),
    ],
)
async def test_it_refuses_what_it_cannot_read(
    site: Site, browser: Browser, body: bytes, status: int, code: str
) -> None:
    await site.create()

    answer = await browser.send("POST", "/api/join", body)

    assert (answer.status, answer.code) == (status, code)
    assert answer.json["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://evil.example", "content-type": "text/plain"}, 403),
        ({"origin": "null", "content-type": "application/x-www-form-urlencoded"}, 403),
        ({"origin": "https://evil.example", "content-type": "multipart/form-data; boundary=x"}, 403),
        ({"origin": "https://evil.example", "content-type": "application/json"}, 200),
        ({"origin": "https://queue.example", "content-type": "text/plain"}, 200),
        ({"content-type": "text/plain"}, 200),
    ],
)
@pytest.mark.parametrize("path", ["/api/join", "/api/leave"])
async def test_it_refuses_calls_of_other_sites(
    site: Site, browser: Browser, path: str, headers: dict[str, str], status: int
) -> None:
    await site.create()

    answer = await browser.send("POST", path, {"roomId": "shop"}, headers=headers)

    assert answer.status == status
    assert status == 200 or answer.code == "cross_site"


@pytest.mark.req("VIS-071", "CFG-068")
async def test_it_counts_joins_and_leaves_against_one_budget(house: House, limiter: object, site: Site) -> None:
    limited = Site(house, limiter, join_limit_per_min=2)  # type: ignore[arg-type]
    await limited.create()
    browser = Browser(limited)

    answers = [await browser.join(), await browser.send("POST", "/api/leave", {"roomId": "shop"}), await browser.join()]

    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[2].code == "rate_limited"
    budget = answers[2].request.budget
    assert budget is not None
    assert (budget.limit, budget.remaining) == (2, 0)
    header = await house.jobs.header(RoomId("shop"))
    assert header is not None
    assert header["last_ticket"] == 1
    assert (await browser.twin(peer="198.51.100.9").join()).status == 200


@pytest.mark.req("ENG-025")
async def test_it_takes_the_new_copy_of_a_room_that_was_changed(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    await site.update(name="Spring sale", target_url="https://other.example/")

    state = (await browser.join()).json

    assert state["name"] == "Spring sale"


async def test_it_says_stale_generation_to_whoever_was_in_an_earlier_room(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()
    await site.delete()
    gone = await browser.twin().join()
    assert (gone.status, gone.code) == (404, "no_room")

    await site.recreate(rate_per_minute=0)
    state = (await browser.join()).json

    assert (state["reason"], state["ticket"], state["created"]) == ("stale_generation", 1, True)
    assert claims_of(site, state["token"]).generation == 2


async def test_it_numbers_simultaneous_joins_without_gap_or_double(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)

    answers = await asyncio.gather(*(browser.twin().join() for _ in range(300)))

    assert sorted(answer.json["ticket"] for answer in answers) == list(range(1, 301))
