"""Reports over real stores: the running hour, hours of rooms that are gone, crashes, and files."""

from __future__ import annotations

import asyncio
import csv
import io
from typing import Any

import pytest

from app.core.clock import wall_ms
from app.core.errors import BadRequest, StorageUnavailable
from app.core.ids import RoomId
from app.domain.hour_record import HOUR_MS, HourRecord
from app.domain.layout import pack_header, unpack_header
from app.domain.report import COLUMNS
from app.infrastructure.hour_store import HourStore, LiveHours, RoomHour
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.postgres import Postgres
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.valkey import Valkey
from app.services.hour_keeper import HourKeeper
from app.services.leadership import Term, TermOver
from app.services.old_hours import OldHours
from app.services.reports import ROWS_MAX, RangeTooLarge, Reports, report_query
from tests.journal.house import House, until
from tests.leader.conftest import lease_of
from tests.leader.test_hours import joins, next_hour

SHOP = RoomId("shop")
DAY = 24 * HOUR_MS


def record(hour: int, since: int = 0, **more: int) -> HourRecord:
    numbers = dict.fromkeys(("joins", "passes", "peak_depth", "peak_active", "samples", "depth_sum"), 0)
    others = {"blocked": 0, "warned": 0, "waits": 0, "wait_sum_ms": 0, "wait_max_ms": 0}
    whole: dict[str, Any] = {"covered_ms": HOUR_MS, "since": since or hour * HOUR_MS, **numbers, **others, **more}
    return HourRecord(hour=hour, kept=(), **whole)


@pytest.fixture
def reports(house: House, directory: RoomDirectory) -> Reports:
    live = LiveHours(house.prefix, LuaLoader(house.valkey))
    return Reports(rooms=directory, live=live, store=HourStore(house.postgres))


async def rows(reports: Reports, *parameters: tuple[str, str]) -> list[dict[str, Any]]:
    found = (await reports.json(report_query(parameters, int(wall_ms()))))["rows"]
    assert isinstance(found, list)
    return found


@pytest.mark.req("OBS-169", "ADM-279", "OBS-171")
async def test_it_includes_what_the_running_hour_has_counted_so_far(
    house: House, directory: RoomDirectory, reports: Reports
) -> None:
    await house.create("shop", rate_per_minute=60_000)
    await directory.reload(SHOP)
    await joins(house, 3)
    await house.jobs.tick(SHOP)
    await house.drain("shop")

    found = await rows(reports)

    assert sum(row["joins"] for row in found) == 3
    assert not any(row["partial"] for row in found)
    assert {row["roomId"] for row in found} == {"shop"}
    assert found[-1]["start"] == int(wall_ms()) // HOUR_MS * HOUR_MS or len(found) == 1
    kept = (await LiveHours(house.prefix, LuaLoader(house.valkey)).read([SHOP], {}))[SHOP]
    await HourStore(house.postgres).keep(kept)
    await joins(house, 2)
    await house.jobs.tick(SHOP)
    assert sum(row["joins"] for row in await rows(reports)) == 5, "whatever was kept of the hour before"


@pytest.mark.req("ADM-280")
@pytest.mark.parametrize(("bucket", "hours"), [("hour", 24), ("day", 720)])
def test_it_begins_a_day_or_thirty_days_before_its_end(bucket: str, hours: int) -> None:
    now = 480_000 * HOUR_MS + 5

    until_now = report_query([("bucket", bucket)], now)
    until_then = report_query([("bucket", bucket), ("to", str(now - 7))], now)

    assert ROWS_MAX == 10_000
    assert (until_now.start, until_now.end) == (now - hours * HOUR_MS, now)
    assert (until_then.start, until_then.end) == (now - 7 - hours * HOUR_MS, now - 7)


