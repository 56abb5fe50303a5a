"""What an instance finds out about itself, on real stores."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError
from structlog.testing import capture_logs

from app.core import metrics
from app.core.clock import mono, raw_wall_ms, wall_ms
from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.core.runtime import Runtime
from app.core.settings import Settings
from app.domain.incidents import ORDER, Incident, Onsets, in_order
from app.domain.origins import parse_origin
from app.domain.room import RoomConfig
from app.domain.site_health import Knocked, SiteHealth
from app.domain.storage_state import StorageReport
from app.infrastructure import journal_size
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.fleet_records import FleetRecords, InstanceRecord
from app.infrastructure.journal_size import JournalSizes
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rate_limiter import InstanceNumbers, RateLimiter
from app.infrastructure.site_store import SiteStore
from app.infrastructure.store_trouble import Trouble
from app.services.capacity_watch import CapacityWatch
from app.services.instance_watch import ClockWatch, InstanceWatch
from app.services.origin_watch import LastMinute, Met, OriginWatch, of_fleet
from app.services.reduced import reduced_health
from app.services.sites import Sites
from app.services.standing import Standing, incidents_text, parse_incidents
from tests.admin.conftest import House, Process
from tests.journal.house import until

ACTOR = "test"


class Desk:
    """The watch of one instance over the rooms of a process."""

    def __init__(self, process: Process, house: House) -> None:
        self.house = house
        self.process = process
        self.table = RateLimiter.create("test", workers=1, max_keys=1000)
        self.limiter = RateLimiter.attach(self.table.name, 0)
        self.book = MetricBook.alone()
        settings = Settings(workers=1)
        self.runtime = runtime = Runtime(settings, "", "", "i:test", self.table.name, 1, 1, True)
        self.numbers = InstanceNumbers(self.table.name)
        self.standing = Standing(runtime=runtime, book=self.book, is_full=lambda: False)
        self.records = FleetRecords(house.valkey, house.prefix, runtime.run_name)
        self.sites = SiteStore(house.valkey, house.prefix, LuaLoader(house.valkey))
        self.watch = self.make_watch(self.standing)

    def make_watch(self, standing: Standing, capacity: CapacityWatch | None = None) -> InstanceWatch:
        """The watch as a process that was just started has it."""
        return InstanceWatch(
            runtime=self.runtime,
            book=self.book,
            valkey=self.house.valkey,
            records=self.records,
            rooms=self.process.rooms,
            engine=self.process.engine,
            sites=Sites(self.sites, every_ms=3_600_000, timeout_ms=5000),
            numbers=self.numbers,
            stand=standing.now,
            kids=("9f86d081",),
            capacity=capacity,
        )

    async def make(self, room_id: str, target: str) -> None:
        config = RoomConfig(RoomId(room_id), room_id.title(), target)
        await self.process.engine.create(config, gen=1, salt=bytes(16), actor=ACTOR)
        await self.process.rooms.reload(RoomId(room_id))

    async def knock(self, **sites: bool) -> None:
        """The leader's word about sites: host name → whether it answers."""
        now = await self.sites.now_ms()
        found = {}
        for name, is_up in sites.items():
            knock = Knocked(now, 5, 200 if is_up else 0, "" if is_up else "timeout")
            health = SiteHealth()
            for _ in range(3):
                health = health.after(knock)
            origin = parse_origin(f"https://{name}.example")
            assert origin is not None
            found[origin] = health
        await self.sites.put(1, found, by="i:leader")
        self.watch._sites._known.clear()  # type: ignore[attr-defined]  # read anew at the next look

    async def incidents(self) -> list[Incident]:
        await self.watch.look()
        return list(self.standing.now().incidents)


@pytest.fixture
async def desk(house: House, process: Process) -> AsyncIterator[Desk]:
    desk = Desk(process, house)
    yield desk
    desk.limiter.close()
    desk.table.close()


