"""The opening of the doors: when it happens, who gets which number, and that nobody knows before it is recorded."""

from __future__ import annotations

import hashlib
import secrets

import pytest

from app.domain.draw import draw
from app.domain.facts_of_doors import DrawBegun, Drawn, DrawPart, Prejoined
from app.domain.layout import Phase
from app.domain.room import RoomState
from app.domain.ticket_state import TicketState
from app.infrastructure.engine_admin import EjectCode
from app.infrastructure.engine_results import JoinCode, Reason, Verdict, ViewState
from app.services.draws import SLICE, draw_room
from tests.engine.test_prequeue import scheduled
from tests.engine.world import ROOM, Browser, World, digest


async def numbers(world: World, browsers: list[Browser]) -> list[int]:
    return [(await world.status(browser, seen=False)).ticket for browser in browsers]


async def drawn_order(world: World) -> list[int]:
    return [place for part in await world.facts(DrawPart) for place in part.order]


@pytest.mark.req("ENG-299")
@pytest.mark.parametrize("fast", ["instance", "store"])
async def test_it_opens_no_door_by_one_fast_clock(world: World, fast: str) -> None:
    opens_at = await scheduled(world, sec=60)
    await world.joined(2)
    instance = opens_at + 3_600_000
    if fast == "store":
        await world.advance(3600)
        instance = opens_at - 1

    answer = await world.jobs.tick(ROOM, instance)

    assert answer.phase is Phase.OPEN
    late = Browser()
    assert (await world.join(late)).view is not None
    assert late.handle, "still before the opening"
    if fast == "instance":
        await world.advance(60)
    assert (await world.jobs.tick(ROOM, opens_at)).phase is Phase.DRAWING


@pytest.mark.req("ENG-182", "ENG-299")
async def test_it_numbers_later_joins_behind_the_drawn_ones_at_once(world: World) -> None:
    await scheduled(world, sec=60)
    early = await world.joined(5)
    await world.advance(61)
    await world.tick()
    late = Browser()

    answer = await world.join(late)

    assert answer.view is not None
    assert answer.code is JoinCode.CREATED
    assert (answer.view.state, answer.view.ticket, answer.view.ahead) == (ViewState.SCHEDULED, 6, 5)
    assert await numbers(world, early) == [0] * 5
    assert (await world.check(early[0])).reason is Reason.SCHEDULED
    await world.open_doors()
    assert sorted(await numbers(world, early)) == [1, 2, 3, 4, 5]
    assert await numbers(world, [late]) == [6]
    assert (await world.status(late)).ahead <= 5


@pytest.mark.req("ENG-180")
async def test_it_reveals_nothing_before_the_draw_is_committed(world: World) -> None:
    await scheduled(world, sec=60)
    browsers = await world.joined(SLICE + 3)
    await world.advance(61)
    await world.tick()
    await world.commit()
    state = await world.jobs.draw_state(ROOM)
    place = hashlib.sha256(b"").digest()
    order = draw(state.seed, [(n, b.handle, digest("addr" + b.name, 8)) for n, b in enumerate(browsers, 1)])

    await world.jobs.draw_put(ROOM, 1, state.seed, 0, order.places[: SLICE * 4])
    await world.commit()

    assert not await world.jobs.draw_end(ROOM, 1, state.seed, 1, place), "not complete"
    by_cookie = Browser(name=browsers[0].name, cookies=browsers[0].cookies)
    assert await numbers(world, browsers[:5]) == [0] * 5
    joined = await world.join(by_cookie)
    assert joined.view is not None
    assert joined.view.ticket == 0
    assert await draw_room(world.jobs, ROOM) is not None
    assert await draw_room(world.jobs, ROOM) is None
    assert await numbers(world, browsers[:5]) == [0] * 5
    assert (await world.check(browsers[0])).reason is Reason.SCHEDULED
    assert (await world.figures()).waiting == 0
    await world.tick(5)
    assert (await world.figures()).passes_outstanding + (await world.figures()).pending_entry == 0
    await world.commit()
    assert sorted(await numbers(world, browsers)) == list(range(1, SLICE + 4))


