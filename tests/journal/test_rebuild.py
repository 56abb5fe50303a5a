"""A room that was lost comes back from its journal as it was."""

from __future__ import annotations

import pytest

from app.core.errors import StorageUnavailable
from app.domain.facts import FactType
from app.infrastructure.engine_auto import Overtaken, Switched, Tuning
from app.infrastructure.engine_results import Reason, Verdict, ViewState
from app.infrastructure.keys import RoomKeys
from app.infrastructure.postgres import Postgres
from tests.journal.folds import assert_checkpoints_agree
from tests.journal.history import (
    BRISK,
    HISTORY,
    SHOP,
    Chance,
    advance,
    assert_rebuilt_alike,
    keep_the_time,
    lose_and_rebuild,
)
from tests.journal.house import House, door_of, entry, holder, newcomer
from tests.journal.snapshot import assert_alike, snapshot, without_fresh

TOLD_AGAIN: int | None = None
"""Seed of a history that failed, to play it again; None = another history each time."""


@pytest.mark.req("FLT-081", "ENG-276")
async def test_it_gives_every_ticket_its_number_and_place_again(house: House) -> None:
    await house.create("shop")
    for who in range(30):
        await house.join("shop", who)
    for who in (3, 7, 8, 29):
        await house.engine.leave(house.rooms["shop"], holder(who, who + 1))
    await house.admin.eject(SHOP, 11, actor="ann")
    before = {who: await house.engine.status(house.rooms["shop"], holder(who, who + 1)) for who in range(30)}

    await lose_and_rebuild(house)

    for who, view in before.items():
        again = await house.engine.status(house.rooms["shop"], holder(who, who + 1))
        assert (again.state, again.reason, again.ticket, again.ahead, again.joined_at) == (
            *(view.state, view.reason, view.ticket, view.ahead, view.joined_at),
        )
    stranger = await house.engine.status(house.rooms["shop"], holder("thief", 5))
    assert stranger.state == ViewState.GONE
    new = await house.join("shop", "late")
    assert new.view is not None
    assert (new.view.ticket, new.view.ahead) == (31, 25)


async def test_it_keeps_sessions_door_keys_and_slots(house: House) -> None:
    await house.create("shop", rate_per_minute=100_000, max_concurrent=2)
    for who in range(4):
        await house.join("shop", who)
    await advance(house, "shop", 5)
    for who in (0, 1):
        answer = await house.engine.check(house.rooms["shop"], entry(who, who + 1))
        assert answer.verdict is Verdict.ADMITTED

    await lose_and_rebuild(house)

    room = house.rooms["shop"]
    with_key = entry(0, 1)
    with_key = type(with_key)(holder(0, 1, doors=door_of(0)), True, door_of("other"), with_key.via)
    assert (await house.engine.check(room, with_key)).verdict is Verdict.SESSION
    stolen = type(with_key)(holder("thief", 1), True, door_of("thief"), with_key.via)
    assert (await house.engine.check(room, stolen)).verdict is Verdict.QUEUE
    figures = (await house.admin.figures([SHOP]))[SHOP]
    assert (figures.active, figures.pending_entry, figures.waiting, figures.occupancy) == (2, 0, 2, 2)
    await house.jobs.tick(SHOP)
    assert (await house.admin.figures([SHOP]))[SHOP].occupancy == 2


@pytest.mark.req("ENG-164")
async def test_it_keeps_counting_places_per_address(house: House) -> None:
    await house.create("shop", queue_max_per_ip=2)
    for who in range(2):
        await house.join("shop", who, address="home")

    await lose_and_rebuild(house)

    assert (await house.join("shop", "third", address="home")).view is None
    await house.engine.leave(house.rooms["shop"], holder(0, 1))
    assert (await house.join("shop", "third", address="home")).view is not None


@pytest.mark.req("ENG-296")
async def test_it_keeps_counting_slots_per_address(house: House) -> None:
    await house.create("shop", rate_per_minute=100_000, max_concurrent=10, session_max_per_ip=2)
    for who in range(4):
        await house.join("shop", who, address="home")
    await advance(house, "shop", 2)
    room = house.rooms["shop"]
    assert (await house.engine.check(room, entry(0, 1))).verdict is Verdict.ADMITTED

    await lose_and_rebuild(house)

    room = house.rooms["shop"]
    assert (await house.admin.figures([SHOP]))[SHOP].top_address_slots == 2
    assert (await house.engine.check(room, entry(2, 3))).reason is Reason.AT_CAPACITY
    await house.engine.leave(room, holder(0, 1))
    await advance(house, "shop", 1)
    assert (await house.engine.check(room, entry(2, 3))).verdict is Verdict.ADMITTED
    assert (await house.engine.check(room, entry(3, 4))).reason is Reason.AT_CAPACITY


async def test_it_takes_up_the_journal_where_it_stood(house: House) -> None:
    await house.start_drainer()
    await house.create("shop")
    await house.join_committed("shop", 0)
    await lose_and_rebuild(house)

    assert await house.join_committed("shop", 1) is not None

    rows = await house.postgres.fetch("SELECT seq, type FROM events ORDER BY seq")
    kinds = [FactType(row["type"]) for row in rows]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert [kind for kind in kinds if kind != FactType.CLOCK_MOVED] == [FactType.ROOM_CREATED, *[FactType.JOINED] * 2]
    assert await house.postgres.fetchval("SELECT epoch FROM room_heads") == 2


