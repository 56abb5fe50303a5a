"""A scheduled room: places with handles instead of numbers, and what else holds until the doors open."""

from __future__ import annotations

import pytest

from app.domain.facts_of_doors import Prejoined, Scheduled
from app.domain.facts_of_tickets import JoinWithdrawn, Left, OwnerRebound
from app.domain.room import RoomState
from app.infrastructure.engine_errors import RoomFenced
from app.infrastructure.engine_results import JoinCode, Reason, TicketState, Verdict, ViewState
from tests.engine.world import ROOM, Browser, World, digest

HOUR = 3600


async def scheduled(world: World, *, sec: float = HOUR, **fields: object) -> int:
    """A room whose doors open in ``sec``; returns that time."""
    await world.create(**fields)
    opens_at = await world.now() + int(sec * 1000)
    await world.update(opens_at=opens_at)
    return opens_at


@pytest.mark.req("ENG-167")
async def test_it_gives_a_handle_instead_of_a_number(world: World) -> None:
    opens_at = await scheduled(world)
    first, second = Browser(), Browser()

    answers = [await world.join(first), await world.join(second)]

    for count, answer in enumerate(answers, 1):
        view = answer.view
        assert view is not None
        assert answer.code is JoinCode.CREATED
        assert (view.state, view.reason, view.ticket, view.ahead) == (ViewState.SCHEDULED, Reason.SCHEDULED, 0, 0)
        assert view.schedule == (opens_at, count)
    assert (await world.figures()).last_ticket == 0
    assert first.handle != second.handle


@pytest.mark.req("ENG-258")
async def test_it_records_each_place_with_its_handle_address_and_owner(world: World) -> None:
    await scheduled(world)
    browser = Browser()

    answer = await world.join(browser)

    (fact,) = await world.facts(Prejoined)
    assert answer.seq & 0xFFFFFFFF == (await world.header())["seq"]
    assert fact == Prejoined(
        1,
        digest("ip" + browser.name),
        browser.handle,
        digest("addr" + browser.name, 8),
        digest("cookie" + browser.cookies[0]),
        digest("strict" + browser.name),
        digest("loose" + browser.name),
    )


async def test_it_keeps_one_place_for_one_browser(world: World) -> None:
    await scheduled(world)
    browser, count = Browser(), 0
    await world.join(browser)
    by_cookie = Browser(name=browser.name, cookies=browser.cookies)

    for again in (browser, by_cookie):
        answer = await world.join(again)
        assert answer.view is not None
        assert answer.view.schedule is not None
        count = answer.view.schedule.pre_count
        assert (answer.code, answer.view.state) == (JoinCode.EXISTING, ViewState.SCHEDULED)

    assert count == 1


async def test_it_tells_the_owner_of_a_place_alone(world: World) -> None:
    opens_at = await scheduled(world)
    owner = Browser()
    await world.join(owner)
    thief = Browser(handle=owner.handle)

    own, stolen = await world.status(owner), await world.status(thief)
    unknown = await world.status(Browser(handle=b"?" * 16))

    assert (own.state, own.ticket, own.schedule) == (ViewState.SCHEDULED, 0, (opens_at, 1))
    assert (stolen.state, stolen.reason) == (ViewState.GONE, Reason.BAD_TOKEN)
    assert (unknown.state, unknown.reason) == (ViewState.GONE, Reason.EXPIRED)
    fresh = await world.join(thief)
    assert (fresh.code, fresh.reason) == (JoinCode.CREATED, Reason.BAD_TOKEN)


@pytest.mark.req("ENG-062")
@pytest.mark.parametrize("state", [RoomState.ACTIVE, RoomState.PAUSED, RoomState.BYPASS])
async def test_it_is_scheduled_whatever_the_configured_state_is(world: World, state: RoomState) -> None:
    await scheduled(world, state=state)
    browser = Browser()

    answer = await world.join(browser)
    status, check = await world.status(browser), await world.check(browser)
    newcomer = await world.check(Browser())

    assert answer.view is not None
    assert answer.view.room_state is status.room_state is check.room_state is RoomState.SCHEDULED
    assert (answer.view.state, status.state) == (ViewState.SCHEDULED, ViewState.SCHEDULED)
    assert (check.verdict, check.reason) == (Verdict.QUEUE, Reason.SCHEDULED)
    assert (newcomer.verdict, newcomer.reason) == (Verdict.QUEUE, Reason.NEW)
    figures = await world.figures()
    assert (figures.state, figures.effective_state) == (state, RoomState.SCHEDULED)
    await world.advance(HOUR)
    await world.tick()
    assert (await world.figures()).effective_state is RoomState.SCHEDULED, "drawing"
    await world.open_doors()
    assert (await world.figures()).effective_state is state


