"""Who owns a ticket: proofs, what a leaked token is worth, and how a ticket follows its owner (ENG-100 … ENG-112)."""

from __future__ import annotations

import pytest

from app.domain.facts_of_tickets import Joined, OwnerRebound
from app.infrastructure.engine_results import JoinCode, Reason, TicketState, Verdict, Via, ViewState
from tests.engine.world import ROOM, Browser, World, digest

CLOSED = {"rate_per_minute": 0, "queue_max_per_ip": None}


async def move(browser: Browser, network: str) -> None:
    """Let the browser's requests come from elsewhere from now on."""
    browser.network = browser.address = network


@pytest.mark.req("ENG-100", "ENG-101")
async def test_it_gives_a_bearer_of_somebody_elses_token_nothing(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=2, queue_max_per_ip=None)
    passed, waiting = await world.joined(2)
    thieves = [Browser(ticket=victim.ticket) for victim in (passed, waiting)]

    checks = [await world.check(thief) for thief in thieves]
    views = [await world.status(thief) for thief in thieves]
    left = [await world.leave(thief) for thief in thieves]
    joins = [await world.join(thief) for thief in thieves]

    assert {(check.verdict, check.reason, check.ticket) for check in checks} == {(Verdict.QUEUE, Reason.BAD_TOKEN, 0)}
    assert {(view.state, view.reason, view.ticket, view.ahead) for view in views} == {
        (ViewState.GONE, Reason.BAD_TOKEN, 0, 0)
    }
    assert {answer.was for answer in left} == {TicketState.NONE}
    assert [(answer.code, answer.reason) for answer in joins] == [(JoinCode.CREATED, Reason.BAD_TOKEN)] * 2
    assert [answer.view.ticket for answer in joins if answer.view] == [3, 4]
    assert (await world.status(waiting)).ahead == 0, "the owners are undisturbed"
    assert (await world.check(passed)).verdict is Verdict.ADMITTED


@pytest.mark.req("ENG-102", "ENG-107")
async def test_it_knows_the_owner_by_his_cookie_from_any_network(world: World) -> None:
    await world.create(**CLOSED)
    (owner,) = await world.joined()
    record = await world.ticket(1)

    abroad = Browser(ticket=1, cookies=["stale", *owner.cookies])
    without = Browser(ticket=1, cookies=["stale"])

    assert record.cookie == digest("cookie" + owner.cookies[0]), "only its digest is kept"
    assert (await world.status(without)).reason is Reason.BAD_TOKEN, "a wrong cookie counts as none"
    assert (await world.status(abroad)).owner_by_cookie


@pytest.mark.req("ENG-108", "ENG-267")
async def test_it_binds_a_ticket_to_the_network_that_its_owner_came_from_with_his_cookie(world: World) -> None:
    await world.create(rate_per_minute=60)
    (owner,) = await world.joined()
    await move(owner, "cafe")
    cross_site = Browser(ticket=1, network="cafe", address="cafe")
    before = await world.check(cross_site)

    await world.status(owner)
    bound = await world.ticket(1)
    after = await world.check(cross_site)

    (fact,) = await world.facts(OwnerRebound)
    assert before.reason is Reason.BAD_TOKEN
    assert after.verdict is Verdict.ADMITTED
    assert fact == OwnerRebound(1, digest("strictcafe"), digest("loosecafe"))
    assert (bound.strict, bound.loose) == (fact.strict, fact.loose)
    assert bound.addr == digest("addr" + owner.name, 8), "the place stays counted where it was taken"


@pytest.mark.req("ENG-108")
@pytest.mark.parametrize("way", ["join", "join_by_cookie", "check"])
async def test_it_binds_anew_by_any_request_that_proves_the_cookie(world: World, way: str) -> None:
    await world.create(**CLOSED)
    (owner,) = await world.joined()
    await move(owner, "train")

    if way == "check":
        await world.check(owner)
    else:
        if way == "join_by_cookie":
            owner.ticket = 0
        await world.join(owner)

    assert (await world.ticket(1)).strict == digest("stricttrain")
    assert len(await world.facts(OwnerRebound)) == 1