@pytest.mark.req("ENG-176", "ENG-261")
async def test_it_draws_once_whoever_takes_part(world: World) -> None:
    opens_at = await scheduled(world, sec=60)
    browsers = await world.joined(2 * SLICE + 1)
    await world.advance(59)
    await world.tick()
    assert (await world.status(browsers[0])).schedule == (opens_at, len(browsers))
    await world.tick(1)
    seeds = {(await world.jobs.draw_state(ROOM)).seed}
    await world.jobs.tick(ROOM, await world.now())
    seeds.add((await world.jobs.draw_state(ROOM)).seed)
    state = await world.jobs.draw_state(ROOM)
    order = draw(state.seed, [(n, b.handle, digest("addr" + b.name, 8)) for n, b in enumerate(browsers, 1)])
    await world.jobs.draw_put(ROOM, 1, state.seed, 0, order.places[:40])
    assert await world.jobs.draw_put(ROOM, 1, state.seed, 0, order.places[:40]) == 10, "done already"
    assert await world.jobs.draw_put(ROOM, 1, bytes(32), 10, order.places[40:80]) == -1, "another draw"

    drawn = await draw_room(world.jobs, ROOM)

    assert drawn is not None
    assert len(seeds) == 1
    (begun,), (closing,) = await world.facts(DrawBegun), await world.facts(Drawn)
    assert [part.done for part in await world.facts(DrawPart)] == [0, 10, 10 + SLICE]
    assert sorted(await drawn_order(world)) == list(range(1, len(browsers) + 1))
    assert (begun.seed, begun.opens_at, begun.first, begun.count) == (state.seed, opens_at, 1, len(browsers))
    assert (closing.seed, closing.opens_at, closing.algorithm) == (state.seed, opens_at, 1)
    assert (closing.identities, closing.digest) == (len(browsers), order.digest)
    assert await world.jobs.draw_put(ROOM, 1, state.seed, 0, order.places[:40]) == -1
    await world.commit()
    told = await numbers(world, browsers)
    in_order = sorted(range(1, len(browsers) + 1), key=lambda place: told[place - 1])
    assert b"".join(place.to_bytes(4, "little") for place in in_order) == order.places


@pytest.mark.req("ENG-300")
async def test_it_can_be_computed_again_from_the_facts(world: World) -> None:
    await scheduled(world, sec=60)
    for n in range(30):
        await world.join(Browser(address=f"net{n % 7}"))
    gone = Browser()
    await world.join(gone)
    await world.leave(gone)
    await world.advance(61)
    await world.tick()
    assert await draw_room(world.jobs, ROOM) is not None

    (begun,), (closing,) = await world.facts(DrawBegun), await world.facts(Drawn)
    places = [(f.place, f.handle, f.address) for f in await world.facts(Prejoined) if f.handle != gone.handle]
    again = draw(begun.seed, places)

    assert again.places == b"".join(n.to_bytes(4, "little") for n in await drawn_order(world))
    assert (again.digest, again.identities, again.count) == (closing.digest, 7, begun.count)
    assert begun.seed != bytes(32)


