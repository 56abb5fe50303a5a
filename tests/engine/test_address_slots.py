"""Slots of one address: the bound, who is held back by it, and who is not."""

from __future__ import annotations

import pytest

from app.domain.facts_of_passes import Promoted, Run, SlotGiven
from app.domain.layout import Flag
from app.infrastructure.engine_results import Reason, Verdict, ViewState
from tests.engine.world import ROOM, Browser, World

OPEN = {"rate_per_minute": 60_000, "queue_max_per_ip": None, "presence_sec": 3600, "passed_ttl_sec": 6000}


async def office(world: World, count: int, **fields: int | None) -> list[Browser]:
    """A room in which ``count`` visitors of one address have had their turn."""
    await world.create(**{**OPEN, "state": 1, **fields})
    browsers = await world.joined(count, address="office")
    await world.update(state=0)
    await world.tick(1)
    return browsers


async def in_slots(world: World, browsers: list[Browser]) -> list[int]:
    """Tickets that hold a slot."""
    return [b.ticket for b in browsers if (await world.ticket(b.ticket)).flags & Flag.SLOT]


@pytest.mark.req("ENG-296")
async def test_it_gives_an_address_at_its_bound_a_pass_without_slot_or_credit(world: World) -> None:
    await world.create(**{**OPEN, "rate_per_minute": 60}, state=1, session_max_per_ip=2, max_concurrent=10)
    hoarders = await world.joined(5, address="office")
    others = await world.joined(2)
    await world.update(state=0, rate_per_minute=240)
    answer = await world.tick(1)

    facts = await world.facts(Promoted)
    figures = await world.figures()

    assert answer.promoted in (4, 5)
    assert facts[0].runs[:2] == (Run(1, 2, 3), Run(3, 3, 0))
    assert await in_slots(world, hoarders) == [1, 2]
    assert await in_slots(world, others) == [6, 7], "those behind are held up by nobody"
    assert (figures.passes_outstanding, figures.pending_entry, figures.waiting) == (3, 4, 0)
    assert [(await world.status(b)).state for b in hoarders] == [ViewState.PASSED] * 2 + [ViewState.AT_CAPACITY] * 3


@pytest.mark.req("ENG-296")
async def test_it_queues_the_check_of_an_address_at_its_bound_though_a_slot_is_free(world: World) -> None:
    first, second, third = await office(world, 3, session_max_per_ip=2, max_concurrent=10)
    inside = [(await world.check(b)).verdict for b in (first, second)]

    refused = await world.check(third)
    await world.leave(second)
    again = await world.check(third)

    assert inside == [Verdict.ADMITTED] * 2
    assert refused.reason is Reason.AT_CAPACITY
    assert again.verdict is Verdict.ADMITTED
    assert (await world.figures()).top_address_slots == 2


@pytest.mark.req("ENG-296", "ENG-122")
async def test_it_gives_the_next_slot_to_the_oldest_of_the_address_and_before_the_line(world: World) -> None:
    browsers = await office(world, 5, session_max_per_ip=2, max_concurrent=3)
    await world.joined(2)
    await world.tick(1)
    await world.check(browsers[0])

    await world.leave(browsers[0])
    await world.tick(1)

    (given,) = await world.facts(SlotGiven)
    assert given.tickets == (3,)
    assert await in_slots(world, browsers) == [2, 3]
    assert (await world.figures()).waiting == 1
    assert (await world.status(browsers[3])).state is ViewState.AT_CAPACITY


@pytest.mark.req("ENG-296")
async def test_it_lets_holders_of_other_addresses_pass_those_who_are_held_back(world: World) -> None:
    hoarders = await office(world, 4, session_max_per_ip=1, max_concurrent=2)
    late, inside = Browser(), Browser()
    await world.join(late)
    await world.tick(1)
    await world.status(late)
    await world.tick(121)
    await world.status(hoarders[1])
    await world.join(inside)
    await world.tick(1)
    await world.check(inside)
    await world.check(hoarders[0])
    assert (await world.status(late)).state is ViewState.AT_CAPACITY, "both slots are taken"

    await world.leave(inside)
    await world.tick(1)

    assert (await world.check(late)).verdict is Verdict.ADMITTED