@pytest.mark.req("ENG-108")
async def test_it_binds_nothing_by_a_fingerprint_a_look_a_crowd_of_cookies_or_without_a_change(world: World) -> None:
    await world.create(**CLOSED)
    (owner,) = await world.joined()
    before = await world.ticket(1)
    by_edge = Browser(ticket=1, network="edge", loose=True)
    proof = by_edge.proof()._replace(loose=digest("loose" + owner.name))

    by_loose = await world.engine.status(world.room, proof, bind=True)
    await world.status(owner)
    await move(owner, "cafe")
    await world.status(owner, told=False, seen=False)
    owner.is_crowded = True
    await world.status(owner)
    await world.check(owner)
    await world.join(owner)

    after = await world.ticket(1)
    assert by_loose.state is ViewState.WAITING
    assert (after.strict, after.loose) == (before.strict, before.loose)
    assert await world.facts(OwnerRebound) == []


@pytest.mark.req("ENG-108", "ENG-267")
async def test_it_binds_a_place_in_the_pre_queue_which_its_ticket_takes_over(world: World) -> None:
    await world.create(**CLOSED)
    await world.update(opens_at=(await world.figures()).now + 3_600_000)
    (owner,) = await world.joined()
    await move(owner, "cafe")
    cross_site = Browser(network="cafe", address="cafe", handle=owner.handle)
    before = await world.status(cross_site)

    await world.status(owner)
    after = await world.status(cross_site)

    (fact,) = await world.facts(OwnerRebound)
    assert (before.reason, after.state) == (Reason.BAD_TOKEN, ViewState.SCHEDULED)
    assert fact == OwnerRebound(0, digest("strictcafe"), digest("loosecafe"), place=1)


async def test_it_binds_a_ticket_three_times_a_minute_at_most(world: World) -> None:
    await world.create(**CLOSED)
    (owner,) = await world.joined()
    await world.advance(30)

    for minute in range(2):
        for hop in range(10):
            await move(owner, f"edge-{minute}-{hop}")
            assert (await world.status(owner)).state is ViewState.WAITING
        await world.advance(60)

    assert len(await world.facts(OwnerRebound)) == 6
    assert (await world.ticket(1)).strict == digest("strictedge-1-2")


@pytest.mark.req("ENG-109")
async def test_it_stores_the_value_made_for_the_new_ticket_and_none_that_was_brought(world: World) -> None:
    await world.create(**CLOSED)
    planted = Browser(cookies=["planted"])
    await world.join(planted)
    (lost,) = await world.joined()
    await world.leave(lost)
    old = list(lost.cookies)
    again = await world.join(lost)

    attacker = Browser(ticket=1, cookies=["planted"])
    assert (await world.ticket(1)).cookie == digest("cookie" + planted.cookies[0]) != digest("cookieplanted")
    assert (await world.status(attacker)).reason is Reason.BAD_TOKEN
    assert again.code is JoinCode.CREATED
    assert (await world.ticket(3)).cookie not in {digest("cookie" + value) for value in old}
    assert (await world.status(Browser(ticket=3, cookies=old))).reason is Reason.BAD_TOKEN


@pytest.mark.req("ENG-110")
async def test_it_accepts_the_fingerprint_of_a_connector_for_vouched_checks_alone(world: World) -> None:
    await world.create(rate_per_minute=60)
    owner = Browser(seen_from="ipv4")
    await world.join(owner)
    by_connector = Browser(ticket=1, network="ipv4", loose=True)
    proof = by_connector.proof()._replace(strict=digest("connector"))
    stranger = proof._replace(loose=digest("looseother"))

    direct = await world.check(by_connector, via=Via.DIRECT)
    inline = await world.check(by_connector, via=Via.INLINE)
    view = await world.engine.status(world.room, proof)
    other = Browser(ticket=1, network="other", loose=True)
    refused = await world.check(other, via=Via.VOUCHED)
    vouched = await world.check(by_connector, via=Via.VOUCHED)

    joined = next(fact for fact in await world.facts(Joined))
    assert joined.from_loose == digest("looseipv4")
    assert {direct.reason, inline.reason, refused.reason, view.reason} == {Reason.BAD_TOKEN}
    assert vouched.verdict is Verdict.ADMITTED
    assert (await world.engine.status(world.room, stranger)).reason is Reason.BAD_TOKEN