@pytest.mark.req("OBS-021", "OBS-044")
async def test_a_dead_site_is_an_incident_until_it_answers_and_takes_nobody_out_of_rotation(desk: Desk) -> None:
    await desk.make("shop", "https://shop.example/sale")
    await desk.knock(shop=False)

    (incident,) = await desk.incidents()
    (again,) = await desk.incidents()

    assert (incident.code, incident.severity, incident.room_id) == ("target_down", "warning", "shop")
    assert incident.text == "target down — Shop: timeout, seen by i:leader"
    assert again.since == incident.since
    stand = desk.standing.now()
    assert (stand.ready, stand.status, stand.degraded) == (True, "degraded", ("target_down",))
    await desk.knock(shop=True)
    assert await desk.incidents() == []
    assert desk.standing.now().status == "ok"


@pytest.mark.req("OBS-049")
@pytest.mark.parametrize(("down", "up", "is_doubted"), [(3, 3, True), (3, 4, False), (2, 0, False), (3, 0, True)])
async def test_many_dead_sites_at_once_cast_doubt_on_who_looks(
    desk: Desk, down: int, up: int, is_doubted: bool
) -> None:
    names = [f"site{number}" for number in range(down + up)]
    for name in names:
        await desk.make(name, f"https://{name}.example")
    await desk.knock(**{name: number >= down for number, name in enumerate(names)})

    found = await desk.incidents()

    assert len(found) == down
    assert all(("i:leader itself has no way out" in one.text) is is_doubted for one in found)


@pytest.mark.req("OBS-048", "OBS-044")
async def test_what_visitors_of_an_inline_room_meet_outweighs_a_good_knock(desk: Desk) -> None:
    config = RoomConfig(RoomId("shop"), "Shop", "https://shop.example", proxy_origin="https://10.0.0.7")
    await desk.process.engine.create(config, gen=1, salt=bytes(16), actor=ACTOR)
    await desk.process.rooms.reload(RoomId("shop"))
    assert await desk.incidents() == []
    desk.book.add(metrics.PROXY_GATED, "shop", number=9)
    desk.book.add(metrics.ORIGIN_ERRORS, "shop", "timeout", number=4)
    desk.book.add(metrics.CLIENT_ABORTS, "shop", number=40)
    assert await desk.incidents() == [], "four failures say nothing yet, and visitors who hang up none at all"
    desk.book.add(metrics.ORIGIN_ERRORS, "shop", "reset")

    (incident,) = await desk.incidents()

    assert (incident.code, incident.severity, incident.room_id) == ("origin_down", "critical", "shop")
    assert incident.text == "origin down — Shop: 5 of 9 requests failed in the last minute"
    assert desk.standing.now().ready
    desk.book.add(metrics.PROXY_BYPASSED, "shop", number=2)
    assert await desk.incidents() == [], "less than half"


@pytest.mark.req("OBS-021")
async def test_a_room_that_was_just_deleted_is_not_told_as_one_that_is_being_rebuilt(desk: Desk) -> None:
    for name in ("shop", "gone"):
        await desk.make(name, f"https://{name}.example")
    other = EngineAdmin(desk.house.valkey, desk.house.prefix, LuaLoader(desk.house.valkey))
    await other.delete(RoomId("gone"), actor=ACTOR)
    assert desk.process.rooms.get("gone") is not None, "this process has not heard of it"
    assert await desk.incidents() == []

    await desk.house.valkey.execute("DEL", RoomKeys(desk.house.prefix, RoomId("shop")).header)

    assert [(one.code, one.room_id) for one in await desk.incidents()] == [("room_recovering", "shop")]


async def test_what_other_instances_met_is_added_up(desk: Desk) -> None:
    now = await desk.records.now_ms()
    for name, seen_at in (("other", now), ("gone", now - 16_000)):
        record = InstanceRecord(
            name, name, "1", "kid", 1, ready=True, storage_ok=True, leader=False, seen_at=seen_at,
            figures={"origins": {"shop": [3, 4], "else": [1, 1]}},
        )  # fmt: skip
        await FleetRecords(desk.house.valkey, desk.house.prefix, name).put(record)

    assert of_fleet({"shop": Met(2, 6)}, (await desk.records.read()).live) == {"shop": Met(5, 10), "else": Met(1, 1)}