async def test_it_brings_back_what_an_operator_set(house: House) -> None:
    await house.create("shop", rate_per_minute=5)
    await house.admin.update(SHOP, {"rate_per_minute": 77, "name": 'Märkte "/"'}, actor="ann")
    await house.admin.update(SHOP, {"state": 1}, actor="ann")
    before = await house.read("shop")

    await lose_and_rebuild(house)

    assert house.rooms["shop"] == before
    assert (await house.admin.figures([SHOP]))[SHOP].rate_per_minute == 77


@pytest.mark.req("ENG-216")
async def test_it_keeps_what_the_next_automatic_decision_rests_on(house: House) -> None:
    await house.create("shop", state=2, rate_per_minute=6000, auto_activate=BRISK)
    await house.admin.update(SHOP, {"rate_per_minute": 600}, actor="ann")
    copy = house.rooms["shop"]
    await house.join("shop", 1)
    await advance(house, "shop", 3)
    (opened,) = await house.auto.switch_many([(copy, BRISK)], leader=9)
    assert isinstance(opened, Switched)
    assert opened.outcome == 1
    (before,) = await house.auto.tuning_many([SHOP])
    figures = (await house.admin.figures([SHOP]))[SHOP]
    assert isinstance(before, Tuning)

    await lose_and_rebuild(house)
    await keep_the_time(house, "shop")

    (after,) = await house.auto.tuning_many([SHOP])
    assert isinstance(after, Tuning)
    assert (after.state, after.rate, after.hand_rate) == (0, 600, 600)
    assert after.hand_rate_age_ms is not None
    assert 3000 <= after.hand_rate_age_ms < (before.hand_rate_age_ms or 0) + 5000
    again = (await house.admin.figures([SHOP]))[SHOP]
    assert (again.last_switch, again.last_switch_at) == ("opened", figures.last_switch_at)
    assert isinstance((await house.auto.switch_many([(copy, BRISK)], leader=8))[0], Overtaken)
    await advance(house, "shop", 70)
    (closed,) = await house.auto.switch_many([(copy, BRISK)], leader=9)
    assert isinstance(closed, Switched)
    assert closed.outcome == 2, "the queue is still one that it opened itself"


async def test_it_keeps_the_generation_of_a_deleted_room_from_coming_back(house: House) -> None:
    await house.create("shop")
    await house.join("shop", 1)
    await house.drain("shop")
    saved = await house.valkey.execute("GET", RoomKeys(house.prefix, "shop").header)
    await house.admin.delete(SHOP, actor="ann")
    await house.drain("shop")
    await house.valkey.execute("SET", RoomKeys(house.prefix, "shop").header, saved)

    await house.recovery.ensure_all()

    header = await house.jobs.header(SHOP)
    assert header is not None
    assert header["deleted"]
    assert header["verified"]


async def test_it_rebuilds_a_line_over_several_chunks(house: House) -> None:
    await house.create("shop")
    copy = house.rooms["shop"]
    for start in range(0, 3000, 500):
        for answer in [house.engine.join(copy, newcomer(who)) for who in range(start, start + 500)]:
            await answer
    await house.drain("shop")
    before = without_fresh(await snapshot(house.valkey, house.prefix, "shop"))

    await lose_and_rebuild(house)

    assert_alike(before, without_fresh(await snapshot(house.valkey, house.prefix, "shop")))


@pytest.mark.req("ENG-278")
async def test_it_is_the_same_byte_for_byte_after_any_history(house: House) -> None:
    await house.create("shop", **HISTORY)
    chance = Chance(house, TOLD_AGAIN)
    for _ in range(6):
        for _ in range(120):
            await chance.act()
        await assert_rebuilt_alike(chance)
    await assert_checkpoints_agree(house)


async def test_it_leaves_a_rebuild_to_the_one_who_holds_the_lock(house: House, postgres: Postgres) -> None:
    await house.create("shop")
    await house.drain("shop")
    await house.lose_everything()
    async with postgres.dedicated() as other:
        sql = "SELECT pg_advisory_lock(hashtextextended('qm:rebuild:' || current_schema() || ':shop', 0))"
        await other.fetchval(sql)

        assert not await house.recovery.ensure(SHOP)
        assert await house.jobs.header(SHOP) is None

    assert await house.recovery.ensure(SHOP)
    assert await house.jobs.header(SHOP) is not None


@pytest.mark.req("ENG-251")
async def test_it_keeps_a_room_fenced_whose_journal_it_cannot_read(house: House) -> None:
    await house.create("shop")
    await house.create("other")
    for room in ("shop", "other"):
        await house.join(room, 1)
        await house.drain(room)
    await house.tamper("UPDATE events SET type = 77 WHERE room = 'shop' AND seq = 2")
    await house.lose_everything()

    assert await house.recovery.ensure_all() == 2

    with pytest.raises(StorageUnavailable):
        await house.engine.status(house.rooms["shop"], holder(1, 1))
    view = await house.engine.status(house.rooms["other"], holder(1, 1))
    assert view.state is ViewState.WAITING


async def test_it_refuses_to_write_for_a_rebuilder_that_was_overtaken(house: House) -> None:
    await house.create("shop")
    await house.drain("shop")
    await house.jobs.fence(SHOP, 1, 1)
    assert await house.jobs.rebuild_begin(SHOP, 1, 2)
    assert await house.jobs.rebuild_begin(SHOP, 1, 3)

    assert not await house.jobs.rebuild_put(SHOP, 2, [("w", [1])])
    assert not await house.jobs.rebuild_end(SHOP, 2, b"", {})
    assert not await house.jobs.rebuild_begin(SHOP, 1, 2)
