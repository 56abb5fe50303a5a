"""Charts of rooms: measured once for the fleet, the same from everywhere, gaps where nobody measured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.chart import POINTS, STEP_MS, Point
from app.domain.room import RoomConfig
from app.infrastructure.chart_store import ChartStore
from app.infrastructure.engine_admin import WriteCode
from app.infrastructure.keys import RoomKeys, chart_sum_key
from app.infrastructure.room_directory import RoomDirectory
from app.services.history import COLUMNS, History
from app.services.room_details import RoomDetails
from app.services.sampler import Sampler
from tests.journal.house import SALT, House

SHOP, SALE = RoomId("shop"), RoomId("sale")
NOW = 1_790_000_002_000
TURN = NOW // STEP_MS * STEP_MS


class Fixed(ChartStore):
    """The store at a moment of the test's choice."""

    now = NOW

    async def now_ms(self) -> int:
        return self.now


def sampler_of(house: House, store: ChartStore) -> Sampler:
    async def rooms() -> Sequence[RoomId]:
        return [SHOP, SALE, RoomId("gone")]

    return Sampler(details=RoomDetails(house.admin), store=store, rooms=rooms)


async def told(history: History, room: str | None = None) -> Any:
    return json.loads("".join([piece async for piece in history.json(room)]))


@pytest.fixture
def store(house: House) -> Fixed:
    return Fixed(house.valkey, house.prefix)


@pytest.fixture
def history(directory: RoomDirectory, store: Fixed) -> History:
    return History(rooms=directory, store=store)


@pytest.mark.req("ADM-193", "OBS-176", "OBS-177")
async def test_it_keeps_what_rooms_show_every_five_seconds(
    house: House, directory: RoomDirectory, store: Fixed, history: History
) -> None:
    await house.create("shop", rate_per_minute=0)
    await house.create("sale", rate_per_minute=600)
    for who in range(3):
        await house.join("shop", ("shop", who))
        await house.join("sale", ("sale", who))
    await house.jobs.tick(SALE)
    await house.admin.flush(SALE, actor="op")
    for room in ("shop", "sale"):
        await house.drain(room)
    await directory.reload(SHOP)
    await directory.reload(SALE)

    assert await sampler_of(house, store).measure(NOW)
    answer = await told(history)

    assert (answer["stepSec"], list(answer["rooms"])) == (5, ["shop", "sale"])
    (shop,), (sale,) = answer["rooms"]["shop"], answer["rooms"]["sale"]
    assert shop == {
        "ts": TURN, "waiting": 3, "preQueue": 0, "joinsPerMin": 3, "passesPerMin": 0, "estWaitSec": None,
        "waitP50Sec": None, "waitP90Sec": None, "active": 0, "occupancy": 0,
    }  # fmt: skip
    assert (sale["waiting"], sale["passesPerMin"], sale["estWaitSec"]) == (0, 3, 0)
    assert 0 <= sale["waitP50Sec"] < 60, "as long as this machine took to come here"
    assert sale["occupancy"] == sale["active"] + (await house.admin.figures([SALE]))[SALE].pending_entry
    assert (await told(history, "shop"))["rooms"] == {"shop": [shop]}
    lines = "".join([piece async for piece in history.csv("shop")]).split("\r\n")
    assert lines[0].split(",") == list(COLUMNS)
    assert ("roomId", "ts", "tsIso", *list(shop)[1:]) == COLUMNS
    assert lines[1:] == [f"shop,{TURN},2026-09-21T14:13:20.000Z,3,0,3,0,,,,0,0", ""]


