"""Two operators at one room, through two instances, at the same moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.core.clock import wall_ms
from app.core.ids import RoomId
from app.domain.facts import FactType, decode_body
from app.domain.facts_of_rooms import RoomUpdated
from app.domain.room import RoomState
from app.services.room_object import room_object
from tests.admin.conftest import House, Process
from tests.admin.test_rooms_service import ACTOR, TARGET, save

WHOLE = ("name", "maxConcurrent", "presenceSec")


@pytest.mark.req("FLT-017")
async def test_each_act_takes_effect_whole_and_the_later_one_wins_per_field(house: House, process: Process) -> None:
    other = await house.process()
    await save(process, targetUrl=TARGET, rate=0)
    mine: dict[str, Any] = {"name": "Mine", "maxConcurrent": 3, "presenceSec": 31}
    theirs: dict[str, Any] = {"name": "Theirs", "maxConcurrent": 4, "presenceSec": 41}

    for turn in range(8):
        acts = [
            save(process, **mine, queueMaxPerIp=turn + 1),
            save(other, **theirs, passedTtlSec=100 + turn),
            process.line.pause("shop", actor=ACTOR) if turn % 2 else process.line.resume("shop", actor=ACTOR),
            other.line.set_rate("shop", {"rate": turn}, actor=ACTOR),
        ]
        await asyncio.gather(*acts)
        shown = [room_object(await one.service.view("shop")) for one in (process, other)]

        assert shown[0] == shown[1]
        whole = {name: shown[0][name] for name in WHOLE}
        assert whole in (mine, theirs), "one of the two, and nothing between them"
        assert (shown[0]["queueMaxPerIp"], shown[0]["passedTtlSec"], shown[0]["rate"]) == (turn + 1, 100 + turn, turn)
        assert shown[0]["state"] == ("paused" if turn % 2 else "active")


@pytest.mark.req("FLT-017")
async def test_the_journal_has_both_in_the_order_in_which_they_took_effect(house: House, process: Process) -> None:
    other = await house.process()
    await save(process, targetUrl=TARGET)

    await asyncio.gather(*(save((process, other)[n % 2], name=f"Name {n}") for n in range(10)))

    rows = await house.postgres.fetch("SELECT type, lv, body FROM events WHERE room = 'shop' ORDER BY seq")
    facts = [decode_body(row["type"], row["lv"], row["body"]) for row in rows if row["type"] == FactType.ROOM_UPDATED]
    names = [fact.changes["name"] for fact in facts if isinstance(fact, RoomUpdated)]
    versions = [fact.cfg_ver for fact in facts if isinstance(fact, RoomUpdated)]
    assert sorted(names) == [f"Name {n}" for n in range(10)]
    assert versions == sorted(set(versions))
    copy = await process.engine.read(RoomId("shop"))
    assert copy is not None
    assert copy.config.name == names[-1]


async def position(process: Process) -> int:
    """Number of the room's last fact."""
    header = await process.jobs.header(RoomId("shop"))
    assert header is not None
    return int(header["seq"])


@pytest.mark.req("FLT-097")
async def test_whatever_is_asked_for_again_changes_nothing_and_is_answered_as_done(
    house: House, process: Process
) -> None:
    """Create, edit, schedule, pause, resume, rate: the same values again; a room that is gone stays gone."""
    opens_at = wall_ms() + 3_600_000
    acts: list[Any] = [
        lambda: save(process, targetUrl=TARGET, rate=5),
        lambda: save(process, name="Edited", maxConcurrent=7),
        lambda: process.line.pause("shop", actor=ACTOR),
        lambda: process.line.set_rate("shop", {"rate": 9}, actor=ACTOR),
        lambda: process.line.resume("shop", actor=ACTOR),
        lambda: process.line.schedule("shop", {"opensAt": opens_at}, actor=ACTOR),
    ]
    for act in acts:
        await act()
        before = await position(process)
        shown = room_object(await process.service.view("shop"))

        again = await act()

        assert tuple(again.changed) == ()
        assert await position(process) == before, "nothing more is recorded"
        assert room_object(await process.service.view("shop")) == shown
    assert (await process.service.view("shop")).room.config.state is RoomState.ACTIVE
