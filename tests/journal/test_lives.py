"""Another life of the live store (restart, failover): what the last one lost is never taken for what is new."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.facts import FactType
from app.infrastructure import rebuild
from app.infrastructure.engine_errors import RoomFenced
from app.infrastructure.engine_results import ViewState
from app.infrastructure.journal import Outcome
from app.infrastructure.keys import RoomKeys
from app.infrastructure.queries import QUERIES
from tests.chaos.stores import ValkeyServer
from tests.journal.house import House, batch_of, holder, ticket_numbers, until

SHOP = RoomId("shop")


async def copied(house: House) -> dict[bytes, bytes]:
    """Every key of this instance, as a replica has it."""
    names = await house.valkey.execute("KEYS", house.prefix + "*")
    return {name: await house.valkey.execute("DUMP", name) for name in names}


async def failed_over(house: House, copy: dict[bytes, bytes]) -> None:
    """Go on as a replica that has ``copy``: what came later is lost, and nothing was compared."""
    await house.lose_everything()
    for name, dump in copy.items():
        await house.valkey.execute("RESTORE", name, 0, dump)
    await house.valkey.execute("SET", RoomKeys(house.prefix, "shop").verified, "the life before")
    await house.valkey.execute("FUNCTION", "DELETE", house.jobs._loader.bundle.name)


async def opened(house: House) -> None:
    """A room with one stored ticket."""
    await house.create("shop")
    await house.join("shop", "first")
    await house.drain("shop")


async def epoch_of(house: House) -> Any:
    return await house.postgres.fetchval("SELECT epoch FROM room_heads WHERE room = 'shop'")


@pytest.mark.req("FLT-082")
async def test_a_lost_join_is_not_taken_for_the_one_that_got_its_number(house: House) -> None:
    """Number 2 was lost with the store before it was journaled; only who gets it afterwards is told of it."""
    await opened(house)
    copy = await copied(house)
    lost = await house.join("shop", "lost")
    waiting = asyncio.ensure_future(house.commits.wait(SHOP, lost.generation, lost.seq))
    await failed_over(house, copy)
    with pytest.raises(RoomFenced):
        await house.join("shop", "new")

    assert await house.recovery.ensure(SHOP)
    await house.read("shop")
    await house.start_drainer()
    new = await house.join_committed("shop", "new")

    assert new is not None
    assert new.view is not None
    assert lost.view is not None
    assert (lost.view.ticket, new.view.ticket) == (2, 2)
    assert not await waiting
    with pytest.raises(StorageUnavailable):
        await house.admin.undo_join(SHOP, lost.generation, lost.seq, lost.view.ticket)
    assert (await house.engine.status(house.rooms["shop"], holder("new", 2))).state is ViewState.WAITING
    assert (await house.engine.status(house.rooms["shop"], holder("lost", 2))).state is ViewState.GONE
    assert ticket_numbers(await house.journaled("shop", FactType.JOINED)) == [1, 2]
    with pytest.raises(StorageUnavailable):
        await house.admin.undo_join(SHOP, 1, lost.seq, 2)


@pytest.mark.req("FLT-083")
async def test_a_store_that_was_replaced_cannot_store_anything_any_more(house: House) -> None:
    """A primary that was cut off goes on giving numbers; the journal takes those of its successor alone."""
    await opened(house)
    copy = await copied(house)
    await house.join("shop", "behind the cut")
    cut_off = await house.jobs.drain_next(SHOP, 0, 10)
    await failed_over(house, copy)

    assert await house.recovery.ensure(SHOP)
    (answer,) = await house.journal.append([batch_of("shop", cut_off)])

    assert answer.outcome is Outcome.FORKED
    await house.read("shop")
    await house.start_drainer()
    assert await house.join_committed("shop", "new") is not None
    assert await epoch_of(house) == 2


@pytest.mark.req("FLT-082", "FLT-084")
async def test_what_the_successor_has_and_the_journal_not_yet_is_kept(house: House) -> None:
    await opened(house)
    await house.join("shop", "second")
    copy = await copied(house)
    await failed_over(house, copy)

    assert await house.recovery.ensure(SHOP)
    await house.read("shop")
    await house.start_drainer()

    async def is_stored() -> bool:
        return ticket_numbers(await house.journaled("shop", FactType.JOINED)) == [1, 2]

    await until(is_stored)
    assert (await house.engine.status(house.rooms["shop"], holder("second", 2))).ahead == 1


@pytest.mark.req("FLT-085")
async def test_instances_that_find_the_same_loss_rebuild_each_room_once(house: House) -> None:
    """None of them rebuilds what another has just brought back, which would take its visitors out again."""
    rooms = [f"room{n}" for n in range(6)]
    for room in rooms:
        await house.create(room)
        await house.join(room, "first")
        await house.drain(room)
    await house.lose_everything()
    instances = [house.make_recovery() for _ in range(3)]

    for _ in range(3):
        await asyncio.gather(*(instance.ensure_all() for instance in instances))

    epochs = await house.postgres.fetch("SELECT epoch FROM room_heads")
    assert [row["epoch"] for row in epochs] == [2] * len(rooms)
    for room in rooms:
        await house.read(room)
        assert (await house.engine.status(house.rooms[room], holder("first", 1))).state is ViewState.WAITING


@pytest.mark.req("FLT-082")
async def test_instances_that_look_at_the_same_successor_do_not_rebuild_what_it_has_right(house: House) -> None:
    await opened(house)
    await failed_over(house, await copied(house))
    instances = [house.make_recovery() for _ in range(4)]

    for _ in range(3):
        await asyncio.gather(*(instance.ensure_all() for instance in instances))

    assert await epoch_of(house) == 2, "one of them raised it, nobody rebuilt"
    assert await house.valkey.execute("EXISTS", RoomKeys(house.prefix, "shop").outbox) == 0
    await house.read("shop")
    assert (await house.engine.status(house.rooms["shop"], holder("first", 1))).state is ViewState.WAITING


async def test_a_thousand_rooms_of_another_life_do_not_wait_for_a_thousand_answers(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rooms there are, they are compared and let answer in the same few trips."""
    rooms = [RoomId(f"room{n}") for n in range(20)]
    for room in rooms:
        await house.create(room)
        await house.drain(room)
        await house.valkey.execute("SET", RoomKeys(house.prefix, room).verified, "the life before")
    await house.valkey.execute("FUNCTION", "DELETE", house.jobs._loader.bundle.name)
    await house.jobs._loader.load()
    trips, execute, pipeline = 0, house.valkey.execute, house.valkey.pipeline

    async def one(*command: Any) -> Any:
        nonlocal trips
        trips += 1
        return await execute(*command)

    async def many(commands: Any) -> Any:
        nonlocal trips
        trips += 1
        return await pipeline(commands)

    monkeypatch.setattr(house.valkey, "execute", one)
    monkeypatch.setattr(house.valkey, "pipeline", many)
    await house.recovery.ensure_all()

    assert trips < len(rooms)
    found = await house.jobs.headers(rooms)
    assert all(header is not None and header["verified"] for header in found)