def test_a_room_that_was_there_before_the_watch_counts_from_then() -> None:
    now, book = 0.0, MetricBook.alone()
    watch = OriginWatch(book, steady=lambda: now)
    book.add(metrics.PROXY_GATED, "old", number=100)
    assert watch.look({"old"}) == {}
    book.add(metrics.PROXY_GATED, "old")
    book.add(metrics.PROXY_GATED, "new", number=3)
    book.add(metrics.ORIGIN_ERRORS, "new", "dns", number=2)
    assert watch.look({"old", "new"}) == {"old": Met(0, 1), "new": Met(2, 3)}
    now = 61.0
    watch.look({"old", "new"})
    now = 122.0
    assert watch.look({"old", "new"}) == {}


@pytest.mark.req("OBS-040", "FLT-047")
async def test_an_evicting_policy_is_told_with_its_name_but_not_to_strangers(desk: Desk, valkey_url: str) -> None:
    async with Redis.from_url(valkey_url) as client:
        await client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            await desk.watch.tell()
            (incident,) = await desk.incidents()
        finally:
            await client.config_set("maxmemory-policy", "noeviction")

    assert (incident.code, incident.severity, incident.room_id) == ("valkey_policy", "critical", None)
    assert incident.text == "Valkey maxmemory-policy is allkeys-lru; it must be noeviction"
    assert desk.book.text("valkey_policy") == "allkeys-lru"
    assert "allkeys-lru" not in json.dumps(reduced({"incidents": [incident.to_json()]}))
    await desk.watch.tell()
    assert await desk.incidents() == []


@pytest.mark.req("OBS-106", "OBS-021", "FLT-129")
async def test_a_jump_of_the_clock_is_counted_and_told_for_an_hour(desk: Desk) -> None:
    wall, steady = 1_800_000_000_000, 100.0
    watch = ClockWatch(desk.book, wall=lambda: wall, steady=lambda: steady)

    def after(wall_ms: int, sec: float) -> Incident | None:
        nonlocal wall, steady
        wall, steady = wall + wall_ms, steady + sec
        watch.look()
        return watch.incident()

    assert after(1000, 1.0) is None
    assert after(6000, 1.001) is None
    assert desk.book.total(metrics.CLOCK_JUMPS) == 0
    with capture_logs() as logs:
        back = after(-3_600_000, 1.0)
    assert [(one["event"], one["log_level"], one["ms"]) for one in logs] == [("clock_jumped", "warning", -3_601_000)]
    assert back is not None
    assert (back.code, back.text, back.since) == ("clock_jump", "the wall clock jumped 3601 s back", wall)
    assert after(3_599_999, 3599.999) is not None
    assert after(1, 0.001) is None
    ahead = after(8000, 1.0)
    assert ahead is not None
    assert ahead.text == "the wall clock jumped 7 s forward"
    assert desk.book.total(metrics.CLOCK_JUMPS) == 2

    desk.book.put(metrics.JUMP_AT, raw_wall_ms())
    (incident,) = await desk.incidents()
    stand = desk.standing.now()
    assert (incident.code, stand.status, stand.degraded) == ("clock_jump", "degraded", ("clock_jump",))
    assert stand.ready, "the probe still answers 200"


@pytest.mark.req("OBS-045")
def test_the_weightiest_incident_is_first() -> None:
    found = in_order([Incident(code, code) for code in reversed(ORDER)])

    assert [one.code for one in found] == [
        "origin_down", "storage_degraded", "valkey_down", "connector_locked", "joins_refused", "valkey_policy",
        "room_recovering", "fleet_below_min", "mesh", "target_down", "webhook_key_lost", "cpu_contention",
        "cpus_below_min", "clock_jump", "room_rebuilt",
    ]  # fmt: skip


def test_an_incident_keeps_the_time_it_began_until_it_is_over() -> None:
    onsets = Onsets()
    (first,) = onsets.dated([Incident("joins_refused", "a", "shop")], 1000)
    (second, other) = onsets.dated([Incident("joins_refused", "b", "shop"), Incident("joins_refused", "c", "x")], 2000)
    onsets.dated([], 3000)
    (anew,) = onsets.dated([Incident("joins_refused", "a", "shop")], 4000)

    assert [one.since for one in (first, second, other, anew)] == [1000, 1000, 2000, 4000]