@pytest.mark.req("ADM-193")
async def test_it_keeps_the_sums_of_all_rooms_and_none_of_a_turn_in_which_one_cannot_be_read(
    house: House, directory: RoomDirectory, store: Fixed, history: History
) -> None:
    await house.create("shop", rate_per_minute=0)
    await house.create("sale", rate_per_minute=0)
    for room, people in (("shop", 3), ("sale", 2)):
        for who in range(people):
            await house.join(room, (room, who))
        await house.drain(room)
    sampler = sampler_of(house, store)
    assert (await told(history, "*"))["rooms"] == {"*": []}

    assert await sampler.measure(NOW)
    together = {
        "ts": TURN, "waiting": 5, "preQueue": 0, "joinsPerMin": 5, "passesPerMin": 0, "estWaitSec": None,
        "waitP50Sec": None, "waitP90Sec": None, "active": 0, "occupancy": 0,
    }  # fmt: skip
    assert await told(history, "*") == {"stepSec": 5, "rooms": {"*": [together]}}
    lines = "".join([piece async for piece in history.csv("*")]).split("\r\n")
    assert lines[1:] == [f"*,{TURN},2026-09-21T14:13:20.000Z,5,0,5,0,,,,0,0", ""]
    life = await house.valkey.execute("PTTL", chart_sum_key(house.prefix))
    assert POINTS * STEP_MS < life <= (POINTS + 12) * STEP_MS

    assert await house.jobs.fence(SALE, 1, 1)
    assert await sampler.measure(NOW + STEP_MS)
    await house.admin.delete(SHOP, actor="op")
    store.now = NOW + STEP_MS
    assert (await told(history, "*"))["rooms"]["*"] == [together], "no sum without one of them"


@pytest.mark.req("ADM-194", "OBS-179")
async def test_one_of_all_processes_measures_and_the_next_turn_may_be_anothers(
    house: House, directory: RoomDirectory, store: Fixed, history: History
) -> None:
    await house.create("shop")
    await house.drain("shop")
    await directory.reload(SHOP)
    processes = [sampler_of(house, Fixed(house.valkey, house.prefix)) for _ in range(4)]

    for turn in (0, 1, 3, 4):  # nobody lives in turn 2
        alive = processes[turn % 2 :]  # whoever measured before may be gone
        measured = await asyncio.gather(*(one.measure(NOW + turn * STEP_MS) for one in alive))
        assert sorted(measured) == [False] * (len(alive) - 1) + [True]
    store.now = NOW + 4 * STEP_MS
    other = History(rooms=directory, store=store)

    points = (await told(history))["rooms"]["shop"]
    assert [(point["ts"] - TURN) // STEP_MS for point in points] == [0, 1, 3, 4], "a gap, and no zeros"
    assert await told(other) == await told(history)


@pytest.mark.req("ADM-193")
async def test_it_keeps_an_hour(house: House, directory: RoomDirectory, store: Fixed, history: History) -> None:
    await house.create("shop")
    await house.drain("shop")
    await directory.reload(SHOP)
    for turn in range(POINTS + 3):
        point = Point(TURN + turn * STEP_MS, turn, 0, 0, 0, 2**31 - 1, 0, None, 0, 2**32 - 1)
        await store.put({(SHOP, 1): point})

    store.now = NOW + (POINTS + 2) * STEP_MS
    points = (await told(history))["rooms"]["shop"]
    assert [point["waiting"] for point in points] == list(range(3, POINTS + 3))
    assert points[0]["waitP90Sec"] is None
    assert (points[0]["estWaitSec"], points[0]["occupancy"]) == (2**31 - 1, 2**32 - 1)
    store.now += 2 * STEP_MS
    points = (await told(history))["rooms"]["shop"]
    assert [point["waiting"] for point in points] == list(range(5, POINTS + 3)), "old ones are not told"
    life = await house.valkey.execute("PTTL", RoomKeys(house.prefix, "shop").chart(1))
    assert POINTS * STEP_MS < life <= (POINTS + 12) * STEP_MS


@pytest.mark.req("ADM-166")
async def test_the_points_of_a_room_are_gone_with_it(
    house: House, directory: RoomDirectory, store: Fixed, history: History
) -> None:
    await house.create("shop")
    await house.drain("shop")
    await directory.reload(SHOP)
    await sampler_of(house, store).measure(NOW)
    key = RoomKeys(house.prefix, "shop").chart(1)
    assert await house.valkey.execute("EXISTS", key) == 1

    await house.admin.delete(SHOP, actor="op")
    assert await house.valkey.execute("EXISTS", key) == 0
    await house.drain("shop")
    again = RoomConfig(SHOP, "shop", "https://shop.example/")
    assert (await house.admin.create(again, gen=2, salt=SALT, actor="op")).code is WriteCode.CREATED
    await house.drain("shop")
    await directory.reload(SHOP)
    assert (await told(history))["rooms"] == {"shop": []}