@pytest.mark.req("FLT-082")
async def test_a_primary_that_comes_back_answers_nothing_before_it_was_compared(
    fresh_schema: str, postgres: Any
) -> None:
    """It was demoted in order, fetched only what it had missed, and so still has its variables when it is promoted."""
    with ValkeyServer() as one, ValkeyServer() as two:
        two.follow(one)
        async with House(one.url, fresh_schema, "qm:") as house:
            await opened(house)
            one.ask("FAILOVER")
            await until(lambda: follows(one))
            one.promote()

            async def answers() -> bool:
                try:
                    await house.engine.status(house.rooms["shop"], holder("first", 1))
                except RoomFenced:
                    return False
                except StorageUnavailable:
                    return await answers()
                return True

            assert not await answers()
            assert await house.recovery.ensure(SHOP)
            assert await answers()


async def follows(server: ValkeyServer) -> bool:
    found = await asyncio.to_thread(server.ask, "INFO", "replication")
    return bool(found["role"] == "slave" and found["master_link_status"] == "up")


@pytest.mark.req("FLT-092")
async def test_a_rebuilt_room_has_saved_up_no_credit(house: House) -> None:
    await house.create("shop", rate_per_minute=600)
    for who in range(60):
        await house.join("shop", who)
    await house.drain("shop")
    await house.lose_everything()

    assert await house.recovery.ensure(SHOP)
    promoted = (await house.jobs.tick(SHOP)).promoted

    assert promoted <= 1 + 2, "one place, and what the moments between the calls earned"