@pytest.mark.req("OBS-160", "OBS-161", "ADM-276", "ADM-280")
async def test_it_gives_one_row_for_a_room_and_an_hour_or_a_day(house: House, reports: Reports) -> None:
    store, first = HourStore(house.postgres), 480_000  # 2024-10-04, a midnight
    await store.keep(
        [RoomHour(room, 1, record(first + n, joins=n)) for room in ("b", "Z", "a") for n in range(30)]
        + [RoomHour("a", 1, record(first + 29, since=(first + 29) * HOUR_MS + 5, joins=100))]
    )
    start, end = str(first * HOUR_MS), str((first + 30) * HOUR_MS)

    hours = await rows(reports, ("from", start), ("to", end))
    days = await rows(reports, ("bucket", "day"), ("from", "2024-10-04"), ("to", "2024-10-05T06:00"))
    some = await rows(reports, ("from", start), ("to", end), ("roomId", "a"), ("roomId", "none"), ("roomId", "Z"))

    assert [row["roomId"] for row in hours] == ["Z"] * 30 + ["a"] * 30 + ["b"] * 30
    assert [row["joins"] for row in hours[30:60]] == [*range(29), 129]
    assert [row["start"] for row in hours[:2]] == [first * HOUR_MS, (first + 1) * HOUR_MS]
    assert [(row["roomId"], row["joins"]) for row in days[2:4]] == [
        ("a", sum(range(24))),
        ("a", sum(range(24, 30)) + 100),
    ]
    assert [row["startIso"] for row in days[2:4]] == ["2024-10-04T00:00:00.000Z", "2024-10-05T00:00:00.000Z"]
    assert {row["roomId"] for row in some} == {"a", "Z"}
    assert await rows(reports, ("from", start), ("to", str(first * HOUR_MS + 1)), ("roomId", "a")) == hours[30:31]
    assert await rows(reports) == [], "the last 24 hours"


@pytest.mark.req("OBS-162", "ADM-276", "ADM-280")
async def test_it_refuses_what_it_cannot_give(house: House, reports: Reports) -> None:
    for parameters, code in (
        ([("bucket", "week")], "invalid_bucket"), ([("format", "xlsx")], "invalid_format"),
        ([("from", "yesterday")], "invalid_time"), ([("to", "99999999999999999999")], "invalid_time"),
        ([("from", "2026-08-02"), ("to", "2026-08-01")], "invalid_range"),
        ([("from", "5"), ("to", "5")], "invalid_range"), ([("room", "shop")], "unknown_field"),
    ):  # fmt: skip
        with pytest.raises(BadRequest) as caught:
            report_query(parameters, 1_800_000_000_000)
        assert caught.value.code == code
        assert parameters[0][0] in caught.value.sentence
    hours = [RoomHour("shop", 1, record(400_000 + n)) for n in range(ROWS_MAX + 1)]
    await HourStore(house.postgres).keep(hours)
    long = [("from", str(400_000 * HOUR_MS)), ("to", str((400_000 + ROWS_MAX + 1) * HOUR_MS))]

    with pytest.raises(RangeTooLarge):
        await rows(reports, *long)
    pieces = [piece async for piece in reports.csv(report_query(long, int(wall_ms())))]
    assert len(pieces) == ROWS_MAX + 2, "a file has no limit"


@pytest.mark.req("OBS-173", "ADM-277")
async def test_it_writes_a_file_that_no_spreadsheet_takes_for_formulas(house: House, reports: Reports) -> None:
    evil = '=cmd|"/c calc"!A1'
    await HourStore(house.postgres).keep(
        [RoomHour(evil, 1, record(480_000, joins=1, passes=4)), RoomHour("shop", 1, record(480_000, covered_ms=60_000))]
    )
    query = report_query(
        [("from", "2024-10-04T00:00Z"), ("to", "2024-10-04T02:00:00+01:00"), ("format", "csv")], int(wall_ms())
    )

    text = "".join([piece async for piece in reports.csv(query)])

    assert text.splitlines()[0] == ",".join(COLUMNS)
    assert text.count("\r\n") == 3 == text.count("\n")
    read = list(csv.DictReader(io.StringIO(text)))
    assert read[0]["roomId"] == "'" + evil
    assert (read[0]["netUnserved"], read[0]["partial"], read[0]["waitP50Sec"]) == ("-3", "false", "")
    assert query.file_name == "queue-report-hour-20241004T0000Z-20241004T0100Z.csv"


