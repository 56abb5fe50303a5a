"""Openings that are interrupted, and draws that are computed again from the journal."""

from __future__ import annotations

import asyncio
import os
import re
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.core.clock import wall_ms
from app.core.ids import RoomId
from app.domain.facts import FactType
from app.domain.facts_of_doors import Drawn
from app.infrastructure.engine_results import Presented, VisitorView
from app.infrastructure.store_binaries import Binaries
from app.services.draws import SLICE, draw_room
from tests.journal.history import ANY_TIME, advance, lose_and_rebuild
from tests.journal.house import House, batch_of, holder

DROP = RoomId("drop")
GUIDE = Path(__file__).resolve().parents[2] / "docs/reference/draw.md"


async def pre_queue(house: House, people: int, addresses: int = 1_000_000) -> list[bytes]:
    """A room whose doors open in an hour; the handles of its people, by number from 0 on."""
    fields = {"pre_queue_max_per_ip": None, "opens_at": wall_ms() + 3_600_000}
    await house.create(DROP, **fields)
    handles: list[bytes] = []
    for start in range(0, people, 500):
        some = range(start, min(start + 500, people))
        for answer in await asyncio.gather(*(house.join(DROP, who, address=who % addresses) for who in some)):
            assert answer.view is not None
            handles.append(answer.view.handle)
    return handles


async def begin(house: House) -> None:
    await house.admin.update(DROP, {"opens_at": None}, actor="ann")
    await house.read(DROP)
    await house.jobs.tick(DROP, ANY_TIME)


async def views(house: House, handles: Sequence[bytes]) -> list[VisitorView]:
    room = house.rooms[DROP]
    proofs = [holder(who, 0)._replace(presented=Presented.HANDLE, handle=handle) for who, handle in enumerate(handles)]
    return list(await asyncio.gather(*(house.engine.status(room, proof, told=False, seen=False) for proof in proofs)))


async def finish(house: House) -> None:
    """What the processes of any instance do until the order is told."""
    await house.jobs.tick(DROP, ANY_TIME)
    await draw_room(house.jobs, DROP)
    await house.drain(DROP)


async def journal_some(house: House, facts: int) -> None:
    """Store the next facts, as the last commit before everything is killed."""
    pulled = await house.jobs.drain_next(DROP, 0, facts)
    await house.journal.append([batch_of(DROP, pulled)])


async def lose(house: House) -> None:
    """Everything is killed, and the live store is lost with what was not journaled."""
    await house.lose_everything()
    assert await house.recovery.ensure(DROP)
    await house.read(DROP)


CRASHES = ("before", "begun", "begun and journaled", "half", "half journaled", "drawn", "drawn and journaled", "told")


@pytest.mark.req("ENG-283", "ENG-179", "FLT-086", "ENG-011")
@pytest.mark.parametrize("crash", CRASHES)
async def test_it_gives_every_holder_one_ticket_whenever_it_is_killed(house: House, crash: str) -> None:
    people = 2 * SLICE + 60
    handles = await pre_queue(house, people)
    await house.drain(DROP)
    if crash != "before":
        await begin(house)
        await _go_to(house, crash)
    before = [view.ticket for view in await views(house, handles)]
    assert (crash == "told") == any(before)

    await lose(house)

    rebuilt = [view.ticket for view in await views(house, handles)]
    assert before in (rebuilt, [0] * people), "a number that was told stays"
    if crash in ("before", "begun"):
        await begin(house)
    await finish(house)
    after = [view.ticket for view in await views(house, handles)]
    assert sorted(after) == list(range(1, people + 1))
    assert before in (after, [0] * people)
    drawn = await house.postgres.fetchval("SELECT count(*) FROM events WHERE type = $1", FactType.DRAWN)
    await lose_and_rebuild(house, DROP)
    await finish(house)
    assert [view.ticket for view in await views(house, handles)] == after
    assert await house.postgres.fetchval("SELECT count(*) FROM events WHERE type = $1", FactType.DRAWN) == drawn == 1


async def _go_to(house: House, crash: str) -> None:
    """Bring the opening to the point at which everything is killed; what "journaled" names is stored by then."""
    if crash == "begun":
        return
    await house.drain(DROP)
    if crash == "begun and journaled":
        return
    if crash.startswith("half"):
        await _half(house)
    else:
        await draw_room(house.jobs, DROP)
    if crash == "half journaled":
        await journal_some(house, 1)
    elif crash == "drawn":
        await journal_some(house, 2)
    elif crash == "drawn and journaled":
        await journal_some(house, 10)
    elif crash == "told":
        await house.drain(DROP)


async def _half(house: House) -> None:
    """One draw that dies in the middle."""

    class Dying:
        def __getattr__(self, name: str) -> object:
            return getattr(house.jobs, name)

        async def draw_put(self, *args: object) -> int:
            if int(str(args[3])) > 0:
                raise ConnectionResetError
            return await house.jobs.draw_put(*args)  # type: ignore[arg-type]

    with pytest.raises(ConnectionResetError):
        await draw_room(Dying(), DROP)  # type: ignore[arg-type]


