"""Checkpoints: made from the journal alone, and worth exactly the facts they stand for."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from app.domain.facts import FactBody
from app.domain.facts_of_passes import Admitted
from app.domain.facts_of_tickets import Ejected, Left
from app.domain.fold import RoomFold
from app.domain.fold_state import STATE_FORM, UnreadableState, dump_fold, load_fold
from app.domain.ticket_state import TicketState
from app.infrastructure import snapshots
from app.infrastructure.postgres import Postgres
from app.services import checkpoints
from app.services.checkpoints import Checkpoints
from tests.journal.folds import assert_checkpoints_agree
from tests.journal.history import HISTORY, SHOP, Chance, keep_the_time, lose_and_rebuild, settled
from tests.journal.house import House, holder, until
from tests.journal.snapshot import assert_alike, snapshot, without_fresh
from tests.journal.test_fold import BORN, KEY, NOW, Story, joined


async def kept(house: House) -> list[tuple[int, int]]:
    """(gen, seq) of all checkpoints."""
    rows = await house.postgres.fetch("SELECT gen, seq FROM room_snapshots ORDER BY gen, seq")
    return [tuple(row) for row in rows]


@pytest.mark.req("ENG-252", "FLT-103")
async def test_it_folds_to_the_same_room_from_any_checkpoint_of_any_history(house: House) -> None:
    await house.create("shop", **HISTORY)
    chance = Chance(house)
    for _ in range(250):
        await chance.act()
    await house.drain("shop")

    await assert_checkpoints_agree(house, tries=20)


@pytest.mark.req("ENG-252", "ENG-276", "FLT-102", "FLT-103")
async def test_it_rebuilds_from_a_checkpoint_and_the_facts_after_it(house: House) -> None:
    """What the checkpoint covers is not read again, and what the live store says is not asked."""
    await house.create("shop", rate_per_minute=60, max_concurrent=4, presence_sec=20)
    chance = Chance(house)
    while (await house.jobs.header(SHOP) or {})["seq"] < 80:  # a bypassed room has few facts to tell
        await chance.act()
    await house.drain("shop")
    for name in ("m", "cfg"):  # the maker of checkpoints must not look here
        await house.valkey.execute("COPY", f"{house.prefix}{{shop}}:{name}", f"{house.prefix}{{shop}}:kept-{name}")
        await house.valkey.execute("SET", f"{house.prefix}{{shop}}:{name}", "another room altogether")
    assert await Checkpoints(house.postgres, events=20).turn() == SHOP
    for name in ("m", "cfg"):
        key = f"{house.prefix}{{shop}}:{name}"
        await house.valkey.execute("COPY", key.replace(":" + name, ":kept-" + name), key, "REPLACE")
    for _ in range(60):
        await chance.act()
    before = without_fresh(await settled(house))
    ((_, at),) = await kept(house)
    await house.tamper("UPDATE events SET type = 99 WHERE seq <= $1", at)

    await lose_and_rebuild(house)
    await keep_the_time(house, "shop")

    after = without_fresh(await snapshot(house.valkey, house.prefix, "shop"))
    assert_alike(before, after, f"history {chance.seed}")


@pytest.mark.req("FLT-104")
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE room_snapshots SET lv = 2 WHERE seq = (SELECT max(seq) FROM room_snapshots)",
        "UPDATE room_snapshot_parts SET body = 'no zlib' WHERE part = 1",
        "DELETE FROM room_snapshot_parts WHERE part = 0",
        "UPDATE room_snapshots SET parts = 1",
    ],
)
async def test_it_skips_a_checkpoint_that_it_cannot_read(house: House, damage: str) -> None:
    await house.create("shop")
    maker = Checkpoints(house.postgres, events=2)
    for turn in range(2):
        for who in range(5):
            await house.join("shop", (turn, who))
        await house.drain("shop")
        assert await maker.turn() == SHOP
    await house.join("shop", "late")
    await house.drain("shop")
    await house.postgres.execute(damage)

    with capture_logs() as lines:
        await lose_and_rebuild(house)

    assert "snapshot_skipped" in {line["event"] for line in lines}
    assert (await house.engine.status(house.rooms["shop"], holder("late", 11))).ahead == 10


@pytest.mark.req("FLT-102", "CFG-045")
async def test_it_takes_the_room_with_most_facts_and_keeps_the_latest_two(house: House) -> None:
    maker = Checkpoints(house.postgres, events=4)
    await house.create("shop")
    await house.create("drop")
    await house.create("small")
    for who in range(4):
        await house.join("shop", who)
        await house.join("drop", who)
    await house.join("drop", "one more")
    for room in ("shop", "drop", "small"):
        await house.drain(room)

    assert [await maker.turn() for _ in range(3)] == ["drop", "shop", None]
    for turn in range(3):
        for who in range(5):
            await house.join("shop", (turn, who))
        await house.drain("shop")
        assert await maker.turn() == SHOP

    assert await kept(house) == [(1, 6), (1, 15), (1, 20)]


async def test_it_drops_the_checkpoints_of_a_room_that_ended(house: House) -> None:
    maker = Checkpoints(house.postgres, events=1)
    await house.create("shop")
    await house.join("shop", 1)
    await house.drain("shop")
    assert await maker.turn() == SHOP

    await house.admin.delete(SHOP, actor="ann")
    await house.drain("shop")

    assert await maker.turn() is None
    assert await kept(house) == []


@pytest.mark.req("FLT-102")
async def test_one_at_a_time_makes_checkpoints(house: House, postgres: Postgres) -> None:
    await house.create("shop")
    await house.join("shop", 1)
    await house.drain("shop")
    maker = Checkpoints(house.postgres, events=1)
    async with postgres.acquire() as other:
        assert await snapshots.take_turn(other)
        assert await maker.turn() is None
        await snapshots.end_turn(other)

    assert await maker.turn() == SHOP


async def test_a_room_that_it_cannot_read_keeps_no_other_from_its_checkpoint(house: House) -> None:
    await house.create("shop")
    await house.create("other")
    for room, people in (("shop", 9), ("other", 3)):
        for who in range(people):
            await house.join(room, who)
        await house.drain(room)
    await house.tamper("UPDATE events SET type = 77 WHERE room = 'shop' AND seq = 2")
    maker = Checkpoints(house.postgres, events=1)

    with capture_logs() as lines:
        made = [await maker.turn() for _ in range(3)]

    assert made == [None, "other", None]
    assert [line["room"] for line in lines if line["event"] == "checkpoint_failed"] == ["shop"]


async def test_it_makes_checkpoints_by_itself(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "LOOK_SEC", 0.01)
    monkeypatch.setattr(checkpoints, "REST", 0)
    await house.create("shop")
    stop = asyncio.Event()
    task = asyncio.ensure_future(Checkpoints(house.postgres, events=2).run(stop))
    for who in range(3):
        await house.join("shop", who)
    await house.drain("shop")

    async def is_made() -> bool:
        return await kept(house) == [(1, 4)]

    await until(is_made)
    stop.set()
    await asyncio.wait_for(task, 10)


def test_it_sees_everybody_anew_and_gives_no_record_to_a_number_that_was_never_given() -> None:
    story = Story().tell(joined(1), joined(3)).promote(1)
    early, late = story.fold(BORN + 60_000), story.fold(NOW)

    assert load_fold(list(dump_fold(early)), NOW) == late


@pytest.mark.parametrize(
    "after", [(), (Left((1,)),), (Ejected(1, TicketState.ACTIVE, "ann"),)], ids=["open", "left", "ejected"]
)
def test_it_lets_a_session_of_the_first_moment_be_used_anew(after: tuple[FactBody, ...]) -> None:
    story = Story().join(1).promote(1).tell(Admitted(1, 1, KEY, BORN + 50), *after)
    rows = [(seq, kind, lv, BORN + 50, body) for seq, kind, lv, _, body in story.rows]
    early, late = RoomFold(BORN + 50), RoomFold(NOW)
    for fold in (early, late):
        fold.feed(rows)

    assert load_fold(list(dump_fold(early)), NOW) == late


def test_it_keeps_every_kind_of_value_a_fold_may_hold() -> None:
    fold = Story().join(1).fold()
    fold.config = {"a": [1, None, True, "é"], "b": {3: b"\x00\xff", (1, 2): {"x"}}, "c": (1.5, ())}

    assert load_fold(list(dump_fold(fold)), NOW).config == fold.config
    fold.config = {"a": object()}
    with pytest.raises(TypeError):
        list(dump_fold(fold))


@pytest.mark.req("FLT-104")
def test_it_reads_no_state_of_another_builds_fold() -> None:
    head, *records = dump_fold(Story().join(1).fold())

    for pieces in (
        [], [b""], [b"{}"], [b"[]", *records], [head], [head, *records, b"x"], [head, *records[:-1]],
        [head.replace(b'"last_at"', b'"other"'), *records],
        [head.replace(b'"plain":{', b'"plain":{"new_field":1,'), *records],
    ):  # fmt: skip
        with pytest.raises(UnreadableState):
            load_fold(pieces, NOW)
    assert STATE_FORM == 1


def test_it_cuts_long_records_into_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.domain.fold_state.PIECE_BYTES", 10_000)
    fold = Story().join(*range(1, 300)).promote(1, 200).fold()

    pieces = list(dump_fold(fold))

    assert max(map(len, pieces[1:])) == 10_000
    assert load_fold(pieces, NOW) == fold