@pytest.mark.req("ENG-181", "ENG-078")
async def test_it_carries_presence_owner_join_time_and_address_over(world: World) -> None:
    await scheduled(world, sec=60, rate_per_minute=0, presence_sec=20, queue_max_per_ip=1)
    present, silent = Browser(address="home"), Browser(address="cafe")
    joined = [await world.join(present), await world.join(silent)]
    joined_at = [answer.view.joined_at for answer in joined if answer.view is not None]
    for _ in range(6):
        await world.tick(10)
        await world.status(present)
    await world.tick(1)
    await world.open_doors()

    views = [await world.status(present, seen=False), await world.status(silent, seen=False)]

    assert [view.joined_at for view in views] == joined_at
    assert all(0 < view.ticket <= 2 and view.owner_by_cookie for view in views)
    thief = Browser(handle=present.handle)
    assert (await world.status(thief)).reason is Reason.BAD_TOKEN
    assert (await world.join(Browser(address="home"))).code is JoinCode.IDENTITY_LIMIT, "counts as a place in line"
    by_cookie = await world.join(Browser(name=present.name, cookies=present.cookies))
    assert by_cookie.view is not None
    assert by_cookie.view.ticket == views[0].ticket
    await world.update(rate_per_minute=6000)
    await world.tick(1)
    assert (await world.check(present)).verdict is Verdict.ADMITTED
    record = await world.ticket(views[1].ticket)
    assert (record.state, record.flags) == (TicketState.PASSED, 0), "absent: passed over without a slot"


@pytest.mark.req("ENG-166")
async def test_it_counts_drawn_tickets_even_above_the_cap_of_the_line(world: World) -> None:
    await scheduled(world, sec=60, rate_per_minute=0, queue_max_per_ip=2, pre_queue_max_per_ip=4)
    office = await world.joined(4, address="office")
    await world.advance(61)
    await world.tick()
    await world.open_doors()

    assert sorted(await numbers(world, office)) == [1, 2, 3, 4]
    for leaver in office[:3]:
        assert (await world.join(Browser(address="office"))).code is JoinCode.IDENTITY_LIMIT
        await world.leave(leaver)
    assert (await world.join(Browser(address="office"))).code is JoinCode.CREATED


async def test_it_keeps_the_number_of_a_place_given_up_while_the_order_is_drawn(world: World) -> None:
    await scheduled(world, sec=60, rate_per_minute=0)
    browsers = await world.joined(6)
    await world.advance(61)
    await world.tick()
    state = await world.jobs.draw_state(ROOM)
    order = draw(state.seed, [(n, b.handle, digest("addr" + b.name, 8)) for n, b in enumerate(browsers, 1)])
    places = [int.from_bytes(order.places[at : at + 4], "little") for at in range(0, 24, 4)]
    await world.jobs.draw_put(ROOM, 1, state.seed, 0, order.places[:12])
    leavers = [browsers[places[0] - 1], browsers[places[5] - 1]]  # one has his number already, one has not

    for leaver in leavers:
        assert (await world.leave(leaver)).was is TicketState.PREQUEUED
    assert await draw_room(world.jobs, ROOM) is not None
    third = browsers[places[2] - 1]
    assert (await world.leave(third)).was is TicketState.PREQUEUED, "drawn and not told yet"
    await world.commit()

    gone = [*leavers, third]
    assert {(await world.status(b)).reason for b in gone} == {Reason.EXPIRED}
    stayers = [b for b in browsers if b not in gone]
    assert sorted(await numbers(world, stayers)) == [2, 4, 5]
    assert sorted([(await world.status(b)).ahead for b in stayers]) == [0, 1, 2]
    figures = await world.figures()
    assert (figures.waiting, figures.pre_queue) == (3, 0)


@pytest.mark.req("ENG-180", "ENG-192")
async def test_it_ejects_no_number_that_was_not_told(world: World) -> None:
    await scheduled(world, sec=60, rate_per_minute=0)
    (owner,) = await world.joined(1)
    await world.advance(61)
    await world.tick()
    assert await draw_room(world.jobs, ROOM) is not None

    early = await world.admin.eject(ROOM, 1, actor="ann")
    await world.commit()
    late = await world.admin.eject(ROOM, 1, actor="ann")

    assert (early.code, late.code) == (EjectCode.NO_TICKET, EjectCode.OK)
    assert (await world.status(owner)).reason is Reason.EJECTED


async def test_it_opens_an_empty_pre_queue_too(world: World) -> None:
    opens_at = await scheduled(world, sec=60)

    await world.advance(61)
    await world.tick()
    await world.commit()

    figures = await world.figures()
    assert (figures.phase, figures.opens_at, figures.pre_queue) == (Phase.NONE, opens_at, 0)
    assert figures.drawn_at > 0
    answer = await world.join(Browser())
    assert answer.view is not None
    assert answer.view.ticket == 1


