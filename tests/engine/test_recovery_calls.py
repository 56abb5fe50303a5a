"""Functions header, verify, fence and the rebuild calls."""

from __future__ import annotations

import pytest

from app.core.ids import RoomId
from app.domain.layout import DoorRecord, TicketRecord, pack_header
from app.domain.room_codec import config_to_json, field_text
from app.infrastructure.engine_errors import RoomFenced
from app.infrastructure.engine_jobs import Place
from app.infrastructure.engine_results import JoinCode, Verdict, ViewState
from tests.engine.world import ROOM, Browser, World


async def test_it_answers_nothing_while_fenced_and_tells_its_header(world: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()

    assert await world.jobs.fence(ROOM, 1, 1)

    for call in (
        world.join(Browser()), world.status(browser), world.check(browser), world.leave(browser),
        world.admin.read(ROOM), world.jobs.tick(ROOM), world.jobs.drain_next(ROOM, 0, 1),
        world.admin.eject(ROOM, 1, actor="op"), world.admin.update(ROOM, {}, actor="op"),
        world.admin.delete(ROOM, actor="op"), world.admin.undo_join(ROOM, 1, 2, 1), world.admin.committed(ROOM),
        world.create(gen=2),
    ):  # fmt: skip
        with pytest.raises(RoomFenced):
            await call
    assert await world.admin.figures([ROOM]) == {ROOM: None}
    header = await world.header()
    assert (header["fenced"], header["verified"], header["last_ticket"]) == (True, False, 1)


async def test_it_does_not_fence_a_later_epoch_or_another_generation(world: World) -> None:
    await world.create()

    assert not await world.jobs.fence(ROOM, 1, 0)
    assert not await world.jobs.fence(ROOM, 2, 9)
    assert await world.admin.read(ROOM) is not None


async def test_it_answers_nothing_after_a_restart_of_valkey_before_it_was_compared(world: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()
    await world.valkey.execute("SET", world.keys.verified, "the life before")
    await world.valkey.execute("FUNCTION", "DELETE", world.loader.bundle.name)

    with pytest.raises(RoomFenced):
        await world.status(browser)
    behind = await world.jobs.verify_many([Place(ROOM, 1, 1, 3, 1)])
    equal = await world.jobs.verify_many([Place(ROOM, 1, 1, 2, 1)])

    assert (behind, equal) == ([False], [True])
    assert (await world.status(browser)).state is ViewState.WAITING


async def test_it_does_not_verify_a_fenced_or_missing_room(world: World) -> None:
    await world.create()
    await world.jobs.fence(ROOM, 1, 1)

    places = [Place(ROOM, 1, 1, 1, 1), Place(RoomId("none"), 1, 1, 1, 1)]
    assert await world.jobs.verify_many(places) == [False, False]


async def test_it_answers_fenced_for_a_layout_that_is_newer_and_leaves_it_alone(world: World) -> None:
    await world.create()
    header = await world.header()
    newer = pack_header(header | {"layout": 2, "fenced": 0})
    await world.valkey.execute("SET", world.keys.header, newer)

    with pytest.raises(RoomFenced):
        await world.join(Browser())
    with pytest.raises(RoomFenced):
        await world.jobs.tick(ROOM)
    await world.jobs.fence(ROOM, 1, 1)
    assert not await world.jobs.rebuild_begin(ROOM, 1, 2), "the release that knows it would do that"
    assert await world.valkey.execute("GET", world.keys.header) == newer


async def test_it_serves_a_room_that_was_written_by_a_rebuild(world: World) -> None:
    await world.create(rate_per_minute=60)
    inside, passed, waiting = await world.joined(3)
    await world.tick(1)
    await world.check(inside)
    header, config = await world.header(), world.room.config
    records = [await world.ticket(n) for n in (1, 2, 3)]
    doors = [await world.door(n) for n in (1, 2)]
    await world.jobs.fence(ROOM, 1, 1)

    assert await world.jobs.rebuild_begin(ROOM, 1, 2)
    assert await world.jobs.rebuild_put(ROOM, 2, [
        ("t", 0, b"".join(map(TicketRecord.pack, records)).ljust(1024 * 72, b"\0")),
        ("d", 0, b"".join(map(DoorRecord.pack, doors)).ljust(1024 * 48, b"\0")),
        ("r", 0, b"\0" * 8),
        ("o", [(record.cookie[:8], n) for n, record in enumerate(records, 1)]),
        ("i", [(records[2].addr, 1)]),
        ("e", [(1, doors[0].used_at + 18000), (2, doors[1].claim_end)]),
        ("w", []),
    ])  # fmt: skip
    cfg = {name: field_text(value).encode() for name, value in config_to_json(config).items()}
    fields = header | {"epoch": 2, "fenced": 0, "deleted": 0, "committed": header["seq"]}
    assert await world.jobs.rebuild_end(ROOM, 2, pack_header(fields), cfg | {"salt": b"s" * 16})

    room = await world.admin.read(ROOM)
    assert room is not None
    assert room.config == config
    assert (await world.check(inside)).verdict is Verdict.SESSION
    assert (await world.status(passed)).state is ViewState.PASSED
    waiting.ticket = 0
    assert (await world.join(waiting)).code is JoinCode.EXISTING
    new = await world.join(Browser())
    assert new.view is not None
    assert (new.view.ticket, new.seq >> 32) == (4, 2)


async def test_it_writes_nothing_for_a_rebuild_that_was_overtaken(world: World) -> None:
    await world.create()
    await world.jobs.fence(ROOM, 1, 1)

    assert await world.jobs.rebuild_begin(ROOM, 1, 3)
    assert not await world.jobs.rebuild_begin(ROOM, 1, 2)
    assert not await world.jobs.rebuild_put(ROOM, 2, [("t", 0, b"x")])
    assert not await world.jobs.rebuild_end(ROOM, 2, b"", {})


async def test_it_does_not_rebuild_a_room_that_lives(world: World) -> None:
    await world.create()

    assert not await world.jobs.rebuild_begin(ROOM, 1, 1)
    assert await world.admin.read(ROOM) is not None


async def test_it_clears_what_a_lost_room_left_behind(world: World) -> None:
    await world.create(rate_per_minute=0)
    await world.joined(2)
    for k in range(1, 300):
        await world.valkey.execute("SET", world.keys.tickets(1, k), "x")
    await world.valkey.execute("DEL", world.keys.header)

    await world.jobs.rebuild_begin(ROOM, 1, 2)

    names = await world.valkey.execute("KEYS", world.keys.base.replace("{", "\\{") + "*")
    assert {name.decode() for name in names} == {world.keys.base + "rb", world.keys.hour(1)}, "statistics go on"


async def test_it_reads_many_headers_in_one_trip(world: World) -> None:
    await world.create()

    headers = await world.jobs.headers([ROOM, type(ROOM)("none")])

    assert headers[0] == await world.header()
    assert headers[1] is None
