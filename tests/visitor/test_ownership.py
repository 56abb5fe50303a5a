"""Who owns a ticket, over the visitor's routes: cookies, fingerprints, door keys, reclaim, sharing."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

import pytest

from app.core.clock import wall_ms
from app.core.ids import RoomId
from app.domain import edge_secret
from app.domain.client_address import TrustPolicy
from app.domain.facts import decode_body
from app.domain.facts_of_tickets import Joined
from app.domain.fingerprint import Digester
from app.domain.from_tokens import FromTokens
from app.infrastructure.engine_results import CheckItem, Presented, Proof, Verdict, Via
from app.services.room_object import RoomView, room_object
from app.services.room_reduced import reduced_object
from app.services.visitor_counts import Counted
from tests.journal.house import SALT, until
from tests.visitor.site import AGENT, Browser, Site
from tests.visitor.test_streams import opened

PAGE = "https://shop.example/cart"
SHOP = RoomId("shop")


async def admitted(browser: Browser) -> str:
    """Join, be released and walk in; the door key."""
    await browser.released()
    answer = (await browser.check(url=PAGE)).json
    assert answer["reason"] == "admitted", answer
    return str(answer["doorKey"])


@pytest.mark.req("ENG-102", "ENG-109", "ENG-152")
async def test_it_makes_every_secret_of_32_random_bytes_and_keeps_only_digests(site: Site, browser: Browser) -> None:
    await site.create()
    other = browser.twin(peer="198.51.100.8")
    values = []
    for one in (browser, other):
        key = await admitted(one)
        values += [one.jar["qms_shop"], key]

    again = await browser.check(url=PAGE)
    assert "doorKey" not in again.json, "handed over once"
    assert not any(cookie.startswith("qm_dk_") for cookie in again.cookies)
    assert browser.jar["qm_dk_shop"] == values[1]
    assert len(set(values)) == 4
    assert {len(value) for value in values} == {43}
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", value) for value in values)
    stored = b""
    for name in await site.house.valkey.execute("KEYS", f"{site.house.prefix}*"):
        kind = await site.house.valkey.execute("TYPE", name)
        if kind == b"string":
            stored += await site.house.valkey.execute("GET", name)
        elif kind == b"hash":
            stored += repr(await site.house.valkey.execute("HGETALL", name)).encode()
    rows = await site.house.postgres.fetch("SELECT body FROM events")
    stored += b"".join(row["body"] for row in rows)
    assert not any(value.encode() in stored for value in values)
    digests = Digester(SALT)
    assert digests.door(values[1]) in stored
    assert digests.cookie(values[0]) in stored


@pytest.mark.req("ENG-105")
async def test_it_keeps_salted_digests_and_the_readable_address_in_the_journal_alone(
    site: Site, browser: Browser
) -> None:
    await site.create()
    await browser.join()
    await site.create("other")
    await browser.join("other")

    live = b""
    for name in await site.house.valkey.execute("KEYS", f"{site.house.prefix}{{shop}}:*"):
        if await site.house.valkey.execute("TYPE", name) == b"string":
            live += await site.house.valkey.execute("GET", name)
    row, fact = await joined_fact(site)
    digests, packed = Digester(SALT), bytes(10) + b"\xff\xff" + bytes([198, 51, 100, 7])

    assert (fact.address, fact.cookie) == (digests.address(packed), digests.cookie(browser.jar["qms_shop"]))
    assert fact.strict == digests.strict("198.51.100.7", "", AGENT.encode())
    assert fact.loose == digests.loose(packed, AGENT.encode())
    assert {len(value) for value in (fact.cookie, fact.strict, fact.loose)} == {16}
    assert bytes([198, 51, 100, 7]) not in live
    assert b"198.51.100" not in live
    assert packed == bytes(row["ip"])
    assert Digester(b"x" * 16).loose(packed, AGENT.encode()) != fact.loose, "another room's salt, another digest"


async def joined_fact(site: Site) -> tuple[Any, Joined]:
    """The one join of the shop in the journal: its row, and what it says."""
    (row,) = await site.house.postgres.fetch("SELECT ip, body FROM events WHERE room = 'shop' AND type = 6")
    fact = decode_body(6, 1, row["body"][:4] + bytes(16) + row["body"][4:])
    assert isinstance(fact, Joined)
    return row, fact


def proxied(site: Site) -> None:
    site.policy = TrustPolicy.of(1, [ipaddress.ip_network("10.0.0.0/8")])


@pytest.mark.req("ENG-103", "ENG-104", "CFG-112")
async def test_it_believes_the_chain_of_a_declared_proxy_alone(site: Site, browser: Browser) -> None:
    await site.create()
    proxied(site)
    forged = {"x-forwarded-for": "203.0.113.9"}
    direct = browser.twin(peer="198.51.100.7", headers=forged)
    token = (await direct.join()).json["token"]
    bare = browser.twin(peer="198.51.100.7")
    behind = browser.twin(peer="10.0.0.1", headers=forged)
    shown = (await behind.join()).json["token"]

    without_header = await bare.status(token=token)
    other_chain = browser.twin(peer="10.0.0.1", headers={"x-forwarded-for": "203.0.113.10"})
    other_edge = browser.twin(peer="10.0.0.2", headers=forged)
    replayed = browser.twin(peer="198.51.100.66", headers=forged)
    other_agent = browser.twin(peer="10.0.0.2", headers=forged, agent="Other/2.0")

    assert without_header.json["ticket"] == 1, "from an undeclared peer the header is not looked at"
    assert (await other_edge.status(token=shown)).json["ticket"] == 2, "another node of the same proxy"
    for stranger in (other_chain, replayed, other_agent):
        assert (await stranger.status(token=shown)).json["reason"] == "bad_token"


@pytest.mark.req("ENG-103", "ENG-104", "CFG-112")
async def test_it_takes_the_address_that_the_edge_names_for_the_chain(site: Site, browser: Browser) -> None:
    await site.create()
    secret = "a-secret-between-the-edge-and-us"
    site.policy = TrustPolicy.of(1, [ipaddress.ip_network("10.0.0.0/8")], [secret])

    def through(peer: str, visitor: str, **more: str) -> Browser:
        return browser.twin(
            peer=peer, headers={edge_secret.HEADER.decode(): secret, "cf-connecting-ip": visitor, **more}
        )

    async def ticket(asking: Browser) -> object:
        return (await asking.status(token=token)).json.get("ticket")

    token = (await through("172.16.0.1", "203.0.113.9").join()).json["token"]

    same_node = through("172.16.0.1", "203.0.113.9", **{"x-forwarded-for": "192.0.2.1"})
    _, fact = await joined_fact(site)
    assert fact.strict == Digester(SALT).strict("172.16.0.1", "203.0.113.9", AGENT.encode())
    assert await ticket(same_node) == 1, "what the client itself forwards is not looked at"
    assert await ticket(through("172.16.0.2", "203.0.113.9")) == 1, "another node of the edge"
    assert await ticket(through("172.16.0.1", "203.0.113.10")) is None, "another visitor"
    assert await ticket(browser.twin(peer="203.0.113.9")) is None, "the same address without the secret"


@pytest.mark.req("ENG-112", "CFG-112")
async def test_it_keeps_place_and_pass_of_a_cookieless_visitor_behind_changing_edge_nodes(
    site: Site, browser: Browser
) -> None:
    await site.create()
    proxied(site)
    header = {"x-forwarded-for": "203.0.113.9"}
    nodes = [browser.twin(peer=f"10.0.0.{i}", headers=header) for i in range(1, 5)]
    token = (await nodes[0].join()).json["token"]

    seen = (await nodes[1].send("GET", f"/api/status?room=shop&token={token}", cookies=False)).json
    joined = (await nodes[2].send("POST", "/api/join", {"roomId": "shop", "token": token}, cookies=False)).json
    answer = (await nodes[3].tag_check(token=token, url=PAGE)).json

    assert (seen["state"], seen["ticket"]) == ("passed", 1)
    assert (joined["ticket"], joined["created"]) == (1, False)
    assert (answer["action"], answer["reason"]) == ("pass", "admitted")


@pytest.mark.req("ENG-108")
async def test_it_knows_the_tag_of_an_owner_who_moved_while_he_waited(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()
    await site.update(rate_per_minute=600)
    mobile = browser.twin(peer="203.0.113.50")
    mobile.jar = dict(browser.jar)
    token = browser.jar["qm_shop"]

    before = (await mobile.tag_check(token=token, url=PAGE)).json
    await mobile.released()
    after = (await mobile.tag_check(token=token, url=PAGE)).json
    at_home = (await browser.tag_check(token=token, url=PAGE)).json

    assert before["reason"] == "bad_token"
    assert after["reason"] == "admitted"
    assert at_home["reason"] == "bad_token", "the old network is nobody's any more"


@pytest.mark.req("ENG-301")
async def test_it_gives_the_planter_of_cookies_neither_place_nor_pass(site: Site, browser: Browser) -> None:
    await site.create(queue_max_per_ip=None)
    attacker = browser.twin(peer="203.0.113.66", agent="Evil/1.0")
    await attacker.released()
    theirs = dict(attacker.jar)
    chosen = "A" * 43

    with_value = browser.twin(peer="198.51.100.20", headers={"cookie": f"qms_shop={chosen}"})
    with_token = browser.twin(peer="198.51.100.21", headers={"cookie": f"qm_shop={theirs['qm_shop']}"})
    own = browser.twin(peer="198.51.100.22")
    await own.released()
    beside = {
        "cookie": f"qm_shop={theirs['qm_shop']}; qm_shop={own.jar['qm_shop']}; "
        f"qms_shop={theirs['qms_shop']}; qms_shop={own.jar['qms_shop']}"
    }
    victim = browser.twin(peer="198.51.100.22", headers=beside)

    new = []
    for planted in (with_value, with_token):
        answer = (await planted.join()).json
        new.append((answer, planted.jar["qms_shop"]))
    kept = [(await victim.status()).json, (await victim.join()).json]

    for answer, value in new:
        assert answer["created"] is True
        assert value not in (chosen, theirs["qms_shop"])
        thief = browser.twin(peer="203.0.113.66", agent="Evil/1.0")
        thief.jar = {"qm_shop": answer["token"], "qms_shop": chosen}
        assert (await thief.status()).json["reason"] == "bad_token"
        assert (await thief.check(url=PAGE)).json["action"] == "queue"
    assert [state["ticket"] for state in kept] == [2, 2], "his own live ticket stays his"
    attacker.jar = {"qm_shop": own.jar["qm_shop"], "qms_shop": theirs["qms_shop"]}
    assert (await attacker.status()).json["reason"] == "bad_token"
    assert (await own.check(url=PAGE)).json["reason"] == "admitted"


@pytest.mark.req("VIS-155", "ENG-156", "ENG-157", "ENG-158")
async def test_it_gives_a_session_back_to_its_owner_by_a_join(site: Site, browser: Browser) -> None:
    await site.create(max_concurrent=1)
    before = await browser.released()
    thief = browser.twin()
    stolen = (await thief.tag_check(token=browser.jar["qm_shop"], url=PAGE)).json
    browser.peer = "203.0.113.99"

    elsewhere = (await browser.check(url=PAGE)).json
    answer = (await browser.join()).json
    rows = await site.house.journaled("shop", 15)
    thief_check = (await thief.tag_check(token=browser.jar["qm_shop"], doorKey=stolen["doorKey"], url=PAGE)).json
    thief_join = (await thief.join(token=browser.jar["qm_shop"])).json
    again = (await browser.check(url=PAGE)).json

    assert stolen["reason"] == "admitted"
    assert elsewhere["reason"] in ("session", "session_elsewhere")
    assert (answer["state"], answer["reason"], answer["created"]) == ("passed", "reclaimed", False)
    assert (answer["ticket"], answer["passedAt"], answer["waitedSec"]) == (
        before["ticket"], before["passedAt"], before["waitedSec"],
    )  # fmt: skip
    assert len(rows) == 1, "in the journal before it was answered"
    assert thief_check["action"] == "queue"
    assert (thief_join["created"], thief_join["ticket"]) == (True, 2)
    assert again["reason"] == "admitted"
    assert again["doorKey"] != stolen["doorKey"]


async def test_it_answers_a_join_with_the_door_key_with_the_running_session(site: Site, browser: Browser) -> None:
    await site.create()
    await admitted(browser)

    answer = (await browser.join()).json

    assert (answer["state"], answer["created"], "reason" in answer) == ("active", False, False)


@pytest.mark.req("ENG-110")
async def test_it_takes_over_the_signed_fingerprint_of_a_connector(site: Site, browser: Browser) -> None:
    await site.create()
    digests = Digester(SALT)
    packed = bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 44])
    loose = digests.loose(packed, AGENT.encode())
    froms = FromTokens(site.keyring)
    value = froms.sign("shop", loose, wall_ms())
    foreign = froms.sign("other", bytes(16), wall_ms())

    await browser.join(**{"from": foreign})
    await browser.join(**{"from": "forged"})
    ignored = await site.house.valkey.execute("EXISTS", f"{site.house.prefix}{{shop}}:1:f")
    state = (await browser.join(**{"from": value})).json
    room = site.rooms.copies["shop"]
    proof = Proof(Presented.VALID, 1, state["ticket"], b"", b"connector-------", loose, is_loose_proof=True)
    vouched = CheckItem(proof, True, bytes(16), Via.VOUCHED)
    direct = vouched._replace(via=Via.DIRECT)

    refused = await site.house.engine.check(room, direct)
    answer = await site.house.engine.check(room, vouched)

    assert ignored == 0
    assert refused.verdict is Verdict.QUEUE
    assert answer.verdict is Verdict.ADMITTED


@pytest.mark.req("ENG-298")
async def test_it_counts_and_refuses_the_seventeenth_address_of_a_session(site: Site, browser: Browser) -> None:
    await site.create()
    key = await admitted(browser)
    token = browser.jar["qm_shop"]

    async def use(peer: str, **headers: str) -> dict[str, Any]:
        friend = browser.twin(peer=peer, headers=headers)
        return (await friend.tag_check(token=token, doorKey=key, url=PAGE)).json

    first = [await use(f"203.0.113.{i}") for i in range(1, 16)]
    over = await use("203.0.113.200")
    same_network = await use("203.0.113.3")
    marked: dict[str, Any] = {}
    for _ in range(10):
        marked = await use("203.0.113.201", **{"x-forwarded-for": "192.0.2.1"})

    assert {answer["reason"] for answer in first} == {"session"}
    assert (over["action"], over["reason"]) == ("queue", "session_elsewhere")
    assert same_network["reason"] == "session"
    assert marked["reason"] == "session", "behind an undeclared proxy nobody can be told apart"
    counts = site.visitor.counts
    assert counts.by_room["shop", Counted.SHARED_SESSIONS] == counts.totals[Counted.SHARED_SESSIONS] == 1 + 9
    browser.peer = "203.0.113.202"
    assert "qm_dk_shop" in browser.jar, "the owner's own browser has the key too"
    assert (await browser.join()).json["reason"] == "reclaimed"
    assert (await browser.check(url=PAGE)).json["reason"] == "admitted"


@pytest.mark.req("ENG-159")
async def test_it_neither_admits_slides_nor_sees_by_a_question_that_only_reads(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=600)
    token = (await browser.join()).json["token"]
    headers = {"origin": "https://shop.example"}

    async def records() -> Any:
        (record,) = await site.house.tickets("shop")
        door = await site.house.valkey.execute("GETRANGE", f"{site.house.prefix}{{shop}}:1:d0", 0, 47)
        return record, door

    before = await records()
    await site.advance(20)
    for method, path in (("HEAD", f"/api/check?room=shop&token={token}&url={PAGE}"), ("HEAD", "/api/status?room=shop")):
        assert (await browser.send(method, path, headers=headers if "check" in path else None)).status == 200
    unseen = await records()
    await browser.check(url=PAGE)
    inside = await records()
    await site.advance(20)
    await browser.send("HEAD", f"/api/check?room=shop&url={PAGE}")
    await browser.send("HEAD", "/api/status?room=shop")

    assert unseen == before
    assert await records() == inside


async def until_noted(site: Site) -> None:
    """Everything that was done stands on the timeline."""

    async def is_noted() -> bool:
        return bool(await site.house.postgres.fetchval("SELECT count(*) FROM timeline WHERE kind = 'eject'"))

    await until(is_noted)


@pytest.mark.req("ENG-113")
async def test_it_sends_no_digest_to_anybody_and_logs_none(
    site: Site, browser: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    await site.create()
    key = await admitted(browser)
    session = browser.jar["qms_shop"]
    thief = browser.twin(peer="203.0.113.66")
    answers = [
        await browser.join(), await browser.status(), await browser.check(url=PAGE), await browser.check(),
        await thief.status(token=browser.jar["qm_shop"]), await thief.check(token=browser.jar["qm_shop"], url=PAGE),
        await thief.join(token=browser.jar["qm_shop"]),
    ]  # fmt: skip
    digests = Digester(SALT)
    packed = bytes(10) + b"\xff\xff" + bytes([198, 51, 100, 7])
    secret = [
        digests.cookie(session), digests.door(key), digests.address(packed), digests.loose(packed, AGENT.encode()),
        digests.strict("198.51.100.7", "", AGENT.encode()), SALT,
    ]  # fmt: skip
    await site.house.admin.eject(SHOP, 2, actor="ann")
    figures = (await site.house.admin.figures([SHOP]))[SHOP]
    view = RoomView(site.rooms.copies["shop"], figures)
    await until_noted(site)
    marks = await site.house.postgres.fetch("SELECT text, actor FROM timeline")
    for_links = [repr(reduced_object(view)), *(row["text"] + row["actor"] for row in marks)]
    assert len(marks) == 2

    sent = [answer.reply.body + b"".join(answer.reply.cookies) + repr(answer.headers).encode() for answer in answers]
    logged = "".join(capsys.readouterr())
    for text in (*sent, repr(room_object(view)).encode(), "\n".join(for_links).encode(), logged.encode()):
        for digest in secret:
            assert digest not in text
            assert digest.hex().encode() not in text
    for text in (*[answer.reply.body for answer in answers], "\n".join(for_links).encode(), logged.encode()):
        assert session.encode() not in text
        assert key.encode() not in text


@pytest.mark.req("ENG-285")
async def test_it_makes_a_leaked_token_worthless_on_every_route(site: Site, browser: Browser) -> None:
    await site.create(queue_max_per_ip=None)
    await browser.released()
    token = browser.jar["qm_shop"]
    thief = browser.twin(peer="203.0.113.66")

    check = (await thief.tag_check(token=token, url=PAGE)).json
    state = (await thief.status(token=token)).json
    opening = await opened(thief, path=f"/events?token={token}")
    joined = (await thief.join(token=token)).json
    own = (await browser.status()).json

    assert (check["action"], check["reason"]) == ("queue", "bad_token")
    assert (state["state"], state["reason"]) == ("gone", "bad_token")
    assert opening.is_over
    for text in (str(check), str(state), opening.first.decode()):
        assert own["ref"] not in text
        assert '"ticket"' not in text
        assert "position" not in text
    assert (joined["created"], joined["reason"], joined["ticket"]) == (True, "bad_token", 2)
    assert (own["state"], own["ticket"]) == ("passed", 1)
    assert (await browser.check(url=PAGE)).json["reason"] == "admitted"