@pytest.mark.req("ENG-110")
async def test_it_takes_one_further_fingerprint_with_a_join_that_carries_on(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=5)
    (owner,) = await world.joined()
    for network in ("first", "second", "second"):
        owner.seen_from = network
        await world.join(owner)
    thief = Browser(ticket=1, seen_from="thief")
    await world.join(thief)

    first, second, stolen = (Browser(ticket=1, network=n, loose=True) for n in ("first", "second", "thief"))
    checks = [await world.check(browser, via=Via.VOUCHED) for browser in (first, stolen, second)]

    assert [check.verdict for check in checks] == [Verdict.QUEUE, Verdict.QUEUE, Verdict.ADMITTED]
    assert [fact.from_loose for fact in await world.facts(OwnerRebound)] == [
        digest("loosefirst"),
        digest("loosesecond"),
    ]
    assert (await world.status(owner)).state is ViewState.ACTIVE
    await world.leave(owner)
    await world.leave(thief)
    assert await world.valkey.execute("EXISTS", world.keys.froms(1)) == 0, "forgotten with the ticket"


@pytest.mark.req("ENG-111")
async def test_it_takes_a_visitor_without_cookies_on_another_network_for_a_new_one(world: World) -> None:
    await world.create(**CLOSED)
    owner, _ = await world.joined(2)
    moved = Browser(ticket=owner.ticket, network="mobile")
    behind_unknown_cdn = Browser(ticket=owner.ticket, network="other-edge")

    answers = [await world.join(browser) for browser in (moved, behind_unknown_cdn)]

    assert [(a.code, a.reason) for a in answers] == [(JoinCode.CREATED, Reason.BAD_TOKEN)] * 2
    assert [a.view.ahead for a in answers if a.view] == [2, 3]


@pytest.mark.req("ENG-285")
async def test_it_makes_a_leaked_token_worthless_elsewhere(world: World) -> None:
    await world.create(rate_per_minute=60, queue_max_per_ip=None)
    passed, waiting = await world.joined(2)
    for owner in (passed, waiting):
        before = await world.status(owner, told=False, seen=False)
        record = await world.ticket(owner.ticket)
        thief = Browser(ticket=owner.ticket)

        check, view, again = await world.check(thief), await world.status(thief), await world.join(thief)

        assert (check.verdict, check.reason) == (Verdict.QUEUE, Reason.BAD_TOKEN)
        assert (view.state, view.ticket, view.ahead, view.passed_at) == (ViewState.GONE, 0, 0, 0)
        assert again.view is not None
        assert again.view.ticket == (await world.header())["last_ticket"] != owner.ticket
        after = await world.status(owner, told=False, seen=False)
        assert after._replace(now=before.now) == before
        assert await world.ticket(owner.ticket) == record
    assert (await world.check(passed)).verdict is Verdict.ADMITTED


async def test_it_lets_no_token_of_an_ejected_ticket_in(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=5)
    inside, passed = await world.joined(2)
    await world.tick(1)
    await world.check(inside)
    for browser in (inside, passed):
        await world.admin.eject(ROOM, browser.ticket, actor="ann")

    for browser in (inside, passed):
        assert (await world.check(browser)).reason is Reason.EJECTED
        view = await world.status(browser)
        assert (view.state, view.reason, view.by_purge) == (ViewState.GONE, Reason.EJECTED, False)
    assert (await world.figures()).occupancy == 0
