"""Hours of rooms in Postgres: exact, complete, and there after the live store or the room is gone."""

from __future__ import annotations

import asyncio

import pytest

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.hour_record import HOUR_MS, HourRecord
from app.domain.layout import pack_header, unpack_header
from app.infrastructure.hour_store import HourStore, LiveHours, RoomHour
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.valkey import Valkey
from app.services.hour_keeper import HourKeeper
from app.services.leadership import Term, TermOver
from app.services.rooms import RoomService
from tests.journal.house import House, until
from tests.leader.conftest import lease_of

SHOP, SALE = RoomId("shop"), RoomId("sale")
EVER = (0, 2**31 - 1)


@pytest.fixture
def store(house: House) -> HourStore:
    return HourStore(house.postgres)


@pytest.fixture
def keeper(house: House, directory: RoomDirectory, store: HourStore) -> HourKeeper:
    return HourKeeper(rooms=directory, live=LiveHours(house.prefix, LuaLoader(house.valkey)), store=store)


async def next_hour(house: House, room: str = SHOP) -> None:
    """Let the room's clock run to the beginning of the next hour."""
    key = RoomKeys(house.prefix, room).header
    header = unpack_header(await house.valkey.execute("GET", key))
    step = HOUR_MS - header["wall"] % HOUR_MS
    for name in ("offset", "last_time", "mono"):
        header[name] += step
    await house.valkey.execute("SET", key, pack_header(header))
    await house.jobs.tick(RoomId(room))


async def joins(house: House, count: int, room: str = SHOP) -> None:
    for who in range(count):
        await house.join(room, (room, who))
    await house.jobs.tick(RoomId(room))


def counted(hours: list[RoomHour]) -> list[tuple[str, int, int]]:
    return [(hour.room_id, hour.record.hour, hour.record.joins) for hour in hours]


async def test_it_keeps_every_hour_of_every_room_and_reads_them_again(
    house: House, keeper: HourKeeper, store: HourStore
) -> None:
    await house.create("shop")
    await house.create("sale")
    await joins(house, 0)
    await next_hour(house)
    await joins(house, 3)
    await house.admin.flush(SHOP, actor="op")
    await house.jobs.tick(SHOP)
    await next_hour(house)
    await joins(house, 2)
    await joins(house, 1, "sale")
    live = await LiveHours(house.prefix, LuaLoader(house.valkey)).read([SHOP, SALE], {})
    running = live[SHOP][0].record.hour

    await keeper.keep([SHOP, SALE])
    kept = await store.read(*EVER)

    assert [(hour, number) for room, hour, number in counted(kept) if room == "shop"] == [
        (running - 2, 0), (running - 1, 3), (running, 2),
    ]  # fmt: skip
    assert [number for room, _, number in counted(kept) if room == "sale"] == [1]
    by_hour = {(one.room_id, one.record.hour): one.record for one in kept}
    for one in (hour for hours in live.values() for hour in hours):
        again = by_hour[one.room_id, one.record.hour]
        assert [getattr(again, name) for name in HourRecord.__slots__ if name != "covered_ms"] == [
            getattr(one.record, name) for name in HourRecord.__slots__ if name != "covered_ms"
        ]
    assert by_hour["shop", running - 1].waits == len(by_hour["shop", running - 1].kept) == 3
    assert [one.record.hour for one in await store.read(running - 1, running)] == [running - 1]
    assert counted(await store.read(*EVER, ["sale"])) == [one for one in counted(kept) if one[0] == "sale"]


async def test_it_writes_what_is_new_and_drops_from_the_live_store_what_is_kept_and_old(
    house: House, keeper: HourKeeper, store: HourStore
) -> None:
    await house.create("shop")
    await joins(house, 1)
    await keeper.keep([SHOP])
    await house.postgres.execute("UPDATE room_hours SET warned = 7")
    await keeper.keep([SHOP])
    untouched = await store.read(*EVER)
    await joins(house, 1)
    await keeper.keep([SHOP])
    renewed = await store.read(*EVER)
    for _ in range(3):
        await next_hour(house)
    past = RoomKeys(house.prefix, "shop").past_hours(1)
    assert await house.valkey.execute("HLEN", past) == 3

    await keeper.keep([SHOP])
    await keeper.keep([SHOP])

    assert [hour.record.warned for hour in untouched] == [7], "an idle minute is not written"
    assert [(hour.record.warned, hour.record.joins) for hour in renewed] == [(0, 2)]
    assert await house.valkey.execute("HLEN", past) == 1, "the hour before the running one stays"
    assert len(await store.read(*EVER)) == 4
    assert (await store.read(*EVER))[0].record.covered_ms > renewed[0].record.covered_ms


