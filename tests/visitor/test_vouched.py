"""``/api/check`` by a connector that speaks for a visitor."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from structlog.testing import capture_logs

from app.core.secret import Secret
from app.domain.facts import FactType
from app.domain.from_tokens import MAX_AGE_MS, FromTokens
from app.domain.keyring import Keyring, Purpose
from app.domain.room import RoomState
from app.domain.tokens import Cause, SignedTokens, VisitorTokens
from app.infrastructure.rate_limiter import RateLimiter
from tests.journal.house import House
from tests.journal.snapshot import snapshot
from tests.visitor.site import AGENT, Answer, Browser, Site

KEY = "pk_a-public-key-of-the-tests-0123456789"
ADMIN = "the-admin-key-of-the-tests-0123456789"
PAGE = "https://shop.example/checkout"
CONNECTOR = "192.0.2.10"
VISITOR = "203.0.113.9"


class Connector:
    """A server-side connector: its own address, its key, and visitors it names."""

    def __init__(self, site: Site, key: str | None = KEY, *, peer: str = CONNECTOR) -> None:
        self._browser = Browser(site, peer=peer, agent="connector/1.0")
        self.headers = {} if key is None else {"authorization": f"Bearer {key}"}

    async def check(self, room: str = "shop", *, method: str = "GET", **named: str) -> Answer:
        """The check of a visitor: by default one with the looks of ``Browser`` at VISITOR, on PAGE."""
        query = {"room": room, "ip": VISITOR, "agent": AGENT, "url": PAGE, **named}
        text = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items() if value is not None)
        return await self.send(f"/api/check?{text}", method=method)

    async def send(self, path: str, body: Any = None, *, method: str = "GET", **headers: str) -> Answer:
        return await self._browser.send(method, path, body, headers={**self.headers, **headers}, cookies=False)


@pytest.fixture
def site(house: House, limiter: RateLimiter) -> Site:
    return make(house, limiter)


def make(house: House, limiter: RateLimiter, **settings: Any) -> Site:
    """A site that knows both keys."""
    return Site(house, limiter, **{"public_api_key": Secret(KEY), "admin_key": Secret(ADMIN), **settings})


async def placed(site: Site, peer: str = VISITOR, **join: Any) -> dict[str, Any]:
    """A visitor who has joined at the queue's own host; the state he was told."""
    return (await Browser(site, peer=peer).join(**join)).json


@pytest.mark.req("ENG-104")
async def test_it_matches_loosely_only_what_a_connector_vouches_for(site: Site) -> None:
    await site.create()
    holder = Browser(site, peer=VISITOR)
    await holder.released()
    token, connector = holder.jar["qm_shop"], Connector(site)

    elsewhere = Browser(site, peer=CONNECTOR, headers={"x-forwarded-for": VISITOR})

    assert (await connector.check(token=token, ip="203.0.113.10")).json["reason"] == "bad_token"
    assert (await connector.check(token=token, agent="Other/2.0")).json["reason"] == "bad_token"
    assert (await elsewhere.tag_check(token=token, url=PAGE)).json["reason"] == "bad_token", "nobody vouches for it"
    assert (await connector.check(token=token)).json["reason"] == "admitted", "whatever peer the connector has"


@pytest.mark.req("VIS-132", "VIS-135", "VIS-217", "CFG-137")
@pytest.mark.parametrize("key", [KEY, ADMIN])
async def test_it_walks_a_visitor_in_for_a_connector(site: Site, key: str) -> None:
    await site.create()
    connector = Connector(site, key)

    first = await connector.check()
    token = (await placed(site))["token"]
    stolen = [await connector.check(token=token, ip="203.0.113.99"), await connector.check(token=token, agent="X/1")]
    entered = (await connector.check(token=token)).json
    inside = await connector.send(
        f"/api/check?room=shop&ip={VISITOR}&agent=Other&token={token}", **{"x-qm-door-key": entered["doorKey"]}
    )

    assert (first.json["action"], first.json["reason"], first.json["roomState"]) == ("queue", "new", "active")
    assert [answer.json["reason"] for answer in stolen] == ["bad_token"] * 2
    assert entered.keys() == {"action", "roomId", "reason", "doorKey", "sessionExpiresAt", "recheckSec"}
    assert (entered["action"], entered["reason"]) == ("pass", "admitted")
    assert inside.json["reason"] == "session", "the door key proves the session by itself"
    assert (await connector.check(token=token)).json["reason"] == "session_elsewhere"