@pytest.mark.req("ENG-296")
async def test_it_ends_no_session_by_a_lower_bound_and_obeys_a_higher_one_at_once(world: World) -> None:
    browsers = await office(world, 6, session_max_per_ip=3, max_concurrent=10)
    for browser in browsers[:3]:
        await world.check(browser)

    await world.update(session_max_per_ip=1)
    await world.tick(1)
    kept = [(await world.check(b)).verdict for b in browsers[:3]]
    await world.leave(browsers[0])
    await world.tick(1)
    lowered = await in_slots(world, browsers)
    await world.update(session_max_per_ip=4)
    await world.tick(1)
    raised = await in_slots(world, browsers)
    await world.update(session_max_per_ip=None)
    await world.tick(1)

    assert kept == [Verdict.SESSION] * 3
    assert (lowered, raised) == ([2, 3], [2, 3, 4, 5])
    assert await in_slots(world, browsers) == [2, 3, 4, 5, 6]
    assert await world.valkey.execute("EXISTS", world.keys.held_back(1)) == 0


@pytest.mark.req("ENG-296")
async def test_it_promotes_nobody_of_an_address_at_its_bound_in_the_step_of_a_join(world: World) -> None:
    await world.create(**OPEN, session_max_per_ip=1, max_concurrent=10)
    first, second = Browser(address="office"), Browser(address="office")
    one = await world.join(first)
    await world.tick(1)

    two = await world.join(second)
    other = await world.join(Browser())
    await world.tick(1)

    assert one.view is not None
    assert two.view is not None
    assert other.view is not None
    assert [one.view.state, two.view.state, other.view.state] == [
        ViewState.PASSED, ViewState.WAITING, ViewState.WAITING,
    ]  # fmt: skip
    assert (await world.status(second)).state is ViewState.AT_CAPACITY


@pytest.mark.req("ENG-296")
async def test_it_counts_slots_by_networks_of_64_and_tells_the_largest_number_without_the_field(world: World) -> None:
    await world.create(**OPEN, state=1)
    empty = (await world.figures()).top_address_slots
    for address in ("2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:2::1", "home"):
        await world.join(Browser(address=address))
    (single,) = await world.joined()
    await world.update(state=0)
    await world.tick(1)

    held = (await world.figures()).top_address_slots
    await world.check(single)
    await world.leave(Browser(ticket=1, network="nobody"))
    still = (await world.figures()).top_address_slots
    await world.advance(121)
    await world.tick(1)

    assert (empty, held, still) == (0, 2, 2)
    assert (await world.figures()).top_address_slots == 1, "the claim windows are over; one session is left"


@pytest.mark.req("ENG-296")
async def test_it_takes_back_the_slot_of_an_admission_that_was_withdrawn(world: World) -> None:
    first, second, third = await office(world, 3, session_max_per_ip=1, max_concurrent=10)
    await world.leave(first)
    admitted = await world.check(second)
    before = await world.check(third)

    await world.admin.undo_admission(world.room.id, 1, admitted.seq, admitted.ticket)
    again = await world.check(second)

    assert (admitted.verdict, before.reason) == (Verdict.ADMITTED, Reason.AT_CAPACITY)
    assert again.verdict is Verdict.ADMITTED
    assert (await world.check(third)).reason is Reason.AT_CAPACITY
    assert (await world.figures()).top_address_slots == 1


async def test_it_forgets_who_was_held_back_when_he_leaves_or_his_pass_ends(world: World) -> None:
    browsers = await office(world, 4, session_max_per_ip=1, max_concurrent=10, passed_ttl_sec=200, presence_sec=20)
    held = await world.valkey.execute("ZCARD", world.keys.held_back(1))

    await world.leave(browsers[2])
    left = await world.valkey.execute("ZCARD", world.keys.held_back(1))
    await world.tick(230)

    assert (held, left) == (3, 2)
    assert (await world.figures()).passes_outstanding == 0
    assert await world.valkey.execute("EXISTS", world.keys.held_back(1), world.keys.slots(1)) == 0


async def test_it_skips_absent_holders_when_an_address_may_have_a_slot_again(world: World) -> None:
    browsers = await office(world, 4, session_max_per_ip=1, max_concurrent=10, presence_sec=20)
    await world.check(browsers[0])
    await world.advance(21)
    await world.status(browsers[2])

    await world.leave(browsers[0])
    await world.tick(1)

    (given,) = await world.facts(SlotGiven)
    assert given.tickets == (3,)


async def hoard(world: World, jars: list[Browser]) -> int:
    """One address does all it can: join, ask, enter, check. Slots that it holds."""
    for browser in jars:
        if not browser.ticket or (await world.status(browser)).state is ViewState.GONE:
            await world.join(browser)
        await world.check(browser)
    return len(await in_slots(world, jars))