@pytest.mark.req("ENG-063", "ENG-174")
async def test_it_keeps_line_passes_and_sessions_while_scheduled(world: World) -> None:
    await world.create(max_concurrent=2, session_ttl_sec=9000, passed_ttl_sec=9000, rate_per_minute=60)
    inside, passed, *line = await world.joined(4)
    await world.tick(3)
    assert (await world.check(inside)).verdict is Verdict.ADMITTED
    await world.update(opens_at=await world.now() + HOUR * 1000, max_concurrent=10)
    placed = Browser()
    await world.join(placed)

    for _ in range(6):
        await world.tick(60)
        for browser in line:
            await world.status(browser)

    assert [(await world.status(b)).ahead for b in line] == [0, 1]
    assert {(await world.status(b)).state for b in line} == {ViewState.SCHEDULED}
    assert {(await world.check(b)).reason for b in line} == {Reason.SCHEDULED}
    assert (await world.check(inside)).verdict is Verdict.SESSION
    assert (await world.check(passed)).verdict is Verdict.ADMITTED
    assert (await world.header())["credit"] <= 1
    figures = await world.figures()
    assert (figures.waiting, figures.pre_queue) == (2, 1)
    await world.advance(HOUR)
    await world.tick()
    await world.open_doors()
    assert (await world.status(placed)).ticket == 5, "after all existing ones"


@pytest.mark.req("ENG-064")
@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (RoomState.ACTIVE, ViewState.WAITING),
        (RoomState.PAUSED, ViewState.PAUSED),
        (RoomState.BYPASS, ViewState.BYPASS),
    ],
)
async def test_it_lets_the_configured_state_act_at_the_opening(
    world: World, state: RoomState, shown: ViewState
) -> None:
    await scheduled(world, sec=60, state=state, rate_per_minute=60)
    browsers = await world.joined(3)
    await world.advance(61)
    await world.tick()
    await world.open_doors()

    views = [await world.status(browser) for browser in browsers]
    if state is not RoomState.BYPASS:
        assert sorted(view.ticket for view in views) == [1, 2, 3]
    assert {view.state for view in views} == {shown}
    assert {view.room_state for view in views} == {state}
    await world.tick(2)
    assert (await world.figures()).pending_entry > 0 or state is not RoomState.ACTIVE
    assert (await world.figures()).pending_entry == 0 or state is RoomState.ACTIVE
    if state is RoomState.BYPASS:
        assert {(await world.check(browser)).verdict for browser in browsers} == {Verdict.BYPASS}


@pytest.mark.req("ENG-063", "ENG-119")
async def test_it_earns_no_credit_while_scheduled(world: World) -> None:
    await scheduled(world, sec=60, rate_per_minute=600, presence_sec=HOUR)
    browsers = await world.joined(20)
    await world.advance(61)
    await world.tick()
    await world.open_doors()

    await world.tick()

    assert sum([(await world.status(b)).state is ViewState.PASSED for b in browsers]) <= 1


async def test_it_obeys_the_cap_of_places_per_address(world: World) -> None:
    await scheduled(world, pre_queue_max_per_ip=2, queue_max_per_ip=1)
    first, _ = await world.joined(2, address="office")

    third = await world.join(Browser(address="office"))

    assert (third.code, third.view) == (JoinCode.PRE_IDENTITY_LIMIT, None)
    assert (await world.join(first)).code is JoinCode.EXISTING
    assert (await world.join(Browser(address="home"))).code is JoinCode.CREATED
    await world.leave(first)
    assert (await world.join(Browser(address="office"))).code is JoinCode.CREATED
    await world.update(pre_queue_max_per_ip=None)
    assert (await world.join(Browser(address="office"))).code is JoinCode.CREATED


@pytest.mark.req("ENG-185", "ENG-039")
async def test_it_lets_an_office_share_one_address_by_default(world: World) -> None:
    await scheduled(world)

    codes = [(await world.join(Browser(address="office"))).code for _ in range(17)]

    assert codes == [JoinCode.CREATED] * 16 + [JoinCode.PRE_IDENTITY_LIMIT]


@pytest.mark.req("ENG-295", "ENG-160")
async def test_it_bounds_the_places_of_a_network_too(world: World) -> None:
    await scheduled(world, pre_queue_max_per_ip=1)

    codes = [(await world.join(Browser(address=f"2001:db8:0:1{n:02x}::1"))).code for n in range(17)]

    assert codes == [JoinCode.CREATED] * 16 + [JoinCode.PRE_IDENTITY_LIMIT]
    assert (await world.join(Browser(address="2001:db8:0:200::1"))).code is JoinCode.CREATED