@pytest.mark.req("VIS-134")
async def test_it_reads_and_sets_no_cookie_and_asks_no_origin(site: Site) -> None:
    await site.create()
    joined = await placed(site)
    own = {"cookie": f"qm_shop={joined['token']}", "origin": "https://evil.example", "sec-fetch-mode": "navigate"}

    by_cookie = await Connector(site).send(f"/api/check?room=shop&ip={VISITOR}&agent={quote(AGENT)}", **own)
    entered = await Connector(site).send(
        "/api/check?room=shop",
        {"ip": VISITOR, "agent": AGENT, "token": joined["token"], "url": PAGE, "doorKey": "x", "tag": "1"},
        method="POST",
        **own,
    )

    assert (by_cookie.status, by_cookie.json["reason"]) == (200, "new")
    assert entered.json["reason"] == "admitted"
    for answer in (by_cookie, entered):
        assert answer.cookies == []
        assert not any(name.startswith("access-control") for name in answer.headers)
    assert site.visitor.counts.refused_origins == {}


@pytest.mark.req("VIS-134", "VIS-135", "ENG-091")
async def test_it_gives_a_token_that_grew_old_anew_without_a_cookie(site: Site) -> None:
    await site.create()
    await placed(site)
    tokens = VisitorTokens(site.keyring, max_age_sec=86400, cookie_max_age_sec=86400)
    old = tokens.sign("shop", 1, 1, int(time.time() * 1000) - 43_300_000)

    answer = await Connector(site).check(token=old)

    assert answer.json["reason"] == "admitted"
    assert answer.json["token"] not in ("", old)
    assert answer.cookies == []


@pytest.mark.req("VIS-133")
async def test_it_wants_address_and_agent_and_takes_an_empty_agent(site: Site) -> None:
    await site.create()
    connector = Connector(site)

    for path, code in (
        ("/api/check?room=shop&agent=x", "missing_ip"),
        ("/api/check?room=shop&agent=x&ip=", "missing_ip"),
        (f"/api/check?room=shop&ip={VISITOR}", "missing_agent"),
        ("/api/check?room=shop&agent=x&ip=shop.example", "invalid_ip"),
        ("/api/check?room=shop&agent=x&ip=203.0.113.9%2F24", "invalid_ip"),
        ("/api/check?room=shop&agent=x&ip=203.0.113.009%00", "invalid_ip"),
    ):
        answer = await connector.send(path)
        assert (answer.status, answer.code) == (400, code), path
    assert (await connector.check(agent="")).json["reason"] == "new"
    nameless = Browser(site, peer="203.0.113.50", headers={"user-agent": ""})
    token = (await nameless.join()).json["token"]
    assert (await connector.check(agent="", ip="203.0.113.50", token=token)).json["reason"] == "admitted"


@pytest.mark.req("VIS-133")
async def test_it_knows_an_agent_again_whatever_bytes_it_has(site: Site) -> None:
    await site.create(rate_per_minute=0)
    strange = (
        b"Mozilla/5.0 \xff\xfe (\xc3\xa9)",
        b"A" * 600,
        b"B" * 3000,
        b"tab\tand\x01control",
        "ü漢".encode() * 400,
    )

    for agent in strange:
        token = (await Browser(site, peer=VISITOR, agent=agent.decode("latin-1")).join()).json["token"]
        answer = await Connector(site).send(f"/api/check?room=shop&ip={VISITOR}&agent={quote(agent)}&token={token}")
        assert answer.json["reason"] == "waiting"


@pytest.mark.req("VIS-136", "VIS-137")
async def test_it_refuses_every_other_key_and_counts_it(house: House, limiter: RateLimiter) -> None:
    site = make(house, limiter, admin_auth_fail_per_min=3)
    await site.create()
    wrong, right = Connector(site, "wrong-key"), Connector(site)

    answers = [await Connector(site, None).check() for _ in range(5)]
    answers.append(await right.send(f"/api/check?room=shop&ip={VISITOR}&agent=x", authorization="Bearer "))
    assert (await right.check()).status == 200, "what brings no key counts against nobody"
    answers += [await wrong.check(), await right.send("/api/check?room=shop&ip=1.2.3.4", authorization="Basic eA==")]
    assert (await right.check()).status == 200
    answers.append(await wrong.check())
    locked = [await right.check(), await Connector(site, ADMIN).check(), await wrong.check()]

    for answer in (*answers, *locked):
        assert (answer.status, answer.code, answer.cookies) == (401, "unauthorized", [])
    number = len(answers) + len(locked)
    counts = site.visitor.counts
    assert (counts.totals["refusedKeyChecks"], counts.by_room["shop", "refusedKeyChecks"]) == (number, number)
    assert (await Connector(site, peer="192.0.2.11").check()).status == 200, "another address is not locked"
    assert (await wrong.check("nowhere")).status == 401
    assert counts.totals["refusedKeyChecks"] == number + 1
    assert counts.unknown_rooms == {}, "who has no key learns of no room"