async def test_it_is_drawn_by_several_at_once_in_one_order(house: House) -> None:
    handles = await pre_queue(house, 3 * SLICE)
    await begin(house)

    done = await asyncio.gather(*(draw_room(house.jobs, DROP) for _ in range(3)))

    assert sum(one is not None for one in done) == 1
    await house.drain(DROP)
    assert sorted(view.ticket for view in await views(house, handles)) == list(range(1, 3 * SLICE + 1))


def check_program() -> str:
    """The program that the guide publishes."""
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    return str(program)


def check(house_url: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "check_draw.py"
    program.write_text(check_program())
    path = f"{Binaries.find().postgres.parent}:{os.environ['PATH']}"
    # psql has no search_path among the words of an address.
    url = house_url.replace("&search_path=", "&options=-csearch_path%3D")
    env = {"PATH": path, "DATABASE_URL": url}
    return subprocess.run([sys.executable, program, DROP], env=env, capture_output=True, text=True, check=False)


@pytest.mark.req("ENG-300", "ENG-261")
async def test_it_can_be_checked_by_the_published_program(house: House, fresh_schema: str, tmp_path: Path) -> None:
    handles = await pre_queue(house, 40, addresses=7)
    for who in (3, 30):
        proof = holder(who, 0)._replace(presented=Presented.HANDLE, handle=handles[who])
        await house.engine.leave(house.rooms[DROP], proof)
    withdrawn = await house.join(DROP, "late")
    assert withdrawn.view is not None
    await house.admin.undo_prejoin(DROP, 1, withdrawn.seq, withdrawn.view.handle)
    await begin(house)
    proof = holder(5, 0)._replace(presented=Presented.HANDLE, handle=handles[5])
    await house.engine.leave(house.rooms[DROP], proof)
    await finish(house)
    await house.admin.update(DROP, {"opens_at": wall_ms() + 60_000}, actor="ann")
    await house.read(DROP)
    for who in range(100, 120):
        await house.join(DROP, who)
    await house.admin.purge(DROP, actor="ann")
    for who in range(200, 220):
        await house.join(DROP, who)
    await advance(house, DROP, 61)
    await finish(house)

    done = check(fresh_schema, tmp_path)

    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(":")[0] for line in lines] == ["good", "good"]
    assert "38 places of 7 identities, tickets from 1," in lines[0]
    assert "20 places of 20 identities, tickets from 39," in lines[1]
    sql = "UPDATE events SET body = set_byte(body, 4, get_byte(body, 8)) WHERE type = 8"
    await house.tamper(sql)
    tampered = check(fresh_schema, tmp_path)
    assert tampered.returncode == 1
    assert "BAD" in tampered.stdout


@pytest.mark.req("ENG-300", "ENG-068")
async def test_it_is_told_in_audit_and_timeline_with_its_numbers(house: House) -> None:
    await pre_queue(house, 12, addresses=5)
    await house.admin.update(DROP, {"opens_at": wall_ms() + 60_000}, actor="ann")
    await begin(house)
    await finish(house)

    drawn = Drawn(*struct.unpack("<BQIII32s32s", await _only_body(house, FactType.DRAWN)))

    entries = await house.postgres.fetch(
        "SELECT action, detail, actor FROM audit WHERE action <> 'room.create' ORDER BY id"
    )
    digest = drawn.digest.hex()
    assert [tuple(row) for row in entries] == [
        ("room.schedule", "opensAt; 12 in the pre-queue", "ann"),
        ("room.schedule", "cancelled; 12 in the pre-queue are drawn at once", "ann"),
        ("room.draw", f"12 places of 5 addresses drawn, order {digest}", "system"),
    ]
    marks = await house.postgres.fetch("SELECT kind, text FROM timeline WHERE kind <> 'settings' ORDER BY id")
    assert [row["kind"] for row in marks] == ["schedule", "schedule", "draw"]
    assert digest in marks[2]["text"]


async def _only_body(house: House, kind: FactType) -> bytes:
    (row,) = await house.postgres.fetch("SELECT body FROM events WHERE type = $1", kind)
    return bytes(row["body"])


@pytest.mark.slow
@pytest.mark.req("ENG-183")
async def test_it_draws_two_hundred_thousand_places_in_slices(house: House) -> None:
    """How long that takes is measured by bench/engine.py."""
    handles = await pre_queue(house, 200_000, addresses=60_000)
    await house.drain(DROP)
    before = await _calls(house)

    await begin(house)
    await house.jobs.tick(DROP, ANY_TIME)
    await draw_room(house.jobs, DROP)
    calls = await _calls(house) - before
    await house.drain(DROP)

    assert calls >= 200_000 // SLICE, "none of them holds the live store for long"
    told = [view.ticket for view in await views(house, handles)]
    assert sorted(told) == list(range(1, 200_001))


async def _calls(house: House) -> int:
    """How often a function of the engine was called in Valkey."""
    info = await house.valkey.execute("INFO", "commandstats")
    return int(re.search(rb"cmdstat_fcall:calls=(\d+)", info).group(1))  # type: ignore[union-attr]
