"""What the journal takes, refuses and recognises."""

from __future__ import annotations

import asyncio
import json

import pytest

from app.domain.facts import encode_element
from app.domain.facts_of_rooms import RoomDeleted, RoomUpdated
from app.infrastructure.journal import Journal, Outcome
from app.infrastructure.postgres import Postgres
from tests.journal.conftest import batch, created, joined


@pytest.mark.req("FLT-098")
async def test_it_stores_facts_of_many_rooms_in_order(journal: Journal, postgres: Postgres) -> None:
    answers = await journal.append(
        [batch("a", 0, created("a"), joined(1)), batch("b", 0, created("b"), joined(1), joined(2))]
    )

    assert [(a.outcome, a.committed) for a in answers] == [(Outcome.STORED, 2), (Outcome.STORED, 3)]
    rows = await postgres.fetch("SELECT room, gen, seq, type, at FROM events ORDER BY room, seq")
    assert [tuple(row) for row in rows] == [
        ("a", 1, 1, 1, 1000), ("a", 1, 2, 6, 2000), ("b", 1, 1, 1, 1000), ("b", 1, 2, 6, 2000), ("b", 1, 3, 6, 2000),
    ]  # fmt: skip


async def test_it_keeps_the_readable_address_in_a_column_of_its_own(journal: Journal, postgres: Postgres) -> None:
    await journal.append([batch("a", 0, created("a"), joined(7))])

    ip, body = await postgres.fetchrow("SELECT ip, body FROM events WHERE type = 6") or ()

    assert len(ip) == 16
    assert len(body) == 62
    assert body[:4] == (7).to_bytes(4, "little")


async def test_it_takes_only_the_room_out_of_a_commit_whose_head_does_not_match(journal: Journal) -> None:
    await journal.append([batch("a", 0, created("a")), batch("b", 0, created("b"))])

    answers = await journal.append([batch("a", 5, joined(1)), batch("b", 1, joined(1))])

    assert [a.outcome for a in answers] == [Outcome.AHEAD, Outcome.STORED]
    heads = await journal.heads([("a", 1), ("b", 1)])
    assert [heads[key].seq for key in sorted(heads)] == [1, 2]


async def test_it_takes_the_same_facts_again_as_stored(journal: Journal, postgres: Postgres) -> None:
    same = batch("a", 0, created("a"), joined(1))
    await journal.append([same])

    (answer,) = await journal.append([same])

    assert (answer.outcome, answer.committed) == (Outcome.REPLAYED, 2)
    assert await postgres.fetchval("SELECT count(*) FROM events") == 2


async def test_it_takes_the_stored_beginning_of_a_longer_batch_as_stored(journal: Journal) -> None:
    await journal.append([batch("a", 0, created("a"), joined(1))])

    (answer,) = await journal.append([batch("a", 0, created("a"), joined(1), joined(2))])

    assert (answer.outcome, answer.committed) == (Outcome.REPLAYED, 2)
    (rest,) = await journal.append([batch("a", 2, joined(2))])
    assert rest.outcome is Outcome.STORED


@pytest.mark.req("FLT-083")
async def test_it_refuses_a_second_history(journal: Journal, postgres: Postgres) -> None:
    await journal.append([batch("a", 0, created("a"), joined(1), joined(2))])

    (answer,) = await journal.append([batch("a", 1, joined(1, tag=9), joined(2))])

    assert answer.outcome is Outcome.FORKED
    assert await postgres.fetchval("SELECT count(*) FROM events") == 3


async def test_it_refuses_a_live_state_of_before_a_rebuild(journal: Journal, postgres: Postgres) -> None:
    await journal.append([batch("a", 0, created("a"))])
    await postgres.execute("UPDATE room_heads SET epoch = 2")

    (answer,) = await journal.append([batch("a", 1, joined(1))])

    assert answer.outcome is Outcome.FORKED
    (fresh,) = await journal.append([batch("a", 1, joined(1), epoch=2)])
    assert fresh.outcome is Outcome.STORED


@pytest.mark.req("FLT-115")
async def test_it_fails_only_the_room_whose_fact_cannot_be_stored(journal: Journal) -> None:
    unreadable = created("a")[:10] + b"{}"
    answers = await journal.append(
        [batch("a", 0, unreadable), batch("b", 0, created("b"), joined(1)), batch("c", 0, b"short")]
    )

    assert [a.outcome for a in answers] == [Outcome.POISONED, Outcome.STORED, Outcome.POISONED]


async def test_it_keeps_the_rooms_table_in_step_with_the_room_facts(journal: Journal, postgres: Postgres) -> None:
    updated = encode_element(3000, RoomUpdated({"name": "New", "max_concurrent": None}, "ann", "operator", 2, 3000))
    await journal.append([batch("a", 0, created("a"), updated, joined(1))])

    row = await postgres.fetchrow("SELECT gen, cfg_ver, config, salt, created_at, updated_at, deleted_at FROM rooms")

    assert row is not None
    config = json.loads(row["config"])
    assert config == {"id": "a", "name": "New", "target_url": "https://shop.example/", "max_concurrent": None}
    assert (row["gen"], row["cfg_ver"], row["created_at"], row["updated_at"]) == (1, 2, 1000, 3000)
    assert row["salt"] == bytes(range(16))

    await journal.append([batch("a", 3, encode_element(4000, RoomDeleted("ann")))])
    assert await journal.room_ids() == []

    await journal.append([batch("a", 0, created("a", gen=2, at=5000), gen=2)])
    assert await journal.room_ids() == ["a"]
    assert [head.gen for head in await journal.current_heads()] == [2]


async def test_it_lets_one_of_two_writers_win_each_position(journal: Journal, postgres: Postgres) -> None:
    rooms = [f"r{i}" for i in range(20)]
    await journal.append([batch(room, 0, created(room)) for room in rooms])

    async def write(order: list[str]) -> None:
        for n in range(1, 31):
            await journal.append([batch(room, n, joined(n)) for room in order])

    await asyncio.gather(write(rooms), write(rooms[::-1]))

    counts = await postgres.fetch("SELECT count(*), max(seq) FROM events GROUP BY room")
    assert {tuple(row) for row in counts} == {(31, 31)}