@pytest.mark.req("VIS-137", "CFG-141")
async def test_it_shares_the_lock_with_the_admin_doors_and_the_fleet(house: House, limiter: RateLimiter) -> None:
    site = make(house, limiter, admin_auth_fail_per_min=2)
    await site.create()
    table = RateLimiter.create("qm-another-instance", workers=1, max_keys=4096)
    other = make(house, RateLimiter.attach(table.name, 0), admin_auth_fail_per_min=2)
    await other.create("drop")

    for _ in range(2):
        await Connector(site, "guess").check()
    elsewhere = await Connector(other).check("drop")
    count, _ = await site.lockout._count(Browser(site, peer=CONNECTOR).client({}).key, failed=False)

    assert elsewhere.status == 401, "the failures of one instance lock the address at the next"
    assert count == 2, "one budget with the admin API"
    await other.stop()
    table.close()


@pytest.mark.req("CFG-228")
async def test_it_hears_a_listed_connector_although_its_address_is_locked(house: House, limiter: RateLimiter) -> None:
    ranges = (ipaddress.ip_network("192.0.2.0/28"),)
    site = make(house, limiter, admin_auth_fail_per_min=2, connector_ips=ranges)
    await site.create()

    for _ in range(5):
        assert (await Connector(site, "guess").check()).status == 401

    assert (await Connector(site).check()).json["reason"] == "new"
    assert (await Connector(site, ADMIN).check()).status == 401, "the owner's key is not examined there"
    assert (await Connector(site, peer="192.0.2.99").check()).status == 200
    for _ in range(2):
        await Connector(site, "guess", peer="192.0.2.99").check()
    assert (await Connector(site, peer="192.0.2.99").check()).status == 401, "an address that is not listed"


@pytest.mark.req("VIS-138", "CFG-139", "ADM-047", "PAG-050")
@pytest.mark.parametrize("name", ["key", "api_key"])
async def test_it_never_looks_at_a_key_in_the_address(site: Site, name: str) -> None:
    await site.create()

    with capture_logs() as lines:
        answers = [await Connector(site).send(f"/api/check?room=shop&ip=1.2.3.4&agent=x&{name}={KEY}") for _ in "ab"]

    for answer in answers:
        assert (answer.status, answer.code) == (401, "credential_in_query")
        assert KEY not in answer.reply.body.decode()
    assert site.visitor.counts.by_room["shop", "refusedKeyChecks"] == 2
    assert KEY not in str(lines)
    assert len([line for line in lines if line["event"] == "credential_in_query_refused"]) <= 1
    assert (await Connector(site).check()).status == 200, "it counts against nobody"


@pytest.mark.req("VIS-075", "VIS-136", "ADM-028")
@pytest.mark.req("CFG-069")
async def test_it_charges_the_visitor_it_names_and_no_direct_caller(house: House, limiter: RateLimiter) -> None:
    site = make(house, limiter, check_limit_per_min=2)
    await site.create()
    visitor, connector = Browser(site, peer=VISITOR), Connector(site)

    vouched = [(await connector.check()).status for _ in range(3)]
    direct = [(await visitor.check()).status for _ in range(3)]
    own = [(await Browser(site, peer=CONNECTOR).check()).status for _ in range(2)]
    others = [(await connector.check(ip=f"198.18.0.{number}")).status for number in range(50)]
    malformed = await connector.send("/api/check?room=shop&ip=nothing&agent=x")

    assert vouched == [200, 200, 429]
    assert direct == [200, 200, 429]
    assert own == [200, 200]
    assert others == [200] * 50
    assert malformed.request.budget is not None
    assert malformed.request.budget[:3] == (True, 2, 2)
    refused = [(await Connector(site, None, peer="192.0.2.77").check()).status for _ in range(3)]
    assert refused == [401, 401, 429], "who has no key pays for himself"
    assert (await visitor.twin(peer="192.0.2.77").check()).status == 429
    assert site.visitor.counts.totals["rateLimitedChecks"] == 3


