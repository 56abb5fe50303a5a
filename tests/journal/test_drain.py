"""From the outboxes of many rooms into the journal, and word of it to those who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.facts import FactType
from app.infrastructure import drain
from app.infrastructure.drain import Drainer
from app.infrastructure.journal import Appended, Batch, Journal
from app.infrastructure.keys import ack_channel
from app.infrastructure.leases import DrainLeases
from app.infrastructure.postgres import Postgres
from tests.journal.house import House, ticket_numbers, until


class FailingJournal(Journal):
    """A journal whose commits fail while ``fails`` is set. ``after``: they are stored all the same."""

    fails = False
    after = False

    async def append(self, batches: Sequence[Batch]) -> list[Appended]:
        if self.fails and not self.after:
            raise StorageUnavailable
        answers = await super().append(batches)
        if self.fails:
            raise StorageUnavailable
        return answers


async def test_it_stores_joins_of_many_rooms_and_tells_the_waiters(house: House) -> None:
    await house.start_drainer()
    rooms = [f"room-{i}" for i in range(20)]
    for room in rooms:
        await house.create(room)

    answers = await asyncio.gather(*(house.join_committed(room, i) for room in rooms for i in range(50)))

    assert None not in answers
    for room in rooms:
        assert ticket_numbers(await house.journaled(room, FactType.JOINED)) == list(range(1, 51))
    assert (await house.postgres.fetchval("SELECT count(*) FROM rooms")) == 20


async def test_it_empties_the_outbox_of_what_is_stored(house: House) -> None:
    await house.start_drainer()
    await house.create("a")
    await house.join_committed("a", 1)

    async def acknowledged() -> bool:
        _, seq, committed = await house.admin.committed(RoomId("a"))
        return seq == committed == 2

    await until(acknowledged)


async def test_it_finds_facts_whose_poke_was_lost(house: House) -> None:
    await house.create("a")
    await house.join("a", 1)

    await house.start_drainer()

    async def stored() -> bool:
        return await house.postgres.fetchval("SELECT count(*) FROM events") == 2

    await until(stored)


async def test_it_works_with_two_drainers_at_once(house: House) -> None:
    await house.start_drainer()
    await house.start_drainer()
    rooms = [f"room-{i}" for i in range(5)]
    for room in rooms:
        await house.create(room)

    for wave in range(20):
        answers = await asyncio.gather(*(house.join_committed(room, (wave, i)) for room in rooms for i in range(10)))
        assert None not in answers

    for room in rooms:
        assert ticket_numbers(await house.journaled(room, FactType.JOINED)) == list(range(1, 201))


async def test_it_leaves_no_place_behind_when_the_commit_fails(house: House) -> None:
    journal = FailingJournal(house.postgres)
    await house.start_drainer(journal)
    await house.create("a", queue_max_per_ip=1)
    first = await house.join_committed("a", "first")
    journal.fails = True

    answer = await house.join("a", "second", address="home")
    assert not await house.commits.wait(RoomId("a"), 1, answer.seq)
    assert house.commits.refusing()
    assert answer.view is not None
    assert not await house.admin.undo_join(RoomId("a"), 1, answer.seq, answer.view.ticket)
    journal.fails = False

    again = await house.join("a", "third", address="home")
    assert await house.commits.wait(RoomId("a"), 1, again.seq)
    assert not house.commits.refusing()
    assert again.view is not None
    assert (again.view.ticket, again.view.ahead) == (3, 1)
    await house.lose_everything()
    await house.recovery.ensure(RoomId("a"))
    figures = (await house.admin.figures([RoomId("a")]))[RoomId("a")]
    assert figures.waiting == 2
    capped = await house.join("a", "fourth", address="home")
    assert capped.view is None
    assert first is not None


async def test_it_takes_a_commit_with_a_lost_answer_as_made(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "GRACE_SEC", 60.0)
    journal = FailingJournal(house.postgres)
    await house.start_drainer(journal)
    await house.create("a")
    await house.join_committed("a", 0)
    journal.after = journal.fails = True
    task = asyncio.ensure_future(house.join_committed("a", 1))

    async def stored() -> bool:
        return len(await house.journaled("a", FactType.JOINED)) == 2

    await until(stored)
    journal.fails = False

    assert await task is not None
    assert ticket_numbers(await house.journaled("a", FactType.JOINED)) == [1, 2]


async def test_it_withdraws_behind_a_join_that_was_stored_after_all(house: House) -> None:
    journal = FailingJournal(house.postgres)
    await house.create("a")
    await house.start_drainer(journal)
    await house.join_committed("a", 0)
    journal.after = journal.fails = True

    answer = await house.join("a", 1)
    assert not await house.commits.wait(RoomId("a"), 1, answer.seq)
    assert not await house.admin.undo_join(RoomId("a"), 1, answer.seq, 2)
    journal.fails = False

    async def withdrawn() -> bool:
        return len(await house.journaled("a", FactType.JOIN_WITHDRAWN)) == 1

    await until(withdrawn)
    assert ticket_numbers(await house.journaled("a", FactType.JOINED)) == [1, 2]


async def test_it_lets_an_undo_find_the_join_committed(house: House) -> None:
    await house.start_drainer()
    await house.create("a")
    answer = await house.join_committed("a", 1)
    assert answer is not None

    async def acknowledged() -> bool:
        return (await house.admin.committed(RoomId("a")))[2] == 2

    await until(acknowledged)
    assert await house.admin.undo_join(RoomId("a"), 1, answer.seq, 1)


@pytest.mark.req("FLT-115")
async def test_it_does_not_let_one_unreadable_outbox_stop_the_others(house: House) -> None:
    await house.create("bad")
    await house.create("good")
    await house.drain("bad")
    answer = await house.join("bad", 1)
    await house.valkey.execute("LSET", f"{house.prefix}{{bad}}:l", 0, b"\x06")
    await house.start_drainer()

    assert await house.join_committed("good", 1) is not None
    assert not await house.commits.wait(RoomId("bad"), 1, answer.seq)
    assert not house.commits.refusing()


@pytest.mark.req("FLT-115")
async def test_an_outbox_that_is_no_list_stops_no_other(house: House) -> None:
    for room in ("bad", "good"):
        await house.create(room)
        await house.drain(room)
    await house.valkey.execute("SET", f"{house.prefix}{{bad}}:l", "x")
    await house.start_drainer()

    assert await house.join_committed("good", 1) is not None


async def test_a_drainer_that_has_lost_its_way_to_postgres_leaves_its_rooms_to_another(house: House) -> None:
    """It holds no room while its own commits fail, so the facts of all are stored all the same."""
    away = Postgres("postgresql:///qm?host=/nonexistent")
    stop = asyncio.Event()
    running = []
    for name, postgres in (("lost", away), ("well", house.postgres)):
        drainer = Drainer(
            outboxes=house.jobs,
            journal=Journal(postgres),
            publish=lambda text: house.valkey.execute("PUBLISH", ack_channel(house.prefix), text),
            ask_rebuild=lambda room: asyncio.sleep(0),
            rooms=house.live_rooms,
            lease=DrainLeases(house.valkey, house.prefix, name).hold,
            name=name,
        )
        running.append(asyncio.ensure_future(drainer.run(stop)))
        await house.create(name)
        await asyncio.sleep(0.1)

    answers = [await house.join_committed("lost", who) for who in range(3)]

    assert None not in answers
    stop.set()
    await asyncio.gather(*running)
    await away.close()


async def test_a_drainer_that_stops_stores_also_what_another_held_a_moment_ago(house: House) -> None:
    """The other may be dead; nothing may be left behind."""
    asked = asyncio.Event()

    async def of_another(rooms: Sequence[RoomId]) -> set[RoomId]:
        asked.set()
        return set()

    drainer = house.make_drainer()
    drainer._lease = of_another
    await house.create("shop")
    await house.join("shop", 1)
    stop = asyncio.Event()
    running = asyncio.ensure_future(drainer.run(stop))
    await asked.wait()

    stop.set()

    assert await running
    assert ticket_numbers(await house.journaled("shop", FactType.JOINED)) == [1]