@pytest.mark.req("OBS-162", "OBS-168")
async def test_rows_of_a_room_that_is_gone_stay_and_miss_nothing(
    house: House, directory: RoomDirectory, reports: Reports
) -> None:
    await house.create("shop", rate_per_minute=60)
    await directory.reload(SHOP)
    await joins(house, 2)
    await house.jobs.tick(SHOP)
    keeper = HourKeeper(
        rooms=directory, live=LiveHours(house.prefix, LuaLoader(house.valkey)), store=HourStore(house.postgres)
    )
    await keeper.keep_last(SHOP)
    await house.admin.delete(SHOP, actor="op")
    await house.drain("shop")
    await directory.reload(SHOP)

    found = await rows(reports)

    assert sum(row["joins"] for row in found) == 2
    assert [row["partial"] for row in found] == [False] * len(found)


@pytest.mark.req("OBS-167", "OBS-169", "FLT-119")
async def test_time_in_which_nothing_ran_is_missing_and_told(house: House, directory: RoomDirectory) -> None:
    await house.create("shop", rate_per_minute=60)
    await directory.reload(SHOP)
    await house.drain("shop")
    await next_hour(house)
    await joins(house, 2)
    await house.jobs.tick(SHOP)
    key = RoomKeys(house.prefix, SHOP).header
    header = unpack_header(await house.valkey.execute("GET", key))
    header["offset"] += 1_200_000  # twenty minutes in which no process ran
    await house.valkey.execute("SET", key, pack_header(header))
    await house.jobs.tick(SHOP)
    now = int(unpack_header(await house.valkey.execute("GET", key))["wall"])
    live = LiveHours(house.prefix, LuaLoader(house.valkey))
    reports = Reports(rooms=directory, live=live, store=HourStore(house.postgres), now=lambda: now)

    last = (await reports.json(report_query([], now)))["rows"][-1]

    assert last["start"] == now // HOUR_MS * HOUR_MS
    assert (last["partial"], last["netUnserved"], last["joins"]) == (True, None, 2)
    assert 1190 <= last["missingSec"] <= 1200
    assert last["coveredSec"] + last["missingSec"] == pytest.approx(now % HOUR_MS / 1000, abs=1)


@pytest.mark.req("OBS-163", "ADM-279", "ADM-282")
@pytest.mark.req("FLT-079")
async def test_it_needs_postgres_and_does_without_valkey(
    house: House, directory: RoomDirectory, reports: Reports
) -> None:
    await house.create("shop")
    await directory.reload(SHOP)
    await HourStore(house.postgres).keep([RoomHour("shop", 1, record(480_000, joins=7))])
    away, gone = Valkey("unix:///nonexistent.sock"), Postgres("postgresql:///x?host=/nonexistent", max_size=1)
    start = ("from", "2024-10-04")
    without_valkey = Reports(
        rooms=directory, live=LiveHours(house.prefix, LuaLoader(away)), store=HourStore(house.postgres)
    )
    without_postgres = Reports(
        rooms=directory, live=LiveHours(house.prefix, LuaLoader(house.valkey)), store=HourStore(gone)
    )

    assert (await rows(without_valkey, start))[0]["joins"] == 7
    with pytest.raises(StorageUnavailable):
        await rows(without_postgres, start)
    pieces = without_postgres.csv(report_query([start], int(wall_ms())))
    await anext(pieces)
    with pytest.raises(StorageUnavailable):
        await anext(pieces)
    await away.close()
    await gone.close()


@pytest.mark.req("CFG-046", "FLT-117")
async def test_the_leader_deletes_rows_that_are_too_old(house: House) -> None:
    store, now = HourStore(house.postgres), int(wall_ms()) // HOUR_MS
    hours = [*range(now - 1500, now - 47), now - 1]
    await store.keep([RoomHour("shop", 1, record(hour)) for hour in hours])
    lease = lease_of(house, "one", ms=60_000)
    assert await lease.take()
    work = asyncio.ensure_future(OldHours(store, days=2).run(Term(lease)))

    async def is_done() -> bool:
        return len(await store.read(0, 2**31 - 1)) <= 3

    await until(is_done)
    work.cancel()
    assert [one.record.hour for one in await store.read(0, 2**31 - 1)] == [now - 48, now - 1]
    await lease.give()
    with pytest.raises(TermOver):
        await OldHours(store, days=2).run(Term(lease))