@pytest.mark.req("VIS-077", "VIS-075")
async def test_a_limited_visitor_keeps_all_he_has(house: House, limiter: RateLimiter) -> None:
    site = make(house, limiter, check_limit_per_min=1)
    await site.create()
    visitor = Browser(site, peer=VISITOR)
    token = (await visitor.join()).json["token"]
    await Connector(site).check()
    before = await snapshot(site.house.valkey, site.house.prefix, "shop")

    limited = await Connector(site).check(token=token)

    assert (limited.status, limited.code) == (429, "rate_limited")
    after = await snapshot(site.house.valkey, site.house.prefix, "shop")
    assert (after["tickets"], after["doors"]) == (before["tickets"], before["doors"])
    assert (await visitor.status()).json["state"] == "passed"


@pytest.mark.req("VIS-131")
async def test_it_tells_a_key_holder_of_a_room_that_is_none(site: Site) -> None:
    answers = [await Connector(site).check("chekout"), await Browser(site).check("chekout")]
    nameless = await Connector(site).send(f"/api/check?ip={VISITOR}&agent=x")

    assert [(answer.status, answer.code) for answer in answers] == [(404, "no_room")] * 2
    assert (nameless.status, nameless.code) == (400, "missing_room")
    assert site.visitor.counts.totals["unknownRoomChecks"] == 2
    assert site.visitor.counts.unknown_rooms["chekout"][0] == 2


@pytest.mark.req("VIS-139")
async def test_it_hands_the_visitor_where_it_saw_him_for_ten_minutes_and_one_room(site: Site) -> None:
    await site.create(return_origins=("https://www.shop.example",))
    await site.create("drop")
    now = int(time.time() * 1000)

    with_page = urlsplit((await Connector(site).check()).json["location"])
    elsewhere = urlsplit((await Connector(site).check(url="https://evil.example/")).json["location"])
    direct = (await Browser(site).check(url=PAGE)).json["location"]

    for parts, names in ((with_page, {"qm_return", "qm_from"}), (elsewhere, {"qm_from"})):
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == "http://queue.example/w/shop"
        assert parse_qs(parts.query).keys() == names
    assert "qm_from" not in direct
    value = parse_qs(with_page.query)["qm_from"][0]
    tokens = FromTokens(site.keyring)
    assert len(tokens.read(value, "shop", now)) == 16
    assert tokens.read(value, "shop", now + MAX_AGE_MS + 2000) == b""
    assert tokens.read(value, "drop", now) == b""
    assert FromTokens(Keyring("another-secret-of-32-characters-!")).read(value, "shop", now) == b""
    assert VisitorTokens(site.keyring, max_age_sec=600, cookie_max_age_sec=600).verify(value, "shop", now) == (
        Cause.MALFORMED
    )


@pytest.mark.req("VIS-139", "ENG-110")
async def test_it_knows_a_visitor_who_reaches_site_and_queue_from_two_addresses(site: Site) -> None:
    await site.create(rate_per_minute=0)
    at_queue, at_site = "2001:db8::7", VISITOR

    async def walked(value: str | None) -> str:
        fields = {} if value is None else {"from": value}
        token = (await Browser(site, peer=at_queue).join(**fields)).json["token"]
        return str((await Connector(site).check(ip=at_site, token=token)).json["reason"])

    def sent_along(answer: Answer) -> str:
        return parse_qs(urlsplit(answer.json["location"]).query)["qm_from"][0]

    good = sent_along(await Connector(site).check(ip=at_site))
    await site.create("drop")
    foreign = sent_along(await Connector(site).check("drop", ip=at_site))
    other = sent_along(await Connector(site).check(ip="203.0.113.77"))

    reasons = [await walked(value) for value in (None, good[:-2] + "AA", foreign, other, "", "x" * 5000)]
    assert reasons == ["bad_token"] * 6
    assert await walked(good) == "waiting"
    token = (await Browser(site, peer=at_queue).join(**{"from": good})).json["token"]
    assert (await Browser(site, peer=at_site).tag_check(token=token)).json["reason"] == "bad_token", "vouched only"