@pytest.mark.req("ENG-189", "ENG-190", "ENG-163")
async def test_it_drops_everybody_in_a_purge(world: World) -> None:
    await scheduled(world, sec=60, pre_queue_max_per_ip=2)
    purged = await world.joined(2, address="office")

    answer = await world.admin.purge(ROOM, actor="ann")

    assert (answer.waiting, answer.pre_queue) == (0, 2)
    for browser in purged:
        view = await world.status(browser)
        assert (view.state, view.reason, view.by_purge) == (ViewState.GONE, Reason.EJECTED, True)
        assert (await world.check(browser)).reason is Reason.EJECTED
    again = await world.join(purged[0])
    assert (again.code, again.reason) == (JoinCode.CREATED, Reason.EJECTED)
    assert (await world.join(Browser(address="office"))).code is JoinCode.CREATED
    await world.advance(61)
    await world.open_doors()
    assert (await world.figures()).waiting == 2
    assert (await world.status(purged[1])).by_purge


async def test_it_drops_those_too_whose_order_is_being_drawn(world: World) -> None:
    await scheduled(world, sec=60)
    browsers = await world.joined(5)
    await world.advance(61)
    await world.tick()
    late = (await world.joined(1))[0]

    answer = await world.admin.purge(ROOM, actor="ann")
    after = (await world.joined(1))[0]

    assert (answer.waiting, answer.pre_queue) == (1, 5)
    await world.open_doors()
    for browser in (*browsers, late):
        view = await world.status(browser)
        assert (view.reason, view.by_purge) == (Reason.EJECTED, True)
    figures = await world.figures()
    assert (figures.waiting, (await world.status(after)).ticket) == (1, 7)


async def test_it_takes_back_a_place_whose_commit_failed(world: World) -> None:
    await scheduled(world, pre_queue_max_per_ip=1)
    browser = Browser(address="home")
    answer = await world.join(browser)

    assert not await world.admin.undo_prejoin(ROOM, 1, answer.seq, browser.handle)

    assert (await world.status(browser)).state is ViewState.GONE
    assert (await world.figures()).pre_queue == 0
    (fact,) = await world.facts(JoinWithdrawn)
    assert fact == JoinWithdrawn(0, answer.seq & 0xFFFFFFFF, 1)
    again = await world.join(Browser(address="home"))
    assert again.code is JoinCode.CREATED
    await world.commit()
    assert await world.admin.undo_prejoin(ROOM, 1, again.seq, browser.handle)


@pytest.mark.req("ENG-077", "ENG-269")
async def test_it_lets_the_holder_of_a_place_leave(world: World) -> None:
    await scheduled(world, sec=60)
    leaver, stayer = await world.joined(2)
    assert (await world.leave(Browser(handle=leaver.handle))).was is TicketState.NONE, "not his"

    answer = await world.leave(leaver)

    assert answer.was is TicketState.PREQUEUED
    assert (await world.facts(Left)) == [Left((), (1,))]
    assert (await world.leave(leaver)).was is TicketState.NONE
    assert (await world.status(leaver)).reason is Reason.EXPIRED
    assert (await world.check(leaver)).reason is Reason.EXPIRED
    await world.advance(61)
    await world.tick()
    await world.open_doors()
    assert (await world.status(stayer)).ticket == 1
    assert (await world.status(leaver)).reason is Reason.EXPIRED


@pytest.mark.req("ENG-173", "ENG-257")
async def test_it_keeps_everybody_when_the_opening_is_moved(world: World) -> None:
    opens_at = await scheduled(world, sec=60)
    browsers = await world.joined(3)

    later = opens_at + 60_000
    write = await world.update(opens_at=later)

    assert (write.pre_queue, write.changed) == (3, ("opens_at",))
    assert [fact.pre_queue for fact in await world.facts(Scheduled)] == [0, 3]
    await world.advance(90)
    await world.tick()
    assert {(await world.status(b)).schedule for b in browsers} == {(later, 3)}
    await world.advance(31)
    await world.tick()
    await world.open_doors()
    assert sorted([(await world.status(b)).ticket for b in browsers]) == [1, 2, 3]


