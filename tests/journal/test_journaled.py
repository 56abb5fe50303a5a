"""What stands in the journal: the rows of each fact, what is in them, and what is in none."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from app.domain.automation import AutoActivate
from app.domain.facts import FactType, decode_body
from app.domain.facts_of_passes import Admitted
from app.domain.facts_of_rooms import RoomCreated, RoomDeleted, RoomUpdated
from app.domain.layout import DOOR_BYTES, DoorRecord
from app.domain.room import RoomConfig
from app.infrastructure.engine_auto import Tuning
from app.infrastructure.engine_results import Verdict, Via
from app.infrastructure.keys import RoomKeys
from tests.journal.history import SHOP, Chance, advance
from tests.journal.house import House, door_of, entry


async def rows(house: House, gen: int = 1) -> list[Any]:
    """Every row of the room's generation, in order."""
    sql = "SELECT room, gen, seq, type, lv, at, ip, body FROM events WHERE room = 'shop' AND gen = $1 ORDER BY seq"
    return await house.postgres.fetch(sql, gen)


async def fact(house: House, kind: FactType, gen: int = 1) -> Any:
    """The only fact of a type."""
    (row,) = [row for row in await rows(house, gen) if row["type"] == kind]
    return decode_body(row["type"], row["lv"], row["body"])


@pytest.mark.req("ENG-250")
@pytest.mark.req("FLT-098")
async def test_it_numbers_the_events_of_each_generation_without_gaps(house: House) -> None:
    """Room, generation, position from 1 on, type, time that never goes back, and the version of the log."""
    await house.create("shop", rate_per_minute=600, max_concurrent=3, presence_sec=20)
    chance = Chance(house)
    for _ in range(80):
        await chance.act()
    await house.admin.delete(SHOP, actor="ann")
    await house.drain("shop")
    await house.admin.create(RoomConfig(SHOP, "Shop", "https://shop.example/"), gen=2, salt=bytes(16), actor="bo")
    await house.drain("shop")

    first, second = await rows(house, 1), await rows(house, 2)

    assert [row["seq"] for row in first] == list(range(1, len(first) + 1))
    assert [row["seq"] for row in second] == [1]
    assert {row["lv"] for row in [*first, *second]} == {1}
    times = [row["at"] for row in first]
    assert times == sorted(times)
    assert times[0] > 1_700_000_000_000
    for row in first:
        assert FactType(row["type"]).word
    assert (first[0]["type"], first[-1]["type"]) == (FactType.ROOM_CREATED, FactType.ROOM_DELETED)


@pytest.mark.req("ENG-254")
async def test_it_keeps_every_field_of_a_new_room_and_who_made_it(house: House) -> None:
    made = RoomConfig(SHOP, "Shop", "https://shop.example/", rate_per_minute=7, queue_max_per_ip=None)
    await house.admin.create(made, gen=1, salt=b"s" * 16, actor="Zoë")
    await house.drain("shop")

    found = await fact(house, FactType.ROOM_CREATED)

    assert isinstance(found, RoomCreated)
    assert (found.actor, found.gen, found.salt) == ("Zoë", 1, b"s" * 16)
    assert found.config.keys() == {field.name for field in fields(RoomConfig)}
    assert (found.config["rate_per_minute"], found.config["queue_max_per_ip"]) == (7, None)


@pytest.mark.req("ENG-255")
async def test_it_keeps_what_a_change_changed_who_made_it_and_why(house: House) -> None:
    """By an operator, by threshold and by autotune; what an automatic change rests on is with it."""
    rule = AutoActivate(True, joins_per_min=2, sustain_sec=3)
    await house.create("shop", state=2, auto_activate=rule, rate_per_minute=600)
    await house.admin.update(SHOP, {"name": "Sale", "rate_per_minute": 60, "max_concurrent": 5}, actor="Zoë")
    await house.read("shop")
    for who in range(3):
        await house.join("shop", who)
    await advance(house, "shop", 4)
    await house.auto.switch_many([(house.rooms["shop"], rule)], leader=1)
    await house.read("shop")
    for who in range(3):
        await house.join("shop", who)
    (seen,) = await house.auto.tuning_many([SHOP])
    assert isinstance(seen, Tuning)
    await house.auto.tune(SHOP, seen, 48, leader=1, hold_ms=0, figures={"old": 60, "new": 48, "cause": "slow"})
    await house.drain("shop")

    updates = [
        decode_body(row["type"], row["lv"], row["body"])
        for row in await rows(house)
        if row["type"] == FactType.ROOM_UPDATED
    ]

    told = [(fact.changes, fact.actor, fact.why) for fact in updates if isinstance(fact, RoomUpdated)]
    assert told == [
        ({"name": "Sale", "rate_per_minute": 60, "max_concurrent": 5}, "Zoë", "operator"),
        ({"state": 0}, "system", "threshold"),
        ({"rate_per_minute": 48}, "system", "autotune"),
    ]
    by_hand, opened, tuned = (fact.figures for fact in updates if isinstance(fact, RoomUpdated))
    assert by_hand is None
    assert opened is not None
    assert tuned is not None
    assert opened.items() >= {"joins_per_min": 3, "threshold": 2, "seconds": 3}.items()
    assert tuned.items() >= {"old": 60, "new": 48, "cause": "slow"}.items()