@pytest.mark.req("VIS-139", "ENG-292")
@pytest.mark.parametrize("sign_v2", [False, True])
def test_it_takes_nothing_but_a_from_for_a_from(sign_v2: bool) -> None:
    keyring, now = Keyring("a-secret-of-more-than-32-characters!", sign_v2=sign_v2), 1_788_253_200_000
    tokens = FromTokens(keyring)
    good: dict[str, Any] = {"scope": "from", "room": "shop", "print": "q6urq6urq6urq6urq6urqw", "iat": now}
    visitor = SignedTokens(keyring, Purpose.VISITOR)

    assert tokens.read(tokens.sign("shop", b"\xab" * 16, now), "shop", now) == b"\xab" * 16
    assert tokens.read(visitor.sign(good), "shop", now) == b"\xab" * 16
    for change in (
        {"scope": "monitor"}, {"scope": None}, {"room": "drop"}, {"room": 1}, {"print": "ab"}, {"print": "ab" * 16},
        {"print": 7}, {"iat": str(now)}, {"iat": True}, {"iat": now + 60_001}, {"iat": now - MAX_AGE_MS - 1},
        {"iat": None},
    ):  # fmt: skip
        assert tokens.read(visitor.sign({**good, **change}), "shop", now) == b"", change
    ticket = VisitorTokens(keyring, max_age_sec=600, cookie_max_age_sec=600)
    for text in (ticket.sign("shop", 1, 1, now), "", "x.y", "é", visitor.sign(good)[:-1], "a" * 5000):
        assert tokens.read(text, "shop", now) == b""
    for purpose in (Purpose.SESSION, Purpose.MONITOR):
        foreign = SignedTokens(keyring, purpose).sign(good)
        assert (tokens.read(foreign, "shop", now) == b"") is sign_v2
    assert ticket.verify(tokens.sign("shop", bytes(16), now), "shop", now) is Cause.MALFORMED


@pytest.mark.req("VIS-140", "ENG-137")
async def test_it_marks_nobody_as_seen(site: Site) -> None:
    await site.create(rate_per_minute=0)
    token = (await placed(site))["token"]
    await site.advance(5)
    before = await snapshot(site.house.valkey, site.house.prefix, "shop")

    answer = await Connector(site).check(token=token)

    assert answer.json["reason"] == "waiting"
    after = await snapshot(site.house.valkey, site.house.prefix, "shop")
    assert after["tickets"] == before["tickets"]
    assert (await Connector(site).check(token=token, method="HEAD")).json["reason"] == "waiting"


@pytest.mark.req("VIS-141", "ENG-146")
async def test_it_admits_only_what_was_committed(idle_house: House, limiter: RateLimiter) -> None:
    site = make(idle_house, limiter)
    tokens = {}

    async def committed(room: str, task: asyncio.Future[Any]) -> Any:
        while not task.done():
            await idle_house.drain(room)
            await idle_house.commits._ask_now()
            await asyncio.sleep(0.01)
        return task.result()

    async def entering(room: str) -> asyncio.Task[Answer]:
        task = asyncio.ensure_future(Connector(site).check(room, token=tokens[room]))
        while not any(not waiting.done() for _, waiting in idle_house.commits._deadlines):
            await asyncio.sleep(0.01)
        assert not task.done()
        return task

    for room in ("shop", "drop"):
        await site.create(room)
        tokens[room] = (await committed(room, asyncio.ensure_future(placed(site, room=room))))["token"]
    entered = await committed("shop", await entering("shop"))
    lost = await entering("drop")
    idle_house.commits.hear(b'{"failed":[["drop",1]]}')
    failed = await lost
    await idle_house.drain("drop")

    assert entered.json["reason"] == "admitted"
    assert (failed.status, failed.code, failed.headers["retry-after"]) == (503, "storage_unavailable", "5")
    for kind in (FactType.ADMITTED, FactType.ADMISSION_WITHDRAWN):
        assert len(await idle_house.journaled("drop", kind)) == 1
    assert (await Browser(site, peer=VISITOR).status("drop", token=tokens["drop"])).json["state"] == "passed"


@pytest.mark.req("VIS-136")
async def test_it_takes_no_word_for_a_visitor_in_a_value(site: Site) -> None:
    """A visitor whose token is ``ip`` is no connector: he would be refused, and the tag fails open."""
    await site.create(state=RoomState.PAUSED)

    for fields in ({"token": "ip"}, {"url": "agent"}, {"doorKey": "ip"}):
        assert (await Browser(site).tag_check(**fields)).status == 200
    assert (await Browser(site).tag_check(ip="1.2.3.4")).status == 401
    assert (await Browser(site).send("POST", "/api/check?room=shop", b'{"ip":')).code == "bad_json"


@pytest.mark.req("CFG-142")
async def test_without_a_public_key_only_the_owners_opens_the_door(house: House, limiter: RateLimiter) -> None:
    site = make(house, limiter, public_api_key=None)
    await site.create()

    assert (await Connector(site).check()).status == 401
    assert (await Connector(site, ADMIN).check()).status == 200
