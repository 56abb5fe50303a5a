"""Function join: places, who gets his back, and refusals."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.facts_of_passes import Promoted, PromotedBy, Run
from app.domain.facts_of_tickets import Joined
from app.infrastructure.engine_errors import RoomFenced, RoomGone, StaleRoom
from app.infrastructure.engine_results import JoinCode, Reason, ViewState
from tests.engine.world import ROOM, Browser, World, digest


@pytest.mark.req("ENG-069")
async def test_it_numbers_tickets_from_one_without_reuse(world: World) -> None:
    await world.create(rate_per_minute=0)

    answers = await asyncio.gather(*(world.join(Browser()) for _ in range(20)))
    left, withdrawn = Browser(), Browser()
    await world.join(left)
    await world.leave(left)
    undone = await world.join(withdrawn)
    await world.admin.undo_join(ROOM, 1, undone.seq, withdrawn.ticket)
    later = await world.join(Browser())

    assert [a.view.ticket for a in answers if a.view] == list(range(1, 21))
    assert later.view is not None
    assert later.view.ticket == 23


@pytest.mark.req("ENG-071")
async def test_it_tells_the_number_of_those_ahead(world: World) -> None:
    await world.create(rate_per_minute=0)
    browsers = await world.joined(6)

    await world.leave(browsers[1])
    await world.leave(browsers[3])
    await world.advance(40)  # everybody is absent until he asks
    views = [await world.status(browsers[i]) for i in (0, 2, 4, 5)]

    assert [view.ahead for view in views] == [0, 1, 2, 3]


@pytest.mark.req("ENG-072")
async def test_it_returns_the_ticket_that_is_presented_by_its_owner(world: World) -> None:
    await world.create(rate_per_minute=0)
    first, second = await world.joined(2)

    again = await world.join(first)

    assert again.code is JoinCode.EXISTING
    assert again.view is not None
    assert (again.view.ticket, again.view.ahead, again.seq) == (1, 0, 0)
    assert (await world.status(second)).ahead == 1


@pytest.mark.req("ENG-073")
async def test_it_returns_the_ticket_of_the_queue_cookie_when_the_token_is_missing(world: World) -> None:
    await world.create(rate_per_minute=0)
    _, browser = await world.joined(2)
    browser.ticket = 0

    again = await world.join(browser)

    assert again.code is JoinCode.EXISTING
    assert again.view is not None
    assert again.view.ticket == 2


async def test_it_returns_the_ticket_of_the_queue_cookie_when_the_token_is_refused(world: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()
    browser.refused = True

    assert (await world.join(browser)).code is JoinCode.EXISTING


async def test_it_never_searches_by_fingerprint(world: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()

    other = await world.join(Browser(network=browser.name, address=browser.name))

    assert other.code is JoinCode.CREATED
    assert other.reason is Reason.NEW


@pytest.mark.req("ENG-074")
async def test_it_names_the_reason_when_an_earlier_ticket_is_over(world: World) -> None:
    await world.create(rate_per_minute=0)
    left, ejected, stolen, refused = await world.joined(4)
    await world.leave(left)
    await world.admin.eject(ROOM, ejected.ticket, actor="op")
    thief = Browser(ticket=stolen.ticket)
    forged = Browser(refused=True)
    old = Browser(ticket=1, gen=7)

    reasons = [(await world.join(b)).reason for b in (left, ejected, thief, forged, old, refused)]

    assert reasons == [
        Reason.EXPIRED, Reason.EJECTED, Reason.BAD_TOKEN, Reason.BAD_TOKEN, Reason.STALE_GENERATION, Reason.NONE,
    ]  # fmt: skip
    assert [b.ticket for b in (left, ejected, thief, forged, old)] == [5, 6, 7, 8, 9]


async def test_it_names_the_reason_when_only_the_cookie_is_left_of_an_ejected_ticket(world: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()
    await world.admin.eject(ROOM, 1, actor="op")
    browser.ticket = 0

    assert (await world.join(browser)).reason is Reason.EJECTED


@pytest.mark.req("ENG-079")
async def test_it_gives_a_new_ticket_for_a_number_that_was_never_issued(world: World) -> None:
    await world.create(rate_per_minute=0)
    browser = Browser(ticket=99)

    answer = await world.join(browser)

    assert answer.code is JoinCode.CREATED
    assert browser.ticket == 1


async def test_it_never_stores_a_cookie_that_the_request_brought(world: World) -> None:
    await world.create(rate_per_minute=0)
    visitor = Browser(cookies=["planted"])
    await world.join(visitor)

    planter = Browser(cookies=["planted"])
    answer = await world.join(planter)

    assert answer.code is JoinCode.CREATED
    assert digest("cookieplanted") != (await world.ticket(visitor.ticket)).cookie
    planter.cookies, planter.ticket = ["planted"], visitor.ticket
    assert (await world.status(planter)).state is ViewState.GONE


async def test_it_finds_its_own_cookie_among_several(world: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()
    browser.cookies = ["foreign", *browser.cookies, "other"]
    browser.ticket = 0

    assert (await world.join(browser)).code is JoinCode.EXISTING


async def test_it_refuses_above_the_cap_of_an_address_without_using_a_number(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=2)
    await world.joined(2, address="office")

    refused = await world.join(Browser(address="office"))
    other = await world.join(Browser())

    assert refused.code is JoinCode.IDENTITY_LIMIT
    assert refused.view is None
    assert other.view is not None
    assert other.view.ticket == 3


async def test_it_counts_an_address_within_one_batch(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=3)

    answers = await asyncio.gather(*(world.join(Browser(address="office")) for _ in range(10)))

    assert [a.code for a in answers].count(JoinCode.CREATED) == 3


@pytest.mark.req("ENG-162")
async def test_it_never_refuses_the_holder_by_the_cap(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=1)
    (browser,) = await world.joined(address="office")

    assert (await world.join(browser)).code is JoinCode.EXISTING


async def test_it_frees_the_cap_when_a_ticket_of_the_address_leaves_or_is_ejected_or_promoted(world: World) -> None:
    await world.create(rate_per_minute=60, queue_max_per_ip=3)
    await world.join(Browser())
    promoted, left, ejected = await world.joined(3, address="office")
    assert (await world.join(Browser(address="office"))).code is JoinCode.IDENTITY_LIMIT

    await world.leave(left)
    await world.admin.eject(ROOM, ejected.ticket, actor="op")
    await world.tick(1)
    codes = [(await world.join(Browser(address="office"))).code for _ in range(4)]

    assert (await world.status(promoted)).state is ViewState.PASSED
    assert codes == [JoinCode.CREATED] * 3 + [JoinCode.IDENTITY_LIMIT]


async def test_it_has_no_cap_when_the_field_is_null(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=None)

    answers = await asyncio.gather(*(world.join(Browser(address="office")) for _ in range(40)))

    assert {a.code for a in answers} == {JoinCode.CREATED}


async def test_it_refuses_a_full_line_and_answers_those_in_it(world: World) -> None:
    small = World(world.valkey, world.prefix, line_max=2)
    await small.create(rate_per_minute=0)
    first, _ = await small.joined(2)

    refused = await small.join(Browser())

    assert (refused.code, refused.view) == (JoinCode.LINE_FULL, None)
    assert (await small.join(first)).code is JoinCode.EXISTING


@pytest.mark.req("ENG-118")
async def test_it_promotes_in_the_same_step_when_nobody_is_ahead(world: World) -> None:
    await world.create(rate_per_minute=60)

    first = await world.join(Browser())
    second = await world.join(Browser())

    assert first.view is not None
    assert second.view is not None
    assert (first.view.state, second.view.state) == (ViewState.PASSED, ViewState.WAITING)
    promoted = (await world.facts(Promoted))[0]
    assert (promoted.by, promoted.runs) == (PromotedBy.JOIN, (Run(1, 1, 3),))


@pytest.mark.req("ENG-118")
async def test_it_does_not_promote_in_the_same_step_while_paused_or_at_the_cap(world: World) -> None:
    await world.create(rate_per_minute=6000, state=1)
    early = await world.join(Browser())
    assert early.view is not None
    assert early.view.state is ViewState.PAUSED
    await world.update(state=0, max_concurrent=1)
    await world.tick(1)
    await world.tick(1)
    assert (await world.header())["credit"] >= 1

    late = await world.join(Browser())

    assert late.view is not None
    assert late.view.state is ViewState.WAITING


@pytest.mark.req("ENG-118")
async def test_it_does_not_promote_in_the_same_step_when_somebody_is_ahead_in_line(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=1)
    await world.joined()
    await world.tick(1)
    (ahead,) = await world.joined()
    await world.update(max_concurrent=3)
    assert (await world.header())["credit"] >= 1

    late = await world.join(Browser())

    assert late.view is not None
    assert (late.view.state, late.view.ahead) == (ViewState.WAITING, 1)
    await world.tick(1)
    assert (await world.status(ahead)).state is ViewState.PASSED


@pytest.mark.req("ENG-118")
async def test_it_does_not_promote_in_the_same_step_when_somebody_stands_at_the_door(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=1, passed_ttl_sec=6000)
    (at_door,) = await world.joined()
    await world.status(at_door)
    await world.tick(125)
    (inside,) = await world.joined()
    await world.tick(1)
    await world.check(inside)
    assert (await world.status(at_door)).state is ViewState.AT_CAPACITY
    await world.leave(inside)

    late = await world.join(Browser())

    assert late.view is not None
    assert late.view.state is ViewState.WAITING


@pytest.mark.req("ENG-061")
async def test_it_gives_no_ticket_while_bypassed(world: World) -> None:
    await world.create(state=2)

    answer = await world.join(Browser())
    check = await world.check(Browser())

    assert answer.code is JoinCode.BYPASS
    assert (await world.header())["last_ticket"] == 0
    assert check.verdict.word == "bypass"
    assert (await world.figures()).active == 0


async def test_it_writes_one_fact_with_the_proofs_a_ticket(world: World) -> None:
    await world.create(rate_per_minute=0)
    browser = Browser(address="home")

    answer = await world.join(browser)

    (fact,) = await world.facts(Joined)
    (cookie,) = browser.cookies
    assert fact == Joined(
        1,
        digest("ip" + browser.name),
        digest("addrhome", 8),
        digest("cookie" + cookie),
        digest("strict" + browser.name),
        digest("loose" + browser.name),
    )
    assert answer.seq == (1 << 32) + 2


async def test_it_crosses_chunks_in_one_batch(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=None)

    await asyncio.gather(*(world.join(Browser()) for _ in range(1300)))

    view = await world.engine.status(world.room, Browser(ticket=1025).proof())
    assert view.reason is Reason.BAD_TOKEN
    assert (await world.ticket(1024)).state == 1
    assert (await world.ticket(1025)).state == 1
    assert (await world.figures()).waiting == 1300


async def test_it_answers_stale_when_the_copy_of_the_room_is_old(world: World) -> None:
    await world.create()
    old = world.room
    await world.update(presence_sec=40)
    world.room = old

    with pytest.raises(StaleRoom):
        await world.join(Browser())


async def test_it_answers_no_room_after_a_deletion(world: World) -> None:
    await world.create()
    await world.admin.delete(ROOM, actor="op")

    with pytest.raises(RoomGone):
        await world.join(Browser())


async def test_it_answers_fenced_when_the_header_is_missing(world: World) -> None:
    await world.create()
    await world.valkey.execute("DEL", world.keys.header)

    with pytest.raises(RoomFenced):
        await world.join(Browser())