async def test_every_process_tells_the_same_time_for_an_incident_and_so_does_a_successor(desk: Desk) -> None:
    """A web worker that was started later, and a watch that was started anew in the middle of it."""
    await desk.make("shop", "https://shop.example/")
    desk.book.put(metrics.LAST_ERROR_MS, int(mono() * 1000))
    await desk.knock(shop=False)
    first = await desk.incidents()
    wall = wall_ms()

    async def passes() -> bool:
        return wall_ms() > wall + 20

    await until(passes)
    late = Standing(runtime=desk.runtime, book=desk.book, is_full=lambda: False).now()
    watch = desk.make_watch(Standing(runtime=desk.runtime, book=desk.book, is_full=lambda: False))
    await watch.look()

    assert {one.code for one in first} == {"storage_degraded", "target_down"}
    assert list(late.incidents) == first
    assert list(desk.standing.now().incidents) == first
    desk.book.put(metrics.LAST_ERROR_MS, 0)
    await watch.look()
    assert desk.book.latest(metrics.STORAGE_BAD_SINCE) == 0


def test_incidents_that_do_not_fit_are_left_out() -> None:
    many = [Incident("room_recovering", "é" * 50, f"room-{number}", number) for number in range(100)]
    text = incidents_text(many, 5000)

    assert len(text.encode()) <= 5000
    assert list(parse_incidents(text)) == many[: len(parse_incidents(text))]
    assert len(parse_incidents(text)) > 30


@pytest.mark.req("OBS-041")
def test_a_monitor_link_reads_incidents_in_general_words() -> None:
    told = "Shop, 10.0.0.7, i:4f1c2a, allkeys-lru, connection refused"
    report = {
        "incidents": [Incident(code, f"{code} {told}", "shop", 7).to_json() for code in ORDER],
        "backend": {"valkey": "up", "maxmemoryPolicy": "allkeys-lru", "recoveringRoomIds": ["shop"]},
        "warnings": [told], "configWarnings": [told], "hardening": [told], "pid": 1, "instance": "i:4f1c2a",
        "mesh": {}, "webhooks": {}, "capacity": {},
    }  # fmt: skip

    shown = reduced(report)

    assert set(shown) == {"backend", "incidents"}
    assert shown["backend"] == {"valkey": "up"}
    assert [(one["code"], one["roomId"], one["since"]) for one in shown["incidents"]] == [(c, None, 7) for c in ORDER]
    assert not any(word in str(shown) for word in ("Shop", "shop", "10.0.0.7", "4f1c2a", "allkeys", "refused,"))


def reduced(report: dict[str, Any]) -> dict[str, Any]:
    return reduced_health({"backend": {}, **report})


async def test_it_tells_the_fleet_of_itself_and_of_those_that_fell_silent(desk: Desk) -> None:
    await desk.watch.tell()
    now = await desk.records.now_ms()
    for name, seen_at in (("silent", now - 15_001), ("forgotten", now - 600_001)):
        other = FleetRecords(desk.house.valkey, desk.house.prefix, name)
        await other.put(
            InstanceRecord(name, name, "1", "kid", 1, ready=True, storage_ok=True, leader=False, seen_at=seen_at)
        )

    fleet = await desk.records.read()

    (live,) = fleet.live
    assert (live.instance, live.kid, live.ready, live.leader) == ("i:test", "9f86d081", True, True)
    assert [one.instance for one in fleet.lost] == ["silent"]
    figures = live.figures
    assert (figures["isFull"], figures["undeclaredPeers"], figures["clockJumpAt"]) == (False, 0, None)
    await desk.records.leave()
    assert (await desk.records.read()).live == []


def test_growth_is_that_of_the_last_minute() -> None:
    times = iter([0.0, 30.0, 60.0, 90.0, 95.0, 200.0])
    minute = LastMinute(steady=lambda: next(times))

    assert [minute.saw(total) for total in (10, 15, 25, 26, 26, 26)] == [0, 5, 15, 11, 11, 0]