@pytest.mark.req("ENG-256")
async def test_it_keeps_who_ended_a_room(house: House) -> None:
    await house.create("shop")
    await house.admin.delete(SHOP, actor="Zoë")
    await house.drain("shop")

    assert await fact(house, FactType.ROOM_DELETED) == RoomDeleted("Zoë")


@pytest.mark.parametrize("via", list(Via))
@pytest.mark.req("ENG-264")
async def test_it_keeps_the_door_of_an_admission_and_when_its_ticket_first_came_in(house: House, via: Via) -> None:
    await house.create("shop", rate_per_minute=6000)
    await house.join("shop", 1)
    answer = await house.engine.check(house.rooms["shop"], entry(1, 1)._replace(via=via))
    await house.drain("shop")

    found = await fact(house, FactType.ADMITTED)
    (row,) = [row for row in await rows(house) if row["type"] == FactType.ADMITTED]

    assert answer.verdict is Verdict.ADMITTED
    assert found == Admitted(1, via, door_of(1), found.first_admitted_at)
    assert abs(found.first_admitted_at - row["at"]) <= 100


@pytest.mark.req("ENG-272")
async def test_a_rebuilt_room_has_everybody_present_and_no_saved_credit(house: House) -> None:
    """Sessions count as used now, and end no later than their longest life allows."""
    await house.create(
        "shop", rate_per_minute=600, max_concurrent=None, presence_sec=10, session_ttl_sec=60, session_max_sec=100,
        passed_ttl_sec=300,
    )  # fmt: skip
    for who in range(4):
        await house.join("shop", who)
    await advance(house, "shop", 2)
    for who in (0, 1):
        await house.engine.check(house.rooms["shop"], entry(who, who + 1))
    await house.admin.update(SHOP, {"rate_per_minute": 0}, actor="ann")
    late = await house.join("shop", "late")
    assert late.view is not None
    await advance(house, "shop", 50)
    await house.drain("shop")
    before = {n: await _door(house, n) for n in (1, 2, 3)}
    wall = (await house.jobs.header(SHOP) or {})["wall"]
    await house.lose_everything()
    assert await house.recovery.ensure(SHOP)

    header = await house.jobs.header(SHOP)
    assert header is not None
    records = await house.tickets("shop")

    assert header["credit"] <= 1
    assert {record.seen for record in records} == {header["mono"] // 100}
    after = {n: await _door(house, n) for n in (1, 2, 3)}
    assert after[1].used_at == after[2].used_at == header["mono"] // 100
    assert [after[n].door for n in (1, 2)] == [before[n].door for n in (1, 2)]
    due = dict(await _deadlines(house))
    assert wall > 0
    assert due[1] <= after[1].first_admitted + 1000
    assert after[3].pass_end - header["mono"] // 100 == pytest.approx(before[3].pass_end - _ds(header, wall), abs=600)
    figures = (await house.admin.figures([SHOP]))[SHOP]
    assert (figures.active, figures.waiting) == (2, 1)


def _ds(header: dict[str, Any], wall: int) -> int:
    return int(wall - header["t0"]) // 100


async def _door(house: House, n: int) -> Any:
    key = RoomKeys(house.prefix, "shop").doors(1, 0)
    at = (n - 1) * DOOR_BYTES
    return DoorRecord.unpack(await house.valkey.execute("GETRANGE", key, at, at + DOOR_BYTES - 1))


async def _deadlines(house: House) -> list[tuple[int, float]]:
    flat = await house.valkey.execute("ZRANGE", RoomKeys(house.prefix, "shop").deadlines(1), 0, -1, "WITHSCORES")
    return [(int(n), float(ds)) for n, ds in zip(flat[::2], flat[1::2], strict=True)]