@pytest.mark.req("ENG-302")
async def test_it_leaves_a_hoarder_four_slots_and_serves_everybody_else_in_turn(world: World) -> None:
    fair = {**OPEN, "rate_per_minute": 600, "queue_max_per_ip": 16, "session_ttl_sec": 60, "presence_sec": 30}
    await world.create(**fair, max_concurrent=10, session_max_per_ip=4)
    jars = [Browser(address="hoarder") for _ in range(16)]
    await hoard(world, jars)
    others = await world.joined(20)
    entered: list[int] = []
    most = 0
    for second in range(0, 60, 2):
        most = max(most, await hoard(world, jars))
        for browser in others:
            await world.status(browser)
            if browser.ticket not in entered and (await world.check(browser)).verdict is Verdict.ADMITTED:
                entered.append(browser.ticket)
            elif browser.ticket in entered and second % 10 == 0:
                await world.leave(browser)
        await world.tick(2)
        assert (await world.figures()).occupancy <= 10
        if len(entered) == 20:
            break

    assert (most, entered) == (4, sorted(entered))
    assert len(entered) == 20


async def test_it_shows_how_many_slots_a_hoarder_has_in_a_room_without_a_bound(world: World) -> None:
    await world.create(**OPEN, max_concurrent=10)
    jars = [Browser(address="hoarder") for _ in range(16)]

    for _ in range(3):
        await hoard(world, jars)
        await world.tick(1)

    assert (await world.figures()).top_address_slots == 10


@pytest.mark.req("ENG-296", "ENG-187")
async def test_it_gives_slots_after_a_flush_oldest_first_as_far_as_the_bound_allows(world: World) -> None:
    await world.create(**{**OPEN, "rate_per_minute": 0}, session_max_per_ip=2, max_concurrent=4)
    hoarders = await world.joined(4, address="office")
    others = await world.joined(4)

    await world.admin.flush(world.room.id, actor="op")
    await world.tick(1)
    await world.tick(1)

    assert await in_slots(world, hoarders) == [1, 2]
    assert await in_slots(world, others) == [5, 6]
    assert (await world.figures()).top_address_slots == 2
    assert (await world.figures()).waiting == 0


async def test_it_counts_the_slots_that_a_flush_gave(world: World) -> None:
    await world.create(**{**OPEN, "rate_per_minute": 0}, max_concurrent=4)
    browsers = await world.joined(6, address="office")

    await world.admin.flush(world.room.id, actor="op")
    await world.status(browsers[2])
    asked = (await world.figures()).top_address_slots
    await world.tick(1)

    assert (asked, (await world.figures()).top_address_slots) == (1, 4)


@pytest.mark.req("ENG-132", "ENG-187")
async def test_it_lets_nobody_in_before_an_older_one_while_a_flush_is_being_written(world: World) -> None:
    await world.create(**{**OPEN, "rate_per_minute": 0}, session_max_per_ip=2, max_concurrent=1)
    first, second = await world.joined(2)
    await world.admin.flush(ROOM, actor="op")

    early = (await world.check(second)).reason
    await world.tick()

    assert early is Reason.AT_CAPACITY
    assert (await world.check(second)).reason is Reason.AT_CAPACITY
    assert (await world.check(first)).verdict is Verdict.ADMITTED


@pytest.mark.req("ENG-187")
@pytest.mark.parametrize("bound", [None, 2])
async def test_it_writes_a_flush_as_it_was_decided_whatever_the_bound_is_now(world: World, bound: int | None) -> None:
    other = 2 if bound is None else None
    await world.create(**{**OPEN, "rate_per_minute": 0}, session_max_per_ip=bound, max_concurrent=1)
    await world.joined(2)
    await world.admin.flush(ROOM, actor="op")

    await world.update(session_max_per_ip=other)
    await world.tick()

    flags = [(await world.ticket(n)).flags & Flag.AT_DOOR for n in (1, 2)]
    assert flags == ([0, 0] if bound is None else [Flag.AT_DOOR, Flag.AT_DOOR])


@pytest.mark.req("ENG-118", "ENG-122", "ENG-187")
@pytest.mark.parametrize("second", ["join", "flush"])
async def test_it_gives_no_slot_past_those_whom_a_flush_has_sent_to_the_door(world: World, second: str) -> None:
    await world.create(**OPEN, state=1, session_max_per_ip=2, max_concurrent=1)
    (first,) = await world.joined()
    await world.admin.flush(ROOM, actor="op")

    if second == "join":
        await world.update(state=0)
        await world.joined()
    else:
        await world.joined()
        await world.update(session_max_per_ip=None)
        await world.admin.flush(ROOM, actor="op")
    await world.tick()

    assert (await world.ticket(2)).flags & Flag.SLOT == 0
    assert await in_slots(world, [first]) == [1]
