"""Functions room_create, room_update, room_delete, room_read, collect, figures, eject."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.facts_of_rooms import RoomCreated, RoomDeleted, RoomUpdated
from app.domain.facts_of_tickets import Ejected, Left
from app.domain.layout import pack_header
from app.domain.room import RoomConfig, RoomState, UrlRule
from app.domain.room_codec import config_to_json
from app.infrastructure.engine_admin import EjectCode, WriteCode
from app.infrastructure.engine_errors import RoomFenced, StaleRoom
from app.infrastructure.engine_results import Reason, TicketState, Verdict
from app.infrastructure.lua_loader import CALLS_A_TRIP
from tests.engine.world import ROOM, Browser, World

FULL = RoomConfig(
    ROOM, 'Drop "é" / 1', "https://shop.example/x", RoomState.PAUSED, 5, 7, 100, 200, 300, 20, None, 3,
    ("https://*.shop.example",), (), (UrlRule("r1", "protect", "/checkout*", "pay"),), "open",
)  # fmt: skip


async def test_it_reads_back_what_was_created(world: World) -> None:
    write = await world.admin.create(FULL, gen=4, salt=b"0123456789abcdef", actor="op")

    room = await world.admin.read(ROOM)

    assert room is not None
    assert (write.code, write.generation, write.cfg_ver, write.seq) == (WriteCode.CREATED, 4, 1, (1 << 32) + 1)
    assert (room.config, room.generation, room.salt, room.cfg_ver) == (FULL, 4, b"0123456789abcdef", 1)
    assert room.created_at == room.updated_at > 1_700_000_000_000
    assert await world.facts() == [RoomCreated(config_to_json(FULL), b"0123456789abcdef", "op", 4, 1)]
    assert set(await world.valkey.execute("SMEMBERS", world.prefix + "rooms")) == {b"shop"}


async def test_it_creates_a_room_once(world: World) -> None:
    writes = await asyncio.gather(*(world.admin.create(FULL, gen=1, salt=b"s" * 16, actor="op") for _ in range(5)))

    assert sorted(w.code for w in writes) == [WriteCode.CREATED] + [WriteCode.EXISTS] * 4
    assert len(await world.facts()) == 1
    assert writes[-1].seq == (1 << 32) + 1


async def test_it_names_the_fields_that_changed(world: World) -> None:
    await world.create()

    write = await world.admin.update(ROOM, {"presence_sec": 40, "name": "Shop", "rules": FULL.rules}, actor="me")

    assert (write.code, write.changed, write.background) == (WriteCode.UPDATED, ("presence_sec", "rules"), False)
    (fact,) = await world.facts(RoomUpdated)
    rules = [{"id": "r1", "action": "protect", "pattern": "/checkout*", "note": "pay"}]
    assert fact.changes == {"presence_sec": 40, "rules": rules}
    assert (fact.actor, fact.why, fact.cfg_ver) == ("me", "operator", 2)
    await world.reload()
    assert world.room.config == replace(
        RoomConfig(ROOM, "Shop", "https://shop.example/"), presence_sec=40, rules=FULL.rules
    )


@pytest.mark.req("ENG-057")
async def test_it_writes_nothing_when_nothing_changes(world: World) -> None:
    await world.create()
    await world.commit()

    write = await world.admin.update(ROOM, {"presence_sec": 30, "rate_per_minute": 60}, actor="me")

    assert (write.code, write.changed, write.seq, write.cfg_ver) == (WriteCode.UNCHANGED, (), 0, 1)
    assert await world.facts() == []


async def test_it_makes_an_unchanged_answer_wait_for_what_is_not_committed(world: World) -> None:
    await world.create()

    assert (await world.admin.update(ROOM, {"presence_sec": 30}, actor="me")).seq == (1 << 32) + 1


async def test_it_keeps_the_version_for_a_change_of_state_and_rate_alone(world: World) -> None:
    await world.create()

    light = await world.admin.update(ROOM, {"state": 1, "rate_per_minute": 5}, actor="me")
    both = await world.admin.update(ROOM, {"state": 0, "name": "Other"}, actor="me")

    assert (light.background, light.cfg_ver) == (True, 1)
    assert (both.background, both.cfg_ver) == (False, 2)


@pytest.mark.req("ENG-056")
async def test_it_keeps_concurrent_changes_of_different_fields(world: World) -> None:
    await world.create()

    await asyncio.gather(
        world.admin.update(ROOM, {"presence_sec": 40}, actor="a"),
        world.admin.update(ROOM, {"max_concurrent": 9}, actor="b"),
    )
    await world.reload()

    assert (world.room.config.presence_sec, world.room.config.max_concurrent) == (40, 9)


async def test_it_changes_nothing_when_an_expected_value_differs(world: World) -> None:
    await world.create(state=1)

    refused = await world.admin.update(ROOM, {"state": 0}, actor="a", expect={"state": 2})
    changed = await world.admin.update(ROOM, {"state": 0}, actor="a", expect={"state": 1})

    assert (refused.code, changed.code) == (WriteCode.CONFLICT, WriteCode.UPDATED)
    with pytest.raises(StaleRoom):
        await world.admin.update(ROOM, {"state": 1}, actor="a", expect_gen=2)


@pytest.mark.req("ENG-186")
async def test_it_acts_by_a_new_state_and_rate_at_the_next_tick_and_answer(world: World) -> None:
    await world.create(rate_per_minute=60, queue_max_per_ip=None, presence_sec=3600)
    browsers = await world.joined(40)
    await world.tick(10)
    before = (await world.figures()).waiting

    other = World(world.valkey, world.prefix)
    other.room = world.room  # an instance that has not heard of the changes
    await world.update(rate_per_minute=120)
    await world.tick(5)
    faster = (await world.figures()).waiting
    await world.update(state=1)
    paused = await other.check(browsers[-1])
    await world.tick(5)

    assert before in (28, 29, 30)
    assert 9 <= before - faster <= 12
    assert paused.reason is Reason.PAUSED
    assert (await world.figures()).waiting == faster


async def test_it_drops_everybody_with_a_deletion(world: World) -> None:
    await world.create(rate_per_minute=60)
    inside, *_ = await world.joined(4)
    await world.check(inside)
    await world.tick(1)

    write = await world.admin.delete(ROOM, actor="op")
    again = await world.admin.delete(ROOM, actor="op")

    assert (write.code, write.waiting, write.passes, write.sessions) == (WriteCode.DELETED, 2, 1, 1)
    assert again.code is WriteCode.NO_ROOM
    assert await world.admin.read(ROOM) is None
    assert (await world.facts(RoomDeleted)) == [RoomDeleted("op", 4)]
    names = await world.valkey.execute("KEYS", world.keys.base.replace("{", "\\{") + "*")
    assert sorted(names) == sorted(k.encode() for k in (world.keys.header, world.keys.outbox, world.keys.verified))


async def test_it_deletes_once_when_two_delete_at_the_same_time(world: World) -> None:
    await world.create()

    writes = await asyncio.gather(*(world.admin.delete(ROOM, actor="op") for _ in range(2)))

    assert sorted(w.code for w in writes) == [WriteCode.NO_ROOM, WriteCode.DELETED]


@pytest.mark.req("ENG-019", "ENG-022")
async def test_it_starts_numbers_anew_in_the_next_generation(world: World) -> None:
    await world.create(rate_per_minute=0)
    old, _ = await world.joined(2)
    await world.admin.delete(ROOM, actor="op")
    with pytest.raises(RoomFenced):
        await world.create(gen=2)
    await world.commit()

    stale = await world.admin.create(FULL, gen=1, salt=b"s" * 16, actor="op")
    await world.create(gen=2, rate_per_minute=0)
    await world.join(Browser())
    check = await world.check(old)
    rejoined = await world.join(old)

    assert (stale.code, stale.generation) == (WriteCode.STALE_GEN, 1)
    assert world.room.generation == 2
    assert (check.verdict, check.reason) == (Verdict.QUEUE, Reason.STALE_GENERATION)
    assert (rejoined.reason, old.ticket, old.gen) == (Reason.STALE_GENERATION, 2, 2)
    assert [e.type for e in await world.elements()] == [1, 6, 6]


@pytest.mark.req("ENG-003")
async def test_it_unlinks_a_big_generation_in_slices(world: World) -> None:
    await world.create(rate_per_minute=0)
    header = await world.header()
    for k in (0, 250, 299):
        await world.valkey.execute("SET", world.keys.tickets(1, k), "x")
    await world.valkey.execute("SET", world.keys.header, pack_header(header | {"last_ticket": 300 * 1024}))

    await world.admin.delete(ROOM, actor="op")

    assert await world.valkey.execute("EXISTS", *(world.keys.tickets(1, k) for k in (0, 250, 299))) == 0
    assert await world.valkey.execute("EXISTS", world.keys.garbage) == 0


async def test_it_ejects_in_every_state_and_is_safe_to_repeat(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=2)
    active, passed, waiting = await world.joined(3)
    await world.tick(1)
    await world.check(active)

    answers = [await world.admin.eject(ROOM, b.ticket, actor="me") for b in (active, passed, waiting, waiting)]
    unknown = await world.admin.eject(ROOM, 77, actor="me")
    figures = await world.figures()

    assert [a.was for a in answers] == [
        TicketState.ACTIVE, TicketState.PASSED, TicketState.WAITING, TicketState.EJECTED,
    ]  # fmt: skip
    assert unknown.code is EjectCode.NO_TICKET
    assert answers[3].seq == answers[2].seq, "a repeated eject waits for the first"
    assert (figures.waiting, figures.occupancy, figures.passes_outstanding) == (0, 0, 0)
    assert len(await world.facts(Ejected)) == 3


async def test_it_takes_an_ejected_ticket_out_and_forgets_its_times(world: World) -> None:
    await world.create(rate_per_minute=60)
    (browser,) = await world.joined()
    await world.check(browser)

    await world.admin.eject(ROOM, 1, actor="me")
    check, status = await world.check(browser), await world.status(browser)
    joined_at, passed_at = (await world.ticket(1)).joined_at, (await world.door(1)).passed_at
    again = await world.join(browser)

    assert (check.reason, status.reason) == (Reason.EJECTED, Reason.EJECTED)
    assert (joined_at, passed_at) == (0, 0)
    assert (again.reason, browser.ticket) == (Reason.EJECTED, 2)


@pytest.mark.req("ENG-077", "ENG-269")
async def test_it_frees_place_pass_and_session_of_those_who_leave(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=2)
    active, passed, waiting = await world.joined(3)
    await world.tick(1)
    await world.check(active)
    thief = Browser(ticket=waiting.ticket)

    stolen = await world.leave(thief)
    was = [(await world.leave(b)).was for b in (waiting, passed, active, active)]
    figures = await world.figures()

    assert stolen.was is TicketState.NONE
    assert was == [TicketState.WAITING, TicketState.PASSED, TicketState.ACTIVE, TicketState.NONE]
    assert [fact.tickets for fact in await world.facts(Left)] == [(3,), (2,), (1,)]
    assert (figures.waiting, figures.occupancy) == (0, 0)
    assert {(await world.ticket(n)).state for n in (1, 2, 3)} == {TicketState.EXPIRED}


async def test_it_tells_a_room_that_is_missing_from_one_that_was_deleted(world: World) -> None:
    await world.create()

    found = await world.admin.figures([RoomId("none"), ROOM])

    assert (list(found), found[RoomId("none")]) == (["none", ROOM], None)
    assert found[ROOM] is not None
    assert await world.admin.figures([]) == {}
    await world.admin.delete(ROOM, actor="op")
    assert await world.admin.figures([RoomId("none"), ROOM]) == {"none": None}


@pytest.mark.req("OBS-055", "ADM-110")
async def test_it_reads_figures_of_many_rooms_in_short_trips(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Visitors' calls wait behind a trip, in the store and on the connection."""
    await world.create()
    trips: list[int] = []
    pipeline = world.valkey.pipeline

    async def counted(commands: list[Any]) -> list[Any]:
        trips.append(len(commands))
        return await pipeline(commands)

    monkeypatch.setattr(world.valkey, "pipeline", counted)
    rooms = [RoomId(f"none-{number}") for number in range(2 * CALLS_A_TRIP)]

    found = await world.admin.figures([*rooms, ROOM])

    assert trips == [CALLS_A_TRIP, CALLS_A_TRIP, 1]
    assert CALLS_A_TRIP <= 20, "each costs up to 60 µs of the live store"
    assert [room for room, figures in found.items() if figures is not None] == [ROOM]


@pytest.mark.req("ENG-013")
async def test_it_makes_a_room_again_no_earlier_than_it_was_deleted(world: World) -> None:
    """The clock of the store's host was set back in between."""
    await world.create()
    await world.advance(3600)
    await world.tick()
    await world.admin.delete(ROOM, actor="op")
    deleted_at = (await world.elements())[-1].at
    await world.commit()

    await world.create(gen=2)

    (created,) = await world.elements()
    header = await world.header()
    assert created.at >= deleted_at
    assert world.room.created_at == header["t0"] == created.at, "as a rebuild reads it from the fact"