async def test_a_run_with_stores_of_its_own_takes_its_last_one_for_no_other_instance(desk: Desk) -> None:
    """After kill -9 the record of the last run is still there: nobody is lost."""
    now = await desk.records.now_ms()
    before = FleetRecords(desk.house.valkey, desk.house.prefix, "i:test.0")
    await before.put(InstanceRecord("i:test.0", "i:before", "1", "kid", 1, True, True, True, now - 16_000))
    await before.report_storage(StorageReport("i:before", now, is_well=True, is_raised=False))
    assert [one.instance for one in (await desk.records.read()).lost] == ["i:before"]

    await desk.watch.tell()

    fleet = await desk.records.read()
    assert ([one.instance for one in fleet.live], fleet.lost) == (["i:test"], [])
    assert await desk.records.storage_reports() == []


@pytest.mark.req("FLT-056")
async def test_the_incident_names_what_has_to_be_mended(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(desk.house.valkey), "shown_state", "down")
    desk.house.valkey._trouble = Trouble.CREDENTIALS
    (incident,) = await desk.incidents()
    assert (incident.code, incident.text) == (
        "valkey_down", "Valkey cannot be reached: it refuses the credentials",
    )  # fmt: skip

    desk.house.valkey._trouble = None
    (incident,) = await desk.incidents()
    assert incident.text == "Valkey cannot be reached"


@pytest.mark.req("FLT-045")
async def test_an_instance_that_writes_again_is_lost_no_more(desk: Desk) -> None:
    now = await desk.records.now_ms()

    async def tells(run: str, name: str, at: int) -> None:
        record = InstanceRecord(run, name, "1", "kid", 1, True, True, False, at)
        await FleetRecords(desk.house.valkey, desk.house.prefix, run).put(record)

    await tells("a.1", "i:a", now - 16_000)
    await tells("b.1", "i:b", now - 16_000)
    fleet = await desk.records.read()
    assert ({one.instance for one in fleet.lost}, fleet.live) == ({"i:a", "i:b"}, [])

    await tells("a.1", "i:a", now)
    await tells("b.2", "i:b", now)

    fleet = await desk.records.read()
    assert ([one.instance for one in fleet.live], fleet.lost) == (["i:a", "i:b"], [])


async def test_records_of_another_release_are_left_to_those_who_read_them(desk: Desk) -> None:
    await desk.watch.tell()
    key, reports = f"{desk.house.prefix}fleet", f"{desk.house.prefix}alerts:storage"
    (run,) = await desk.house.valkey.execute("HKEYS", key)
    told = json.loads(await desk.house.valkey.execute("HGET", key, run))
    await desk.house.valkey.execute("HSET", key, "more", json.dumps({**told, "instance": "i:more", "zone": "a"}))
    await desk.house.valkey.execute("HSET", key, "less", json.dumps({"instance": "i:less"}))
    await desk.house.valkey.execute("HSET", key, "old", json.dumps(["i:old", "1", "kid", 1]))
    await desk.house.valkey.execute("HSET", reports, "old", json.dumps(["i:old", 1, True]))

    fleet = await desk.records.read()

    assert [one.instance for one in fleet.live] == ["i:more", "i:test"]
    assert await desk.records.storage_reports() == []
    assert await desk.house.valkey.execute("HLEN", key) == 4


async def test_a_record_that_a_full_store_refuses_counts_as_not_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(commands: Any) -> list[Any]:
        return [OutOfMemoryError("command not allowed"), 1, 1]

    monkeypatch.setattr(desk.house.valkey, "pipeline", refused)

    with pytest.raises(StorageUnavailable):
        await desk.watch.tell()


@pytest.mark.req("OBS-194")
async def test_the_leader_tells_how_fast_the_journal_grows(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(journal_size, "mono", lambda: now)
    sizes = JournalSizes(desk.house.postgres, desk.house.valkey, desk.house.prefix)
    assert await sizes.read() == journal_size.JournalSize(None, None)
    await sizes.weigh()
    first = await sizes.read()
    assert first.database_bytes is not None
    assert first.database_bytes > 1_000_000
    assert first.rows_per_hour is None

    await desk.make("shop", "https://shop.example")
    await desk.process.engine.update(RoomId("shop"), {"rate_per_minute": 7}, actor=ACTOR)
    while len(await desk.house.journal()) < 2:
        pass
    now += 60
    await sizes.weigh()

    assert (await sizes.read()).rows_per_hour == 120