@pytest.mark.req("ENG-284")
async def test_it_gives_every_address_one_number_before_anybody_a_second(world: World) -> None:
    for opening in range(4):
        await (scheduled(world, sec=60, queue_max_per_ip=None) if not opening else _again(world))
        before = (await world.figures()).last_ticket
        browsers = [Browser(address="big") for _ in range(16)] + [Browser(address=f"small{n}") for n in range(100)]
        secrets.SystemRandom().shuffle(browsers)
        for browser in browsers:
            await world.join(browser)
        await world.advance(61)
        await world.tick()
        await world.open_doors()

        told = await numbers(world, browsers)
        addresses = [b.address for _, b in sorted(zip(told, browsers, strict=True), key=lambda pair: pair[0])]
        assert sorted(told) == list(range(before + 1, before + 117))
        assert len(set(addresses[:101])) == 101
        assert addresses[101:] == ["big"] * 15


async def _again(world: World) -> None:
    await world.update(opens_at=await world.now() + 60_000)


async def test_it_drops_the_places_with_the_tickets_that_they_became(world: World) -> None:
    await scheduled(world, sec=60, rate_per_minute=100_000, passed_ttl_sec=60)
    browsers = await world.joined(3)
    await world.advance(61)
    await world.tick()
    await world.open_doors()
    await world.tick(100)
    late = await world.joined(1100)
    assert late
    await world.tick(80)
    assert await world.valkey.execute("EXISTS", world.keys.handles(1)) == 1

    await world.advance(90_000)
    await world.tick(20)

    assert await world.valkey.execute("EXISTS", world.keys.handles(1), world.keys.places(1, 0)) == 0
    assert (await world.status(browsers[0])).reason is Reason.EXPIRED


@pytest.mark.req("ENG-229")
@pytest.mark.parametrize("is_put", [False, True])
async def test_it_counts_the_line_right_while_places_of_a_draw_are_given_up(world: World, is_put: bool) -> None:
    await scheduled(world, sec=60, state=RoomState.PAUSED)
    early = await world.joined(3)
    await world.advance(61)
    await world.tick()
    await world.joined(2)
    if is_put:
        assert await draw_room(world.jobs, ROOM) is not None

    await world.leave(early[1])

    figures = await world.figures()
    assert (figures.waiting, figures.pre_queue) == (2, 2)


@pytest.mark.req("ENG-189", "ENG-229")
@pytest.mark.parametrize("is_put", [False, True])
async def test_it_counts_those_who_come_after_a_purge_in_the_middle_of_a_draw(world: World, is_put: bool) -> None:
    await scheduled(world, sec=60, state=RoomState.PAUSED)
    await world.joined(3)
    await world.advance(61)
    await world.tick()
    if is_put:
        assert await draw_room(world.jobs, ROOM) is not None
    await world.admin.purge(ROOM, actor="op")

    await world.joined(2)

    figures = await world.figures()
    assert (figures.waiting, figures.pre_queue) == (2, 0)


@pytest.mark.req("ENG-071")
@pytest.mark.parametrize("is_put", [False, True])
async def test_it_counts_nobody_ahead_who_gave_up_his_place_in_the_middle_of_a_draw(world: World, is_put: bool) -> None:
    await scheduled(world, sec=60)
    early = await world.joined(3)
    await world.advance(61)
    await world.tick()
    if is_put:
        assert await draw_room(world.jobs, ROOM) is not None
    await world.leave(early[1])

    late = [Browser(), Browser()]
    answers = [await world.join(browser) for browser in late]

    assert [(a.view.ticket, a.view.ahead) for a in answers if a.view] == [(4, 2), (5, 3)]
    assert [(await world.status(browser)).ahead for browser in late] == [2, 3]
