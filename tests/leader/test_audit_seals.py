"""Seals of the audit trail: what they cover, what they show, and that nothing written can be changed in passing."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io

import asyncpg
import pytest

from app.core.clock import mono
from app.domain.actor import Actor
from app.infrastructure import seal_store
from app.infrastructure.audit_store import AuditStore, Entry
from app.infrastructure.notes_store import AuditQuery, NotesStore
from app.infrastructure.postgres import Postgres
from app.infrastructure.queries import QUERIES
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.seal_store import SealState, SealStore
from app.services import audit_seals
from app.services.audit_seals import AuditSeals
from app.services.health_of_stores import audit_block, audit_warnings
from app.services.notes import Notes, audit_line
from tests.journal.house import House

ANN = Actor('=Ann, the "first"', kind="operator", ident="535dddaa", role="owner", ip="198.51.100.4", instance="i:one")
NOW = 1_790_000_000_000


@pytest.fixture
def seals(postgres: Postgres) -> SealStore:
    return SealStore(postgres, audit_line)


async def note(postgres: Postgres, *details: str) -> None:
    for detail in details:
        await AuditStore(postgres).add(Entry(NOW, ANN, "test.act", detail))


def anyway() -> None:
    """Nobody ends the work."""


async def forge(postgres: Postgres, table: str, sql: str) -> None:
    """Change what is kept, as somebody who takes the trigger away first."""
    async with postgres.acquire() as link, link.transaction():
        await link.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        await link.execute(sql)
        await link.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


@pytest.mark.req("ADM-299")
async def test_seals_can_be_checked_with_the_file_of_the_trail_alone(
    postgres: Postgres, seals: SealStore, directory: RoomDirectory
) -> None:
    await note(postgres, "one", "two")
    assert await seals.seal(NOW) is False
    await note(postgres, 'three, with "marks"\r\nand lines')
    assert await seals.seal(NOW + 1) is False
    assert await seals.seal(NOW + 2) is False

    text = "".join([part async for part in Notes(NotesStore(postgres), directory).audit_csv(AuditQuery())])

    lines = {}
    for row in list(csv.reader(io.StringIO(text, newline="")))[1:]:
        out = io.StringIO()
        csv.writer(out, lineterminator="\r\n").writerow(row)
        lines[int(row[0])] = out.getvalue().encode()
    first = hashlib.sha256(b"".join(lines[ident] for ident in sorted(lines)[:2])).digest()
    second = hashlib.sha256(first + lines[max(lines)]).digest()
    kept = await postgres.fetch("SELECT sealed_to, entries, sealed_at, digest FROM audit_seals ORDER BY id")
    assert [tuple(row) for row in kept] == [
        (sorted(lines)[1], 2, NOW, first),
        (max(lines), 1, NOW + 1, second),
    ]
    state = await seals.state()
    assert (state.sealed_to, state.sealed_at, state.digest) == (max(lines), NOW + 1, second)


@pytest.mark.req("ADM-299")
@pytest.mark.parametrize(
    ("table", "sql", "first_bad"),
    [
        ("audit", "UPDATE audit SET detail = 'other' WHERE id = 3", 3),
        ("audit", "UPDATE audit SET actor = 'Bob' WHERE id = 6", 5),
        ("audit", "DELETE FROM audit WHERE id = 4", 3),
        ("audit", "DELETE FROM audit", 1),
        ("audit_seals", "UPDATE audit_seals SET entries = 1 WHERE id = 2", 3),
        ("audit_seals", "UPDATE audit_seals SET digest = '' WHERE id = 1", 1),
        ("audit_seals", "DELETE FROM audit_seals WHERE id = 1", 1),
    ],
)
async def test_it_finds_where_the_trail_was_changed(
    postgres: Postgres, seals: SealStore, table: str, sql: str, first_bad: int
) -> None:
    duty = AuditSeals(seals, now=lambda: NOW)
    for number in range(0, 6, 2):
        await note(postgres, f"{number}", f"{number + 1}")
        await seals.seal(NOW)
    await duty.work(anyway)
    assert ((await seals.state()).checked_at, (await seals.state()).bad_from) == (NOW, None)

    await forge(postgres, table, sql)
    await note(postgres, "later")
    await AuditSeals(seals, now=lambda: NOW + 1).work(anyway)

    state = await seals.state()
    assert (state.checked_at, state.bad_from) == (NOW + 1, first_bad)


@pytest.mark.req("ADM-299")
async def test_it_works_a_long_trail_off_in_pieces_and_compares_once_an_hour(
    postgres: Postgres, seals: SealStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seal_store, "ENTRIES_MAX", 2)
    monkeypatch.setattr(seal_store, "SEALS_AT_ONCE", 1)
    await note(postgres, *map(str, range(5)))
    duty = AuditSeals(seals, now=lambda: NOW)

    await duty.work(anyway)

    kept = await postgres.fetch("SELECT entries FROM audit_seals ORDER BY id")
    assert [row["entries"] for row in kept] == [2, 2, 1]
    await forge(postgres, "audit", "UPDATE audit SET detail = 'other' WHERE id = 1")
    await duty.work(anyway)
    assert (await seals.state()).bad_from is None, "not compared again within the hour"
    monkeypatch.setattr(audit_seals, "mono", lambda: mono() + 3600)
    await duty.work(anyway)
    assert (await seals.state()).bad_from == 1


async def test_it_seals_nothing_while_an_entry_is_on_its_way(postgres: Postgres, seals: SealStore) -> None:
    """Its id is taken; a later entry must not be sealed before it."""
    async with postgres.acquire() as slow, slow.transaction():
        await slow.execute(
            "INSERT INTO audit (ts, actor, actor_kind, action, detail, ok) VALUES (1, 'x', 'system', 'slow', '', TRUE)"
        )
        await note(postgres, "fast")
        assert await seals.seal(NOW) is False
        assert (await seals.state()).sealed_to is None
    await seals.seal(NOW)

    assert (await seals.state()).sealed_to == 2
    assert await seals.check(anyway) is None


@pytest.mark.req("ADM-300")
@pytest.mark.parametrize("table", ["audit", "audit_seals", "events"])
@pytest.mark.req("FLT-098")
async def test_nothing_that_was_written_is_changed_in_passing(
    house: House, postgres: Postgres, seals: SealStore, table: str
) -> None:
    await house.create("shop")
    await house.drain("shop")
    await seals.seal(NOW)
    before = await postgres.fetch(f"SELECT * FROM {table}")
    column = {"audit": "ts", "audit_seals": "sealed_at", "events": "at"}[table]

    for statement in (f"UPDATE {table} SET {column} = 0", f"DELETE FROM {table}", f"TRUNCATE {table}"):
        with pytest.raises(asyncpg.RaiseError, match="only ever added to"):
            await postgres.execute(statement)

    assert before
    assert await postgres.fetch(f"SELECT * FROM {table}") == before
    await postgres.execute("UPDATE events SET ip = NULL")
    with pytest.raises(asyncpg.RaiseError, match="only ever added to"):
        await postgres.execute("UPDATE events SET ip = NULL, body = ''")


async def test_two_leaders_make_one_chain(
    postgres: Postgres, seals: SealStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one before may still be at it when the next one begins."""
    await note(postgres, *map(str, range(4)))
    others = [SealStore(postgres, audit_line) for _ in range(3)]

    async with postgres.acquire() as link, link.transaction():  # the one before is in the middle of a seal
        await link.execute(QUERIES["seal_lock"])
        monkeypatch.setattr(seal_store, "LOCK_MS", 20)
        assert await seals.seal(NOW) is False
        assert (await seals.state()).sealed_to is None
    monkeypatch.setattr(seal_store, "LOCK_MS", 5000)
    await asyncio.gather(*(one.seal(NOW) for one in (seals, *others)))

    assert await seals.check(anyway) is None
    assert (await seals.state()).sealed_to == 4


@pytest.mark.req("ADM-299")
def test_health_says_how_far_it_is_sealed_and_warns_of_a_change() -> None:
    fits, unfit = SealState(7, NOW, b"\x01\xff", NOW, None), SealState(7, NOW, b"\x01\xff", NOW, 3)

    assert audit_block(fits) == {"sealedTo": 7, "sealedAt": NOW, "seal": "01ff", "ok": True}
    assert audit_block(unfit)["ok"] is False
    assert audit_block(SealState()) == {"sealedTo": None, "sealedAt": None, "seal": None, "ok": None}
    assert audit_warnings(fits) == []
    assert audit_warnings(unfit) == ["The audit trail was changed: from id 3 on it does not fit its seals."]
