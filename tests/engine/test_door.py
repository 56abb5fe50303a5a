"""Function check and the door: admission, sessions, door keys, waiting for a slot."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.facts_of_passes import AdmissionWithdrawn, Admitted, Lapsed, SlotGiven, SlotReleased
from app.domain.facts_of_tickets import Ejected
from app.domain.layout import Flag
from app.infrastructure.engine_results import Reason, Verdict, Via, ViewState
from tests.engine.world import ROOM, Browser, World, digest


async def test_it_decides_in_the_documented_order(world: World) -> None:
    await world.create(rate_per_minute=0)
    waiting, ejected, left = await world.joined(3)
    await world.admin.eject(ROOM, ejected.ticket, actor="op")
    await world.leave(left)
    none, refused = Browser(), Browser(refused=True)
    old, thief, beyond = Browser(ticket=1, gen=9), Browser(ticket=1), Browser(ticket=50)

    checks = [await world.check(b) for b in (none, refused, old, thief, beyond, ejected, left, waiting)]
    await world.update(state=1)
    paused = await world.check(waiting)

    assert {check.verdict for check in checks} == {Verdict.QUEUE}
    assert [check.reason for check in checks] == [
        Reason.NEW, Reason.BAD_TOKEN, Reason.STALE_GENERATION, Reason.BAD_TOKEN, Reason.EXPIRED, Reason.EJECTED,
        Reason.EXPIRED, Reason.WAITING,
    ]  # fmt: skip
    assert paused.reason is Reason.PAUSED


async def test_it_passes_uncovered_pages_before_everything_else(world: World) -> None:
    await world.create(rate_per_minute=0, state=1)

    assert (await world.check(Browser(refused=True), covered=False)).verdict is Verdict.NOT_TARGETED


@pytest.mark.req("ENG-145")
async def test_it_admits_the_owner_of_a_pass_and_takes_its_slot_over(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1)
    (browser,) = await world.joined()

    answer = await world.check(browser, via=Via.VOUCHED)

    (fact,) = await world.facts(Admitted)
    figures = await world.figures()
    assert (answer.verdict, answer.ticket) == (Verdict.ADMITTED, 1)
    assert (fact.ticket, fact.via, fact.door) == (1, 2, digest("door" + browser.doors[0]))
    assert (figures.active, figures.pending_entry, figures.occupancy) == (1, 0, 1)
    assert answer.seq == (1 << 32) + figures.seq


@pytest.mark.req("ENG-153")
async def test_it_passes_a_session_by_its_door_key_from_anywhere(world: World) -> None:
    await world.create(rate_per_minute=60)
    (browser,) = await world.joined()
    await world.check(browser)
    await world.advance(60)
    elsewhere = Browser(ticket=1, doors=["other", *browser.doors])

    assert (await world.check(elsewhere)).verdict is Verdict.SESSION


@pytest.mark.req("ENG-154")
async def test_it_queues_a_second_browser_with_the_same_token_and_network(world: World) -> None:
    await world.create(rate_per_minute=60)
    (browser,) = await world.joined()
    await world.check(browser)

    twin = Browser(ticket=1, network=browser.name)
    wrong_key = Browser(ticket=1, network=browser.name, cookies=browser.cookies, doors=["wrong"])

    assert (await world.check(twin)).reason is Reason.SESSION_ELSEWHERE
    assert (await world.check(wrong_key)).reason is Reason.SESSION_ELSEWHERE


@pytest.mark.req("ENG-155")
async def test_it_lets_the_cookie_owner_in_without_a_key_for_ten_seconds(world: World) -> None:
    await world.create(rate_per_minute=60)
    (browser,) = await world.joined()
    await world.check(browser)
    parallel = Browser(ticket=1, cookies=browser.cookies, network=browser.name)
    by_print = Browser(ticket=1, network=browser.name)

    soon = await world.check(parallel)
    printed = await world.check(by_print)
    await world.advance(9)
    still = await world.check(parallel)
    await world.advance(1.2)
    late = await world.check(parallel)

    assert (soon.verdict, still.verdict, parallel.doors) == (Verdict.SESSION, Verdict.SESSION, [])
    assert printed.reason is Reason.SESSION_ELSEWHERE
    assert late.reason is Reason.SESSION_ELSEWHERE


async def test_it_makes_a_parallel_request_wait_for_the_same_commit(world: World) -> None:
    await world.create(rate_per_minute=60)
    (browser,) = await world.joined()
    admitted = await world.check(browser)

    parallel = await world.check(Browser(ticket=1, cookies=browser.cookies))
    await world.commit()
    later = await world.check(browser)

    assert parallel.seq == admitted.seq > 0
    assert later.seq == 0


@pytest.mark.req("ENG-060")
async def test_it_passes_a_session_while_paused_and_at_the_cap(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1)
    (browser,) = await world.joined()
    await world.check(browser)

    await world.update(state=1)

    assert (await world.check(browser)).verdict is Verdict.SESSION


@pytest.mark.req("ENG-150")
async def test_it_slides_a_session_by_uncovered_pages(world: World) -> None:
    await world.create(rate_per_minute=60, session_ttl_sec=60)
    (browser,) = await world.joined()
    await world.check(browser)

    for _ in range(3):
        await world.tick(45)
        answer = await world.check(browser, covered=False)

    assert answer.verdict is Verdict.NOT_TARGETED
    assert (await world.check(browser)).verdict is Verdict.SESSION


@pytest.mark.req("ENG-151")
async def test_it_does_not_admit_twice_on_one_pass(world: World) -> None:
    await world.create(rate_per_minute=60, session_ttl_sec=60, passed_ttl_sec=6000)
    (browser,) = await world.joined()
    await world.check(browser)
    await world.tick(70)

    assert (await world.check(browser)).reason is Reason.EXPIRED


@pytest.mark.req("ENG-281", "ENG-131")
async def test_it_admits_five_of_ten_passes_and_then_the_oldest_at_the_door(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=5, presence_sec=3600)
    browsers = await world.joined(10)
    await world.tick(2)
    first = browsers[:5]
    for browser in first:
        await world.status(browser)
    await world.tick(122)
    assert (await world.figures()).pending_entry == 5, "five more were promoted"

    checks = await asyncio.gather(*(world.check(b) for b in browsers))
    refused = [b for b, c in zip(browsers, checks, strict=True) if c.verdict is Verdict.QUEUE]
    inside = [b for b, c in zip(browsers, checks, strict=True) if c.verdict is Verdict.ADMITTED]
    await world.leave(inside[0])
    newer = await world.check(refused[1])
    oldest = await world.check(refused[0])

    assert (len(inside), len(refused)) == (5, 5)
    assert {c.reason for c in checks if c.verdict is Verdict.QUEUE} == {Reason.AT_CAPACITY}
    assert (newer.reason, oldest.verdict) == (Reason.AT_CAPACITY, Verdict.ADMITTED)
    assert (await world.figures()).occupancy == 5


@pytest.mark.req("ENG-122")
async def test_it_gives_a_free_slot_to_the_door_before_the_line(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=1, passed_ttl_sec=6000)
    (late,) = await world.joined()
    await world.status(late)
    await world.tick(125)
    inside, line = await world.joined(2)
    await world.tick(1)
    await world.check(inside)
    at_door = await world.status(late)

    await world.leave(inside)
    await world.tick(1)

    (given,) = await world.facts(SlotGiven)
    assert (at_door.state, at_door.ahead) == (ViewState.AT_CAPACITY, 0)
    assert given.tickets == (late.ticket,)
    assert (await world.status(late)).claim_until > 0
    assert (await world.status(line)).state is ViewState.WAITING


@pytest.mark.req("ENG-131")
async def test_it_drops_absent_holders_from_the_door(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=1, passed_ttl_sec=6000)
    (late,) = await world.joined()
    await world.status(late)
    await world.tick(125)
    inside, line = await world.joined(2)
    await world.tick(1)
    await world.check(inside)
    await world.status(late)

    await world.tick(20)
    await world.status(line)
    await world.tick(15)
    await world.leave(inside)
    await world.tick(1)

    assert (await world.status(line)).state is ViewState.PASSED
    assert not (await world.ticket(late.ticket)).flags & Flag.AT_DOOR
    assert await world.facts(SlotGiven) == []


@pytest.mark.req("ENG-131")
async def test_it_keeps_the_pass_of_a_present_holder_at_the_door(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=1, passed_ttl_sec=150)
    (late,) = await world.joined()
    await world.status(late)
    await world.tick(125)
    (inside,) = await world.joined()
    await world.tick(1)
    await world.check(inside)

    for _ in range(10):
        await world.status(late)
        await world.tick(20)
    waiting = await world.status(late)
    await world.leave(inside)
    await world.tick(1)
    given = await world.status(late)
    await world.tick(125)
    wasted = await world.status(late)

    assert waiting.state is ViewState.AT_CAPACITY
    assert waiting.pass_expires_at < waiting.now
    assert (given.state, given.claim_until > given.now) == (ViewState.PASSED, True)
    assert (wasted.state, wasted.reason) == (ViewState.GONE, Reason.EXPIRED)


@pytest.mark.req("ENG-131")
async def test_it_lapses_a_pass_at_the_door_once_its_holder_is_absent(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=1, passed_ttl_sec=150)
    (late,) = await world.joined()
    await world.status(late)
    await world.tick(125)
    (inside,) = await world.joined()
    await world.tick(1)
    await world.check(inside)
    await world.status(late)
    await world.tick(20)
    await world.status(late)

    await world.tick(35)

    assert Lapsed(1, (late.ticket,)) in await world.facts(Lapsed)
    assert (await world.figures()).passes_outstanding == 0


async def test_it_ends_the_pass_with_its_time_after_a_slot_of_the_door_was_wasted(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=1, passed_ttl_sec=400, presence_sec=3600)
    (late,) = await world.joined()
    await world.status(late)
    await world.tick(125)
    (inside,) = await world.joined()
    await world.tick(1)
    await world.check(inside)
    await world.status(late)
    await world.leave(inside)
    await world.tick(1)
    assert (await world.status(late)).claim_until > 0

    await world.tick(121)
    unused = await world.status(late)
    (again,) = await world.joined()
    await world.tick(1)
    await world.check(again)
    standing = await world.status(late)
    await world.tick(200)

    assert (unused.state, unused.claim_until) == (ViewState.PASSED, 0)
    assert standing.state is ViewState.AT_CAPACITY
    assert (await world.status(late)).state is ViewState.GONE
    assert [fact.why for fact in await world.facts(SlotReleased)].count(1) >= 2


async def test_it_puts_nobody_at_the_door_by_a_look_that_changes_nothing(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=1, passed_ttl_sec=400, presence_sec=3600)
    (late,) = await world.joined()
    await world.status(late)
    await world.tick(125)
    (inside,) = await world.joined()
    await world.tick(1)
    await world.check(inside)

    look = await world.status(late, told=False, seen=False)
    await world.leave(inside)
    await world.tick(1)

    assert (look.state, look.ahead) == (ViewState.AT_CAPACITY, 0)
    assert await world.facts(SlotGiven) == []


async def test_it_takes_one_slot_back_when_an_absent_holder_lets_it_go_after_the_end_of_his_pass(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=1, passed_ttl_sec=150)
    (late,) = await world.joined()
    await world.status(late)
    await world.tick(125)
    (inside,) = await world.joined()
    await world.tick(1)
    await world.check(inside)
    await world.status(late)
    await world.tick(20)
    await world.status(late)
    await world.leave(inside)
    await world.tick(1)
    assert (await world.figures()).pending_entry == 1

    await world.tick(40)

    figures = await world.figures()
    assert (figures.pending_entry, figures.passes_outstanding) == (0, 0)
    assert Lapsed(1, (late.ticket,)) in await world.facts(Lapsed)


@pytest.mark.req("ENG-133", "ENG-122")
async def test_it_charges_a_pass_that_was_given_without_credit_at_the_door(world: World) -> None:
    await world.create(rate_per_minute=60, state=1, queue_max_per_ip=None)
    ghosts = await world.joined(10)
    await world.advance(40)
    (present,) = await world.joined()
    await world.update(state=0)
    await world.tick(0)
    assert (await world.status(present)).state is ViewState.PASSED

    checks = [await world.check(ghost) for ghost in ghosts]
    await world.advance(0)
    for ghost in ghosts:
        await world.status(ghost)
    await world.tick(3)
    slots = await world.facts(SlotGiven)

    assert {check.reason for check in checks} == {Reason.AT_CAPACITY}
    served = [n for fact in slots for n in fact.tickets]
    assert served == list(range(1, len(served) + 1))
    assert 2 <= len(served) <= 4


@pytest.mark.req("ENG-060")
async def test_it_honours_while_paused_what_was_given_before(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=2, passed_ttl_sec=6000, presence_sec=3600)
    late, inside = await world.joined(2)
    await world.tick(1)
    await world.status(late)
    await world.check(inside)
    await world.tick(125)
    holder, third, line = await world.joined(3)
    await world.tick(1)
    await world.status(late)

    await world.update(state=1)
    walked = await world.check(holder)
    refused = await world.check(late)
    await world.leave(inside)
    await world.tick(2)
    served = await world.check(late)
    before = (await world.figures()).waiting
    await world.tick(10)

    assert walked.verdict is Verdict.ADMITTED
    assert refused.reason is Reason.AT_CAPACITY
    assert served.verdict is Verdict.ADMITTED
    assert (await world.figures()).waiting == before
    assert {(await world.status(b)).state for b in (third, line)} == {ViewState.PAUSED}
    assert (await world.join(Browser())).code == 1


@pytest.mark.req("ENG-060", "ENG-133")
async def test_the_unpaid_hold_nobody_up_while_paused(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1, passed_ttl_sec=6000, state=1)
    (unpaid,) = await world.joined()
    await world.advance(40)
    (paid,) = await world.joined()
    await world.update(state=0)
    await world.tick(0)
    await world.tick(125)  # the slot of the paid pass has lapsed unused
    (inside,) = await world.joined()
    assert (await world.check(inside)).verdict is Verdict.ADMITTED
    for holder in (unpaid, paid):
        assert (await world.status(holder)).state is ViewState.AT_CAPACITY

    await world.update(state=1)
    await world.leave(inside)
    await world.tick(2)

    (fact,) = await world.facts(SlotGiven)
    assert fact.tickets == (paid.ticket,)
    assert (await world.check(unpaid)).reason is Reason.AT_CAPACITY
    assert (await world.check(paid)).verdict is Verdict.ADMITTED


@pytest.mark.req("ENG-135")
async def test_it_uses_one_slot_for_one_token_however_often_it_comes(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=3)
    (browser,) = await world.joined()

    checks = await asyncio.gather(*(world.check(browser) for _ in range(20)))

    assert [c.verdict for c in checks].count(Verdict.ADMITTED) == 1
    assert (await world.figures()).occupancy == 1


@pytest.mark.req("ENG-136", "ENG-032")
async def test_it_cuts_nobody_by_a_lower_cap_and_moves_on_by_a_higher_one(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=3, presence_sec=3600)
    browsers = await world.joined(6)
    await world.tick(1)
    for browser in browsers[:3]:
        await world.check(browser)

    await world.update(max_concurrent=1)
    await world.tick(5)
    lowered = await world.figures()
    sessions = [await world.check(b) for b in browsers[:3]]
    await world.leave(browsers[0])
    await world.tick(1)
    still = await world.figures()
    await world.update(max_concurrent=5)
    await world.tick(1)

    assert (lowered.active, lowered.pending_entry) == (3, 0)
    assert {c.verdict for c in sessions} == {Verdict.SESSION}
    assert (still.active, still.pending_entry) == (2, 0)
    assert (await world.figures()).occupancy == 5


@pytest.mark.req("ENG-136")
async def test_it_lets_the_door_and_the_line_move_by_a_higher_cap(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=3, passed_ttl_sec=6000, presence_sec=3600)
    late = await world.joined(3)
    await world.tick(1)
    for holder in late:
        assert (await world.status(holder)).state is ViewState.PASSED
    await world.update(max_concurrent=1)
    await world.tick(125)
    inside, first, second = await world.joined(3)
    await world.tick(1)
    await world.check(inside)
    for holder in late:
        assert (await world.status(holder)).state is ViewState.AT_CAPACITY

    await world.update(max_concurrent=5)
    await world.tick(1)

    views = [await world.status(holder) for holder in (*late, first)]
    assert {view.state for view in views} == {ViewState.PASSED}
    assert all(view.claim_until > view.now for view in views)
    assert (await world.status(second)).state is ViewState.WAITING


async def test_it_keeps_the_line_through_a_bypass(world: World) -> None:
    await world.create(rate_per_minute=0)
    first, second = await world.joined(2)

    await world.update(state=2)
    views = [await world.status(b) for b in (first, second)]
    await world.update(state=0)

    assert {view.state for view in views} == {ViewState.BYPASS}
    assert [(await world.status(b)).ahead for b in (first, second)] == [0, 1]


async def test_it_does_not_mark_a_holder_as_seen_by_a_check(world: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()
    before = (await world.ticket(1)).seen

    await world.advance(5)
    await world.check(browser)

    assert (await world.ticket(1)).seen == before


@pytest.mark.req("ENG-149")
@pytest.mark.parametrize("state", ["full", "paused", "scheduled"])
async def test_it_lets_a_running_session_go_on_whatever_the_room_does(world: World, state: str) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1)
    (browser,) = await world.joined()
    await world.check(browser)
    if state == "full":
        assert (await world.figures()).occupancy == 1
    elif state == "paused":
        await world.update(state=1)
    else:
        await world.update(opens_at=(await world.figures()).now + 3_600_000)
        assert (await world.status(Browser())).room_state == 3

    await world.advance(60)

    assert (await world.check(browser)).verdict is Verdict.SESSION


@pytest.mark.req("ENG-265")
async def test_it_records_the_pass_as_it_was_with_a_withdrawn_admission(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1)
    (browser,) = await world.joined()
    pass_before, record = await world.door(1), await world.ticket(1)
    answer = await world.check(browser)

    stands = await world.admin.undo_admission(ROOM, 1, answer.seq, 1)

    (fact,) = await world.facts(AdmissionWithdrawn)
    view = await world.status(browser)
    after = await world.door(1)
    assert not stands
    assert (fact.ticket, fact.admitted_seq, fact.flags) == (1, answer.seq & 0xFFFFFFFF, record.flags & 3)
    assert (fact.passed_at, fact.pass_end, fact.claim_end) == (
        pass_before.passed_at, view.pass_expires_at, view.claim_until,
    )  # fmt: skip
    assert (after.pass_end, after.claim_end) == (pass_before.pass_end, pass_before.claim_end)
    again = await world.check(browser)
    assert (again.verdict, len(browser.doors)) == (Verdict.ADMITTED, 1)


@pytest.mark.req("ENG-191", "ENG-270")
async def test_it_ejects_a_ticket_in_any_state_and_forgets_its_times(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=2, presence_sec=3600)
    inside, passed, waiting, left = await world.joined(4)
    await world.check(inside)
    await world.tick(1)
    await world.leave(left)
    browsers = (inside, passed, waiting, left)

    answers = [await world.admin.eject(ROOM, browser.ticket, actor="Zoë") for browser in browsers]

    figures = await world.figures()
    assert [answer.was.name for answer in answers] == ["ACTIVE", "PASSED", "WAITING", "EXPIRED"]
    assert [(fact.ticket, fact.was, fact.actor) for fact in await world.facts(Ejected)] == [
        (1, 3, "Zoë"), (2, 2, "Zoë"), (3, 1, "Zoë"), (4, 4, "Zoë"),
    ]  # fmt: skip
    assert answers[-1].seq == (1 << 32) + figures.seq
    assert (figures.waiting, figures.active, figures.occupancy, figures.passes_outstanding) == (0, 0, 0, 0)
    for browser in browsers:
        record = await world.ticket(browser.ticket)
        assert record.joined_at == 0
        if browser in (inside, passed):
            assert (await world.door(browser.ticket)).passed_at == 0
        view = await world.status(browser)
        assert (view.state, view.reason, view.by_purge) == (ViewState.GONE, Reason.EJECTED, False)
        assert (await world.check(browser)).reason is Reason.EJECTED
    again = await world.join(inside)
    assert again.view is not None
    assert (again.code, again.reason, again.view.ticket) == (1, Reason.EJECTED, 5)


@pytest.mark.req("ENG-131")
async def test_it_knows_of_whoever_comes_back_that_he_stood_at_the_door_no_more(world: World) -> None:
    """Whether a tick has looked at him meanwhile or not."""
    await world.create(rate_per_minute=600, max_concurrent=1, presence_sec=5, passed_ttl_sec=30)
    inside, outside = await world.joined(2)
    await world.check(inside)
    await world.update(max_concurrent=2)
    await world.tick(1)
    await world.update(max_concurrent=1)
    await world.tick(7)
    assert (await world.status(outside)).state is ViewState.AT_CAPACITY
    await world.advance(23)

    late = await world.status(outside)
    await world.tick()

    assert (late.state, late.reason) == (ViewState.GONE, Reason.EXPIRED)
    assert (await world.figures()).passes_outstanding == 0