async def test_it_adds_up_over_a_loss_of_the_live_store(house: House, keeper: HourKeeper, store: HourStore) -> None:
    await house.create("shop")
    await joins(house, 3)
    await keeper.keep([SHOP])
    await house.drain("shop")
    await house.lose_everything()
    assert await house.recovery.ensure(SHOP)
    await house.read("shop")
    await house.join("shop", "late")
    await house.jobs.tick(SHOP)

    await keeper.keep([SHOP])

    hours = await store.read(*EVER)
    assert len({hour.record.since for hour in hours}) == len(hours) == 2
    assert sum(hour.record.joins for hour in hours) == 4


async def test_it_never_lets_a_record_that_knows_less_replace_one(house: House, store: HourStore) -> None:
    def hour(covered: int, joins: int) -> RoomHour:
        return RoomHour("shop", 1, HourRecord(500_000, 1, covered, joins, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ()))

    await store.keep([hour(2000, 20)])
    await store.keep([hour(1000, 10)])
    await store.keep([])

    assert [one.record.joins for one in await store.read(*EVER)] == [20]


async def test_it_keeps_the_last_hour_of_a_room_that_is_deleted(
    house: House, directory: RoomDirectory, keeper: HourKeeper, store: HourStore
) -> None:
    await house.start_drainer()
    await house.create("shop")
    await directory.reload(SHOP)
    await joins(house, 2)
    service = RoomService(engine=house.admin, rooms=directory, commits=house.commits, keep_hours=keeper.keep_last)

    await service.delete("shop", actor="op")

    assert [number for _, _, number in counted(await store.read(*EVER))] == [2]
    keys = RoomKeys(house.prefix, "shop")
    assert await house.valkey.execute("EXISTS", keys.hour(1), keys.past_hours(1)) == 0


async def test_it_is_a_duty_of_the_leader(
    house: House, directory: RoomDirectory, keeper: HourKeeper, store: HourStore
) -> None:
    await house.create("shop")
    await directory.reload(SHOP)
    await joins(house, 1)
    lease = lease_of(house, "one", ms=60_000)
    assert await lease.take()
    work = asyncio.ensure_future(keeper.run(Term(lease)))

    async def is_kept() -> bool:
        return bool(await store.read(*EVER))

    await until(is_kept)
    work.cancel()
    await joins(house, 1)
    await keeper.keep_all(Term(lease))
    assert [number for _, _, number in counted(await store.read(*EVER))] == [2], "the unfinished hour, at a stop"
    await lease.give()
    with pytest.raises(TermOver):
        await keeper.run(Term(lease))


@pytest.mark.req("FLT-117", "FLT-118", "FLT-119")
async def test_a_new_leader_goes_on_with_the_unfinished_hour_and_writes_none_that_it_cannot_read(
    house: House, directory: RoomDirectory, store: HourStore
) -> None:
    """After a kill the counts are those of the live store: nothing but what came after its last moment is missing."""
    await house.create("shop")
    await directory.reload(SHOP)
    await joins(house, 3)
    live = LiveHours(house.prefix, LuaLoader(house.valkey))
    await HourKeeper(rooms=directory, live=live, store=store).keep([SHOP])
    await house.join("shop", "after the last look of the leader that was killed")

    away = Valkey("unix:///nonexistent.sock", timeout_ms=200)
    blind = HourKeeper(rooms=directory, live=LiveHours(house.prefix, LuaLoader(away)), store=store)
    with pytest.raises(StorageUnavailable):
        await blind.keep([SHOP])
    assert [number for _, _, number in counted(await store.read(*EVER))] == [3], "what is there stays"
    await HourKeeper(rooms=directory, live=live, store=store).keep([SHOP])

    assert [number for _, _, number in counted(await store.read(*EVER))] == [4], "one row, which goes on"
    await away.close()