@pytest.mark.req("ENG-257")
async def test_it_records_a_schedule_by_itself_and_other_fields_beside_it(world: World) -> None:
    await world.create()
    opens_at = await world.now() + 60_000

    write = await world.update(opens_at=opens_at, pre_queue_max_per_ip=4, name="Drop")

    (fact,) = await world.facts(Scheduled)
    assert (fact.changes, fact.actor) == ({"opens_at": opens_at, "pre_queue_max_per_ip": 4}, "op")
    assert write.seq & 0xFFFFFFFF == (await world.header())["seq"]
    assert not write.background
    world_room = await world.admin.read(ROOM)
    assert world_room is not None
    assert (world_room.config.name, world_room.config.opens_at) == ("Drop", opens_at)
    assert not (await world.update(opens_at=opens_at)).changed


@pytest.mark.req("ENG-172")
async def test_it_draws_at_once_when_the_schedule_is_cancelled(world: World) -> None:
    await scheduled(world)
    browsers = await world.joined(3)

    write = await world.update(opens_at=None)

    assert write.pre_queue == 3
    assert (await world.figures()).effective_state is RoomState.SCHEDULED
    await world.open_doors()
    views = [await world.status(browser) for browser in browsers]
    assert sorted(view.ticket for view in views) == [1, 2, 3]
    assert {view.room_state for view in views} == {RoomState.ACTIVE}


async def test_it_forgets_the_schedule_when_it_is_cancelled_before_anybody_came(world: World) -> None:
    await scheduled(world)

    await world.update(opens_at=None)

    figures = await world.figures()
    assert (figures.effective_state, figures.opens_at) == (RoomState.ACTIVE, 0)
    answer = await world.join(Browser())
    assert answer.view is not None
    assert answer.view.ticket == 1


@pytest.mark.req("ENG-184")
async def test_it_keeps_the_opening_until_a_new_one_which_has_a_draw_of_its_own(world: World) -> None:
    opens_at = await scheduled(world, sec=60)
    early = await world.joined(2)
    await world.advance(61)
    await world.tick()
    assert (await world.figures()).drawn_at == 0
    await world.open_doors()
    figures = await world.figures()
    assert (figures.opens_at, world.room.config.opens_at) == (opens_at, opens_at)
    assert 0 < figures.drawn_at <= figures.now

    await world.update(opens_at=await world.now() + 60_000)

    assert (await world.figures()).drawn_at == 0
    late = await world.joined(2)
    assert {(await world.status(b)).ticket for b in early} == {1, 2}, "their numbers stay told"
    assert {(await world.status(b)).ticket for b in late} == {0}
    await world.advance(61)
    await world.tick()
    await world.open_doors()
    assert {(await world.status(b)).ticket for b in late} == {3, 4}
    await world.update(opens_at=None)
    assert (await world.figures()).drawn_at == 0


async def test_it_refuses_another_opening_while_the_order_is_drawn(world: World) -> None:
    await scheduled(world, sec=60)
    await world.joined(1)
    await world.advance(61)
    await world.tick()

    with pytest.raises(RoomFenced):
        await world.update(opens_at=await world.now() + HOUR * 1000)

    await world.update(name="Drop")
    await world.open_doors()
    assert (await world.figures()).drawn_at > 0


async def test_it_makes_a_room_that_is_scheduled_from_the_start(world: World) -> None:
    await world.create()
    soon = await world.now() + HOUR * 1000
    await world.admin.delete(ROOM, actor="op")
    await world.commit()

    await world.create(gen=2, opens_at=soon)

    assert (await world.figures()).effective_state is RoomState.SCHEDULED
    browser = Browser()
    answer = await world.join(browser)
    assert answer.view is not None
    assert (answer.view.ticket, answer.view.schedule) == (0, (soon, 1))


async def test_it_tells_the_handle_of_an_earlier_generation(world: World) -> None:
    await scheduled(world)
    browser = Browser()
    await world.join(browser)
    write = await world.admin.delete(ROOM, actor="op")
    assert write.pre_queue == 1
    await world.commit()
    await world.create(gen=2)

    assert (await world.status(browser)).reason is Reason.STALE_GENERATION
    assert (await world.check(browser)).reason is Reason.STALE_GENERATION
    names = await world.valkey.execute("KEYS", f"{world.prefix}{{{ROOM}}}:1:*")
    assert names == [], "nothing is left of the generation"


@pytest.mark.req("ENG-108")
async def test_it_binds_no_place_anew_that_is_over(world: World) -> None:
    await scheduled(world)
    (browser,) = await world.joined()
    await world.admin.purge(ROOM, actor="op")
    browser.network = "elsewhere"

    view = await world.status(browser)

    assert view.reason is Reason.EJECTED
    assert await world.facts(OwnerRebound) == []
