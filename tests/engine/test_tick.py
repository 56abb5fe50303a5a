"""Function tick: pace, order, presence, the ends of passes and sessions."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.facts_of_passes import Admitted, Lapsed, Promoted, PromotedBy, Run, SlotReleased
from app.domain.layout import Flag, pack_header, unpack_header
from app.infrastructure.engine_results import Reason, TicketState, Verdict, ViewState
from tests.engine.world import ROOM, Browser, World

MANY = {"queue_max_per_ip": None, "presence_sec": 3600}


@pytest.mark.req("ENG-117")
async def test_it_keeps_the_pace_over_a_minute_and_over_five(world: World) -> None:
    await world.create(rate_per_minute=120, **MANY)
    await asyncio.gather(*(world.join(Browser()) for _ in range(700)))
    start = (await world.figures()).waiting

    await world.tick(60)
    after_one = start - (await world.figures()).waiting
    await world.tick(240)
    after_five = start - (await world.figures()).waiting

    assert 117 <= after_one <= 123
    assert 597 <= after_five <= 603


@pytest.mark.req("ENG-117", "ENG-114")
async def test_it_gives_no_more_credit_when_many_instances_tick(world: World) -> None:
    await world.create(rate_per_minute=600, **MANY)
    await asyncio.gather(*(world.join(Browser()) for _ in range(100)))
    waiting = (await world.figures()).waiting

    for _ in range(5):
        await world.advance(1)
        await asyncio.gather(*(world.jobs.tick(ROOM) for _ in range(6)))

    assert 39 <= waiting - (await world.figures()).waiting <= 61


@pytest.mark.req("ENG-115", "FLT-019")
async def test_it_keeps_at_most_one_credit_of_an_idle_time(world: World) -> None:
    await world.create(rate_per_minute=60, **MANY)
    await world.tick(600)
    idle = (await world.header())["credit"]

    await asyncio.gather(*(world.join(Browser()) for _ in range(50)))
    await world.jobs.tick(ROOM)

    assert idle == 1
    assert (await world.figures()).waiting >= 44, "one left, and what the moments between the calls earned"


@pytest.mark.req("ENG-116")
async def test_it_counts_at_most_a_second_of_an_outage(world: World) -> None:
    await world.create(rate_per_minute=600, **MANY)
    await asyncio.gather(*(world.join(Browser()) for _ in range(50)))
    await world.jobs.tick(ROOM)

    await world.advance(600)
    answer = await world.jobs.tick(ROOM)

    assert 10 <= answer.promoted <= 11


@pytest.mark.req("ENG-116", "ENG-117")
async def test_it_lets_no_burst_in_after_long_work(world: World) -> None:
    await world.create(rate_per_minute=600, presence_sec=15, queue_max_per_ip=None)
    await world.joined(4000)
    await world.advance(60)
    here = [Browser() for _ in range(60)]
    await asyncio.gather(*(world.join(browser) for browser in here))

    most, rounds = 0, 0
    while (await world.figures()).waiting > 59:
        await world.advance(1)
        most = max(most, (await world.jobs.tick(ROOM)).promoted)
        rounds += 1

    assert rounds >= 4, "each call has its share of the absent"
    assert 1 <= most <= 11


@pytest.mark.req("ENG-060", "ENG-030")
async def test_it_earns_nothing_while_paused_bypassed_or_at_rate_zero(world: World) -> None:
    await world.create(rate_per_minute=600, **MANY)
    await asyncio.gather(*(world.join(Browser()) for _ in range(30)))

    credits = []
    for change in ({"state": 1}, {"state": 2}, {"state": 0, "rate_per_minute": 0}):
        await world.update(**change)
        before = (await world.header())["credit"]
        await world.tick(10)
        credits.append((await world.header())["credit"] - before)

    assert credits == [0, 0, 0]
    assert (await world.figures()).waiting == 29


async def test_it_goes_on_with_one_credit_at_most_after_a_pause(world: World) -> None:
    await world.create(rate_per_minute=60, state=1, **MANY)
    await world.joined(10)
    await world.tick(100)

    await world.update(state=0)
    answer = await world.jobs.tick(ROOM)

    assert answer.promoted in (1, 2), "one, and what the moment between the calls earned"


@pytest.mark.req("ENG-070")
async def test_it_promotes_in_order_of_numbers(world: World) -> None:
    await world.create(rate_per_minute=300, **MANY)
    browsers = await world.joined(12)
    await world.leave(browsers[3])

    await world.tick(2)

    states = [(await world.ticket(n)).state for n in range(1, 13)]
    assert states[3] == TicketState.EXPIRED
    del states[3]
    assert states == sorted(states, reverse=True)
    assert states.count(TicketState.PASSED) >= 10


async def test_it_records_passes_as_runs(world: World) -> None:
    await world.create(rate_per_minute=0, **MANY)
    browsers = await world.joined(5)
    await world.leave(browsers[2])
    await world.update(rate_per_minute=6000)

    await world.tick(1)

    (fact,) = await world.facts(Promoted)
    (element,) = [e for e in await world.elements() if e.type == 10]
    assert (fact.by, fact.runs) == (PromotedBy.TICK, (Run(1, 2, 3), Run(4, 2, 3)))
    assert fact.pass_end - element.at == pytest.approx(600_000, abs=100)
    assert fact.claim_end - element.at == pytest.approx(120_000, abs=100)


@pytest.mark.req("ENG-121")
async def test_it_never_exceeds_the_cap(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=5, **MANY)
    browsers = await world.joined(20)

    await world.tick(5)
    full = await world.figures()
    await world.check(browsers[0])
    admitted = await world.figures()
    await world.leave(browsers[0])
    await world.tick(1)

    assert (full.pending_entry, full.active, full.waiting) == (5, 0, 15)
    assert (admitted.pending_entry, admitted.active) == (4, 1)
    assert (await world.figures()).occupancy == 5
    assert (await world.figures()).waiting == 14


@pytest.mark.req("ENG-123", "ENG-129")
async def test_it_passes_over_absent_heads_without_slot_or_credit(world: World) -> None:
    await world.create(rate_per_minute=60, state=1, max_concurrent=2, queue_max_per_ip=None)
    ghosts = await world.joined(50, address="ghosts")
    await world.advance(40)
    present = await world.joined(3)
    paused = await world.jobs.tick(ROOM)

    await world.update(state=0)
    answer = await world.jobs.tick(ROOM)
    figures = await world.figures()

    assert (paused.promoted, paused.skipped) == (0, 0)
    assert (answer.promoted, answer.skipped) == (1, 50)
    assert (figures.passes_outstanding, figures.occupancy, figures.waiting) == (50, 1, 2)
    assert (await world.status(present[0])).state is ViewState.PASSED
    (fact,) = await world.facts(Promoted)
    assert fact.runs == (Run(1, 50, 0), Run(51, 1, 3))
    assert ghosts[0].ticket == 1


@pytest.mark.req("ENG-123")
async def test_it_leaves_absent_heads_in_line_when_nobody_could_be_promoted(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1)
    first, *_ = await world.joined(3)
    await world.check(first)

    await world.advance(40)
    full = await world.jobs.tick(ROOM)

    assert full.skipped == 0


@pytest.mark.req("ENG-124")
async def test_it_passes_over_ten_thousand_absent_heads_in_one_turn(world: World) -> None:
    await world.create(rate_per_minute=600, state=1, queue_max_per_ip=None)
    for _ in range(20):
        await asyncio.gather(*(world.join(Browser()) for _ in range(500)))
    await world.advance(120)
    (present,) = await world.joined()
    await world.update(state=0)

    answer = await world.tick(1)

    assert answer.skipped == 10_000
    assert (await world.status(present)).state is ViewState.PASSED


async def test_it_shares_the_work_of_one_call_between_deadlines_and_line(world: World) -> None:
    await world.create(rate_per_minute=100_000, passed_ttl_sec=20, queue_max_per_ip=None)
    await world.joined(600)
    assert (await world.tick(2)).promoted == 599  # the first was let in by its join
    await world.advance(30)
    await world.joined(1501)

    calls = []
    while not calls or calls[-1].again:
        calls.append(await world.jobs.tick(ROOM))

    assert all(2 * call.expired + call.promoted + call.skipped <= 1000 for call in calls)
    assert sum(call.expired for call in calls) == 600
    assert sum(call.promoted + call.skipped for call in calls) == 1500


@pytest.mark.req("ENG-140", "ENG-141")
async def test_it_takes_the_slot_of_an_untold_absent_pass_only(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=2)
    untold, told = await world.joined(2)
    await world.tick(1)
    await world.status(told)
    assert (await world.figures()).pending_entry == 2, "the first pass came with the answer of its join"

    await world.tick(40)

    assert (await world.status(told)).claim_until > 0
    (fact,) = await world.facts(SlotReleased)
    assert fact == SlotReleased(2, (untold.ticket,))
    assert (await world.figures()).passes_outstanding == 1


@pytest.mark.req("ENG-127", "ENG-140")
async def test_it_ends_the_slot_with_the_claim_window_and_keeps_the_pass(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1)
    (browser,) = await world.joined()
    await world.status(browser)

    await world.tick(119)
    held = await world.figures()
    await world.tick(2)
    released = await world.figures()
    view = await world.status(browser)

    assert (held.pending_entry, held.passes_outstanding) == (1, 0)
    assert (released.pending_entry, released.passes_outstanding) == (0, 1)
    assert (view.state, view.claim_until) == (ViewState.PASSED, 0)
    assert await world.facts(SlotReleased) == [SlotReleased(1, (1,))]


@pytest.mark.req("ENG-127")
async def test_it_has_a_claim_window_no_longer_than_the_pass(world: World) -> None:
    await world.create(rate_per_minute=60, passed_ttl_sec=20)
    answer = await world.join(Browser())

    assert answer.view is not None
    assert answer.view.claim_until == answer.view.pass_expires_at


@pytest.mark.req("ENG-130")
async def test_it_lapses_an_unused_pass_at_its_end(world: World) -> None:
    await world.create(rate_per_minute=60, passed_ttl_sec=60, max_concurrent=1)
    (browser,) = await world.joined()
    await world.status(browser)

    await world.tick(61)

    assert (await world.figures()).occupancy == 0
    assert (await world.status(browser)).reason is Reason.EXPIRED
    assert (await world.check(browser)).reason is Reason.EXPIRED
    assert (await world.join(browser)).reason is Reason.EXPIRED
    assert Lapsed(1, (1,)) in await world.facts(Lapsed)


@pytest.mark.req("ENG-130")
async def test_it_does_not_cut_a_session_because_the_pass_is_over(world: World) -> None:
    await world.create(rate_per_minute=60, passed_ttl_sec=60)
    (browser,) = await world.joined()
    await world.check(browser)

    await world.tick(70)

    assert (await world.check(browser)).verdict is Verdict.SESSION


@pytest.mark.req("ENG-035", "ENG-148")
async def test_it_ends_a_session_when_idle_or_at_its_longest(world: World) -> None:
    await world.create(rate_per_minute=6000, session_ttl_sec=60, session_max_sec=200)
    idle, busy = await world.joined(2)
    await world.tick(1)
    await world.check(idle)
    await world.check(busy)

    for _ in range(4):
        await world.tick(45)
        await world.check(busy)
    running = await world.check(busy)
    await world.tick(30)

    assert running.verdict is Verdict.SESSION
    assert (await world.check(idle)).reason is Reason.EXPIRED
    assert (await world.check(busy)).reason is Reason.EXPIRED
    assert await world.facts(Lapsed) == [Lapsed(2, (1,)), Lapsed(3, (2,))]
    assert (await world.figures()).active == 0


@pytest.mark.req("ENG-035")
@pytest.mark.parametrize("field", ["session_ttl_sec", "session_max_sec"])
async def test_it_ends_running_sessions_by_a_shorter_time_at_once(world: World, field: str) -> None:
    await world.create(rate_per_minute=60)
    (browser,) = await world.joined()
    await world.check(browser)
    await world.tick(70)

    await world.update(**{field: 60})
    await world.tick()
    await world.tick()

    assert (await world.figures()).active == 0
    assert (await world.check(browser)).reason is Reason.EXPIRED


@pytest.mark.req("ENG-035")
@pytest.mark.parametrize("field", ["session_ttl_sec", "session_max_sec"])
async def test_it_lengthens_running_sessions_at_once(world: World, field: str) -> None:
    await world.create(rate_per_minute=60, **{field: 60})
    (browser,) = await world.joined()
    await world.check(browser)

    await world.update(**{field: 600})
    await world.tick(100)

    assert (await world.check(browser)).verdict is Verdict.SESSION


@pytest.mark.req("ENG-121", "ENG-033")
async def test_it_applies_a_new_pass_time_to_later_passes_only(world: World) -> None:
    await world.create(rate_per_minute=60)
    first, second = await world.joined(2)

    await world.update(passed_ttl_sec=60)
    await world.tick(1)
    views = [await world.status(b) for b in (first, second)]

    spans = [view.pass_expires_at - view.passed_at for view in views]
    assert spans == pytest.approx([600_000, 60_000], abs=200)


@pytest.mark.req("ENG-012", "FLT-126", "FLT-127")
async def test_it_keeps_the_pace_when_the_wall_clock_steps(world: World) -> None:
    await world.create(rate_per_minute=60, **MANY)
    await asyncio.gather(*(world.join(Browser()) for _ in range(150)))

    promoted = []
    for step in (3_600_000, -3_600_000):
        header = unpack_header(await world.valkey.execute("GET", world.keys.header))
        header["offset"] += step
        await world.valkey.execute("SET", world.keys.header, pack_header(header))
        at_once = await world.jobs.tick(ROOM)  # before `advance`, which tells the room of no step
        promoted.append(at_once.promoted + (await world.tick(60)).promoted)

    assert all(59 <= count <= 66 for count in promoted), promoted


@pytest.mark.req("ENG-013", "FLT-126")
async def test_it_never_records_an_earlier_time_than_before(world: World) -> None:
    await world.create(rate_per_minute=60)
    (first,) = await world.joined()
    before = await world.status(first)
    header = unpack_header(await world.valkey.execute("GET", world.keys.header))
    header["offset"] -= 3_600_000
    await world.valkey.execute("SET", world.keys.header, pack_header(header))
    (second,) = await world.joined()
    admitted = await world.check(first)

    times = [element.at for element in await world.elements()]
    (fact,) = await world.facts(Admitted)

    assert admitted.verdict is Verdict.ADMITTED
    assert times == sorted(times)
    tenth = 100  # views are made from tenths of a second
    assert fact.first_admitted_at >= before.passed_at - tenth >= before.joined_at - 2 * tenth
    assert (await world.status(second)).joined_at >= before.joined_at - tenth


@pytest.mark.req("ENG-280")
async def test_it_lets_a_real_visitor_in_behind_two_hundred_ghosts(world: World) -> None:
    await world.create(rate_per_minute=600, max_concurrent=5, queue_max_per_ip=None, presence_sec=30)
    for _ in range(10):
        await asyncio.gather(*(world.join(Browser(address="ghost")) for _ in range(20)))
    (real,) = await world.joined()
    place = (await world.status(real)).ahead + 1

    waited = 0
    while (await world.status(real)).state is not ViewState.PASSED:
        await world.tick(5)
        waited += 5
        assert (await world.figures()).occupancy <= 5
    admitted = await world.check(real)
    await world.tick(1)
    figures = await world.figures()

    assert 196 <= place <= 201
    assert waited <= 40
    assert admitted.verdict is Verdict.ADMITTED
    assert (figures.active, figures.occupancy <= 5) == (1, True)
    assert (figures.passes_outstanding, figures.pending_entry) == (200, 0)
    paid = [run.count for fact in await world.facts(Promoted) for run in fact.runs if run.flags & Flag.PAID]
    assert sum(paid) == 5 + 1, "the first five ghosts, who were there, and the real visitor"
    await world.tick(640)
    assert (await world.figures()).passes_outstanding == 0


async def test_it_counts_joins_and_passes_of_the_last_minute(world: World) -> None:
    await world.create(rate_per_minute=60, **MANY)
    await world.joined(10)
    await world.tick(5)
    early = await world.figures()
    await world.tick(56)
    late = await world.figures()

    assert early.joins_per_min == 10
    assert early.passed_last_minute in (5, 6, 7)
    assert late.joins_per_min == 0
    assert late.passed_last_minute in (7, 8, 9), "the passes of the first moments are out of the window"
    assert early.oldest_wait_sec in (5, 6)
    assert late.oldest_wait_sec is None


async def _set_header(world: World, **fields: float) -> None:
    header = unpack_header(await world.valkey.execute("GET", world.keys.header))
    await world.valkey.execute("SET", world.keys.header, pack_header(header | fields))


async def test_it_promotes_nobody_while_a_million_facts_wait_for_the_journal(world: World) -> None:
    await world.create(rate_per_minute=600, **MANY)
    await world.joined(10)
    seq = (await world.header())["seq"]

    await _set_header(world, seq=1_000_000 + seq, committed=seq)
    stopped = await world.tick(5)
    await _set_header(world, seq=1_000_000 + seq, committed=seq + 1)
    going = await world.tick(1)

    assert (stopped.promoted, going.promoted > 0) == (0, True)


async def test_it_drops_the_records_of_tickets_that_were_over_for_a_day(world: World) -> None:
    await world.create(rate_per_minute=100_000, queue_max_per_ip=None, presence_sec=3600, passed_ttl_sec=60)
    browsers = [Browser() for _ in range(1100)]
    await asyncio.gather(*(world.join(b) for b in browsers))
    await world.tick(62)
    await world.tick(10)
    kept = await world.ticket(1)

    await world.advance(86_400)
    await world.tick(11)

    assert kept.state == TicketState.EXPIRED
    assert await world.valkey.execute("EXISTS", world.keys.tickets(1, 0), world.keys.doors(1, 0)) == 0
    assert await world.valkey.execute("HLEN", world.keys.owners(1)) == 1100 - 1024
    assert (await world.status(browsers[0])).reason is Reason.EXPIRED
    assert (await world.join(browsers[0])).reason is Reason.EXPIRED
    assert (await world.ticket(1025)).state == TicketState.EXPIRED


async def test_it_keeps_a_chunk_while_one_of_its_tickets_lives(world: World) -> None:
    await world.create(
        rate_per_minute=100_000,
        queue_max_per_ip=None,
        presence_sec=3600,
        passed_ttl_sec=60,
        session_ttl_sec=86_400,
        session_max_sec=604_800,
    )
    browsers = [Browser() for _ in range(1100)]
    await asyncio.gather(*(world.join(b) for b in browsers))
    await world.tick(2)
    await world.check(browsers[700])
    await world.tick(70)

    await world.advance(86_300)
    await world.tick(11)

    assert (await world.check(browsers[700])).verdict is Verdict.SESSION


@pytest.mark.req("ENG-036", "ENG-140")
async def test_it_obeys_a_shorter_presence_for_passes_that_were_given_before(world: World) -> None:
    await world.create(presence_sec=60, max_concurrent=1)
    await world.joined()
    assert (await world.figures()).pending_entry == 1

    await world.update(presence_sec=5)
    await world.tick(5)
    kept = (await world.figures()).pending_entry
    await world.tick(1)

    assert (kept, (await world.figures()).pending_entry) == (1, 0)


@pytest.mark.req("ENG-034")
async def test_it_ends_sessions_in_the_first_tick_after_they_were_made_shorter(world: World) -> None:
    await world.create(session_ttl_sec=600)
    (browser,) = await world.joined()
    await world.check(browser)
    await world.tick(20)

    await world.update(session_ttl_sec=10)
    await world.tick()

    assert (await world.figures()).active == 0