@pytest.mark.req("FLT-085")
async def test_a_rebuild_that_is_frozen_keeps_nobody_else_from_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process lives, and so does its connection, but nothing is heard of it."""
    monkeypatch.setattr(rebuild, "IDLE_MS", 500)
    await opened(house)
    await house.lose_everything()
    frozen = house.make_recovery()._rebuilder.session()
    link = await frozen.__aenter__()
    assert await link.fetchval(QUERIES["journal_rebuild_lock"], "shop")

    other = house.make_recovery()
    assert not await other.ensure(SHOP)
    await until(lambda: other.ensure(SHOP))

    await house.read("shop")
    assert (await house.engine.status(house.rooms["shop"], holder("first", 1))).state is ViewState.WAITING
    with contextlib.suppress(StorageUnavailable):
        await frozen.__aexit__(None, None, None)


@pytest.mark.req("FLT-085")
async def test_a_long_rebuild_keeps_its_lock_by_a_sign_of_life(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing a huge room into Valkey takes longer than the silence after which Postgres takes the lock away."""
    await opened(house)
    monkeypatch.setattr(rebuild, "SIGN_SEC", 0.05)
    monkeypatch.setattr(rebuild, "IDLE_MS", 400)
    monkeypatch.setattr(rebuild, "CALL_BYTES", 1)
    write = house.jobs.rebuild_put
    others: list[Any] = []

    async def slow(*args: Any) -> bool:
        await asyncio.sleep(0.2)
        others.append(await house.postgres.fetchval(QUERIES["journal_rebuild_lock"], "shop"))
        return await write(*args)

    monkeypatch.setattr(house.jobs, "rebuild_put", slow)
    await house.lose_everything()

    assert await house.recovery.ensure(SHOP)

    assert len(others) >= 4, "it was silent for longer than it may be"
    assert not any(others), "nobody else could begin"
    assert await epoch_of(house) == 2


@pytest.mark.req("FLT-085")
async def test_a_rebuild_keeps_its_lock_while_it_works_out_what_to_write(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image of a huge room is long work without a word to either store."""
    await opened(house)
    monkeypatch.setattr(rebuild, "SIGN_SEC", 0.05)
    monkeypatch.setattr(rebuild, "IDLE_MS", 1500)
    make, done = rebuild.make_image, threading.Event()

    def slow(fold: Any) -> Any:
        assert done.wait(30)
        return make(fold)

    monkeypatch.setattr(rebuild, "make_image", slow)
    await house.lose_everything()
    rebuilding = asyncio.ensure_future(house.recovery.ensure(SHOP))
    await until(lambda: fenced_by(house, 2))

    others = []
    for _ in range(9):
        await asyncio.sleep(0.25)
        others.append(await house.postgres.fetchval(QUERIES["journal_rebuild_lock"], "shop"))
    done.set()

    assert await rebuilding
    assert not any(others), "nobody else could begin"
    assert await epoch_of(house) == 2


async def fenced_by(house: House, epoch: int) -> bool:
    """True once a rebuild has taken this epoch."""
    return await epoch_of(house) == epoch
