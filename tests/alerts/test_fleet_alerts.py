"""Conditions of instances and of the fleet, made to happen: by real watches of instances over real stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.core import metrics
from app.core.clock import wall_ms
from app.core.errors import StorageUnavailable
from app.core.secret import Secret
from app.domain.client_address import Client, Note
from app.domain.origins import Origin
from app.domain.site_health import Knocked, SiteHealth
from app.domain.storage_state import StorageReport, Unready
from app.domain.tokens import Cause
from app.infrastructure.admin_store import AdminStore
from app.infrastructure.fleet_records import FleetRecords, InstanceRecord
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rate_limiter import InstanceNumbers, RateLimiter
from app.services import instance_watch
from app.services.connector_keys import ConnectorKeys
from app.services.edge_watch import EdgeWatch
from app.services.instance_watch import InstanceWatch
from app.services.lockout import Lockout
from app.services.origin_watch import Met
from app.services.storage_watch import StorageWatch
from app.services.visitor_counts import VisitorCounts
from tests.alerts.conftest import Watch
from tests.journal.house import until

HOLD = 120


class Instance:
    """One instance of the fleet: its counters, its watch, its record."""

    def __init__(self, watch: Watch, table: str, name: str, book: MetricBook | None = None, **settings: Any) -> None:
        self.watch = watch
        self.book = book or MetricBook.alone()
        self.records = FleetRecords(watch.valkey, watch.prefix, f"{name}.1")
        self.steady = 0.0
        chosen = SimpleNamespace(max_connections=2, connector_ips=("192.0.2.1/32",), **settings)
        runtime: Any = SimpleNamespace(
            instance_id=name, run_name=f"{name}.1", started_at=1, is_leader=False, is_private=False, settings=chosen
        )
        stand: Any = SimpleNamespace(ready=True, storage_ok=True, is_stopping=False)
        nobody: Any = SimpleNamespace(all=list)
        self.self = InstanceWatch(
            runtime=runtime, book=self.book, valkey=watch.valkey, records=self.records, rooms=nobody,
            engine=watch.world.admin, sites=nobody, numbers=InstanceNumbers(table), stand=lambda: stand, kids=("k",),
        )  # fmt: skip

    async def tell(self) -> None:
        """Write the record, and look what the leader makes of it."""
        await self.self.tell()
        await self.watch.frame()


@pytest.fixture
def limiter() -> Iterator[RateLimiter]:
    table = RateLimiter.create(workers=1, max_keys=1000)
    made = RateLimiter.attach(table.name, 0)
    made.table_name = table.name  # type: ignore[attr-defined]
    yield made
    made.close()
    table.close()


@pytest.fixture
async def one(watch: Watch, limiter: RateLimiter) -> Instance:
    """An instance that has told of itself, and a leader that has looked."""
    made = Instance(watch, limiter.table_name, "i:one", watch.book)  # type: ignore[attr-defined]
    await made.tell()
    assert await watch.pending() == []
    return made


async def assert_told(
    watch: Watch, event: str, severity: str, message: str, instances: list[str] | None, *, hold: int = HOLD
) -> None:
    """It fires after its hold and not before."""
    if hold:
        assert (await watch.pending(), await watch.firing()) == ([event], [])
        await watch.hold(hold - 10)
        assert await watch.firing() == []
        await watch.hold(10)
    assert await watch.firing() == [event]
    (notice,) = await watch.receiver.came(1)
    assert (notice["event"], notice["severity"], notice["roomId"]) == (event, severity, None)
    assert notice.get("instances") == instances
    assert notice["message"].startswith(message), notice["message"]


async def assert_resolved(watch: Watch, event: str) -> None:
    await watch.frame(after_sec=10)
    assert [(n["event"], n["status"]) for n in await watch.receiver.came(2)] == [(event, "firing"), (event, "resolved")]
    assert await watch.firing() == []


class Journal:
    """A journal that takes commits or does not."""

    def __init__(self) -> None:
        self.is_well = True

    async def probe(self) -> None:
        if not self.is_well:
            raise StorageUnavailable from OSError("disk full")


def storage(watch: Watch, name: str, journal: Journal, *, is_private: bool = False) -> StorageWatch:
    return StorageWatch(
        book=MetricBook.alone(), probe=journal.probe, records=FleetRecords(watch.valkey, watch.prefix, f"{name}.1"),
        instance=name, every_ms=500, is_private=is_private,
    )  # fmt: skip


@pytest.mark.req("OBS-125", "OBS-148", "OBS-113")
async def test_it_tells_at_once_of_storage_that_fails_anywhere_until_it_is_well_everywhere(watch: Watch) -> None:
    journals = Journal(), Journal()
    watches = storage(watch, "i:a", journals[0]), storage(watch, "i:b", journals[1])

    async def frames() -> None:
        for each in watches:
            await each.frame()
        await watch.frame(after_sec=10)

    await frames()
    journals[1].is_well = False
    await frames()
    assert (await watch.pending(), await watch.firing()) == ([], []), "one frame that failed is none"
    await frames()
    await assert_told(
        watch, "storage_failing", "critical", "the journal takes no commits on i:b: OSError: disk full", ["i:b"], hold=0
    )

    await frames()
    assert await watch.firing() == ["storage_failing"]
    journals[1].is_well = True
    await frames()
    assert len(watch.receiver.bodies) == 1, "two frames in the window saw failures"

    async def is_over() -> bool:
        await frames()
        return await watch.firing() == []

    await until(is_over)
    assert [n["status"] for n in await watch.receiver.came(2)] == ["firing", "resolved"]


@pytest.mark.req("OBS-148")
async def test_it_neither_resolves_nor_fires_storage_by_words_that_are_too_old(watch: Watch) -> None:
    now = await watch.records.now_ms()
    await watch.records.report_storage(StorageReport("i:a", now, False, True, "gone"))
    await watch.frame(after_sec=10)
    await watch.receiver.came(1)
    await watch.records.report_storage(StorageReport("i:a", now - 31_000, True, False))
    await watch.frame(after_sec=10)
    assert await watch.firing() == ["storage_failing"]

    await watch.records.report_storage(StorageReport("i:a", now, False, False))
    await watch.frame(after_sec=10)
    assert await watch.firing() == ["storage_failing"], "not well yet"
    await watch.records.report_storage(StorageReport("i:a", now, True, False))
    await watch.frame(after_sec=10)
    assert await watch.firing() == []


async def test_it_hears_of_storage_where_the_stores_are_the_instance_s_own(watch: Watch) -> None:
    journal = Journal()
    alone = storage(watch, "i:one", journal, is_private=True)
    journal.is_well = False
    for _ in range(2):
        await alone.frame()
    await watch.frame()
    assert await watch.firing() == ["storage_failing"]


@pytest.mark.req("FLT-058")
async def test_whoever_never_reached_postgres_is_not_ready_while_another_writes(watch: Watch) -> None:
    """So a rolling deploy stops at the first instance that has no way to Postgres; alone it stays in rotation."""
    never, well = Journal(), Journal()
    never.is_well = False
    late, other = storage(watch, "i:late", never), storage(watch, "i:other", well)
    await late.frame()
    assert late._book.latest(metrics.UNREADY) == Unready.NO, "nobody has said that it writes"

    async def heard() -> bool:
        await other.frame()  # once more in the same ms as the trouble says nothing of it
        await late.frame()
        return late._book.latest(metrics.UNREADY) == Unready.ALONE

    await until(heard)
    assert other._book.latest(metrics.UNREADY) == Unready.NO
    never.is_well = True
    await late.frame()
    assert late._book.latest(metrics.UNREADY) == Unready.NO


@pytest.mark.req("OBS-019")
async def test_a_word_from_before_the_trouble_counts_for_nothing_though_valkey_was_away_when_it_began(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    journals = Journal(), Journal()
    here, there = storage(watch, "i:a", journals[0]), storage(watch, "i:b", journals[1])
    await here.frame()
    await there.frame()

    async def away() -> int:
        raise StorageUnavailable

    journals[0].is_well = journals[1].is_well = False  # the database of both
    with monkeypatch.context() as patch:
        patch.setattr(here._records, "now_ms", away)
        await here.frame()
    await here.frame()
    assert Unready(here._book.latest(metrics.UNREADY)) is Unready.NO, "i:b was well before it began"

    journals[1].is_well = True

    async def is_alone() -> bool:
        await there.frame()
        await here.frame()
        return here._book.latest(metrics.UNREADY) == Unready.ALONE

    await until(is_alone)


@pytest.mark.req("OBS-129")
async def test_it_tells_of_a_clock_that_jumped(watch: Watch, one: Instance) -> None:
    now = await watch.records.now_ms()
    one.book.put(metrics.JUMP_AT, now)
    one.book.put(metrics.JUMP_MS, -7000)
    await one.tell()

    await assert_told(watch, "clock_jump", "warning", "the wall clock of i:one jumped 7 s back", ["i:one"])

    one.book.put(metrics.JUMP_AT, now - 3_600_001)
    await one.self.tell()
    await assert_resolved(watch, "clock_jump")


@pytest.mark.req("OBS-129")
@pytest.mark.parametrize("off_ms", [-86_400_000, 86_400_000])
async def test_it_tells_of_a_clock_that_jumped_far_for_an_hour_whatever_it_shows_now(
    watch: Watch, one: Instance, monkeypatch: pytest.MonkeyPatch, off_ms: int
) -> None:
    monkeypatch.setattr(instance_watch, "raw_wall_ms", lambda: int(wall_ms()) + off_ms)
    one.book.put(metrics.JUMP_MS, off_ms)
    shown = int(wall_ms()) + off_ms
    one.book.put(metrics.JUMP_AT, shown - 60_000)
    await one.tell()
    assert await watch.pending() == ["clock_jump"]

    one.book.put(metrics.JUMP_AT, shown - 3_601_000)
    await one.tell()
    assert await watch.pending() == []


@pytest.mark.req("OBS-130")
async def test_it_tells_of_an_instance_that_holds_as_many_connections_as_it_may(
    watch: Watch, one: Instance, limiter: RateLimiter
) -> None:
    for key in (b"a", b"b"):
        assert limiter.gauge_enter("connections", key, per_key=0, in_all=2).entered
    await one.tell()

    await assert_told(
        watch,
        "connection_limit",
        "critical",
        "i:one holds as many connections as MAX_CONNECTIONS (2) allows",
        ["i:one"],
    )

    limiter.gauge_leave("connections", b"a")
    await one.self.tell()
    await assert_resolved(watch, "connection_limit")


@pytest.mark.req("OBS-131")
async def test_it_tells_of_a_proxy_that_nobody_declared(watch: Watch, one: Instance, limiter: RateLimiter) -> None:
    limiter.lists["undeclared"].note(bytes(12) + bytes([10, 0, 0, 7]))
    await one.tell()

    await assert_told(
        watch, "proxy_undeclared", "warning", "i:one sees forwarding headers from a proxy that is not in", ["i:one"]
    )
    assert "10.0.0.7" not in watch.receiver.notices[0]["text"]


@pytest.mark.req("OBS-132")
async def test_it_tells_that_edge_and_secret_do_not_agree(
    watch: Watch, one: Instance, limiter: RateLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.instance_watch.mono", lambda: one.steady)
    silent: Any = SimpleNamespace(saw=lambda client: None)
    edge = EdgeWatch(limiter, SimpleNamespace(edge_secret=()), silent)  # type: ignore[arg-type]

    def refuse(number: int, peer: int) -> None:
        packed = bytes(15) + bytes([peer])
        for _ in range(number):
            edge.saw(Client("10.0.0.1", packed, packed, "10.0.0.1", "", False, "http", "h", Note.NOT_BY_EDGE))

    refuse(19, 1)
    await one.tell()
    assert await watch.pending() == []
    refuse(1, 2)
    one.book.add(metrics.HTTP_REQUESTS, "/api/check", "2xx", number=21)
    await one.tell()
    assert await watch.pending() == [], "most requests come through the edge"
    refuse(1, 2)
    await one.tell()

    await assert_told(
        watch, "edge_mismatch", "critical",
        "i:one refused 21 requests in the last minute for X-QM-Edge, from 2 addresses", ["i:one"],
    )  # fmt: skip

    one.self._minutes.clear()
    await one.self.tell()
    await assert_resolved(watch, "edge_mismatch")


@pytest.mark.req("OBS-128")
async def test_it_tells_that_many_visitor_tokens_are_refused(watch: Watch, one: Instance, limiter: RateLimiter) -> None:
    counts = VisitorCounts(None, one.book, limiter.lists["bad_tokens"])

    def refuse(number: int, cause: Cause, peer: int) -> None:
        for _ in range(number):
            counts.rejected_token("shop", cause, bytes(15) + bytes([peer]))

    refuse(19, Cause.BAD_SIGNATURE, 1)
    one.book.add(metrics.TOKENS_PRESENTED, number=200)
    await one.tell()
    assert await watch.pending() == [], "fewer than twenty"
    refuse(1, Cause.EXPIRED, 2)
    one.book.add(metrics.TOKENS_PRESENTED, number=1)
    await one.tell()
    assert await watch.pending() == [], "less than a tenth"
    refuse(1, Cause.EXPIRED, 2)
    await one.tell()

    await assert_told(
        watch, "tokens_rejected", "critical",
        "21 of 201 visitor tokens were refused in a minute, from 2 addresses (bad_signature 19, expired 2)", None,
    )  # fmt: skip

    one.self._minutes.clear()
    await one.self.tell()
    await watch.frame(after_sec=10)
    assert await watch.firing() == ["tokens_rejected"], "some minute of the last ten"
    await watch.give_up()
    await watch.begin(holder="i:two")
    await watch.frame(after_sec=10)
    assert await watch.firing() == ["tokens_rejected"], "the next leader knows of that minute"
    fleet = watch.duty._sight._fleet  # type: ignore[attr-defined]
    fleet.tokens = replace(fleet.tokens, at=fleet.tokens.at - 600_000)
    await assert_resolved(watch, "tokens_rejected")


@pytest.mark.req("OBS-133")
async def test_it_tells_of_a_valkey_that_may_evict(watch: Watch, one: Instance) -> None:
    await watch.valkey.execute("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        await one.tell()
    finally:
        await watch.valkey.execute("CONFIG", "SET", "maxmemory-policy", "noeviction")

    await assert_told(watch, "valkey_policy", "critical", "Valkey's maxmemory-policy is allkeys-lru", None)

    await one.self.tell()
    await assert_resolved(watch, "valkey_policy")


@pytest.mark.req("OBS-134")
async def test_it_tells_of_a_valkey_that_is_nearly_full(watch: Watch, one: Instance) -> None:
    used = int((await watch.valkey.execute("INFO", "memory")).decode().split("used_memory:")[1].split("\r")[0])
    await watch.valkey.execute("CONFIG", "SET", "maxmemory", int(used / 0.95))
    try:
        await one.tell()
    finally:
        await watch.valkey.execute("CONFIG", "SET", "maxmemory", 0)

    await assert_told(watch, "valkey_memory", "warning", "Valkey uses 9", None)

    await one.self.tell()
    await assert_resolved(watch, "valkey_memory")


@pytest.mark.req("OBS-135")
@pytest.mark.req("FLT-045")
async def test_it_tells_of_an_instance_that_fell_silent_and_not_of_one_that_stopped(
    watch: Watch, one: Instance, limiter: RateLimiter
) -> None:
    now = await watch.records.now_ms()

    async def told_of(name: str, at: int) -> FleetRecords:
        records = FleetRecords(watch.valkey, watch.prefix, f"{name}.1")
        await records.put(InstanceRecord(f"{name}.1", name, "1", "k", 1, True, True, False, at))
        return records

    stopped = await told_of("i:stopped", now - 16_000)
    await stopped.leave()
    await told_of("i:slow", now - 14_000)
    await one.tell()
    assert await watch.pending() == []
    await told_of("i:killed", now - 20_000)
    await one.tell()

    await assert_told(watch, "instance_lost", "warning", "i:killed stopped telling of itself", ["i:killed"])

    await told_of("i:killed", now - 600_001)
    await assert_resolved(watch, "instance_lost")


@pytest.mark.req("OBS-114", "OBS-141", "OBS-149")
async def test_it_holds_one_alert_that_names_every_instance_of_the_same_trouble(
    watch: Watch, one: Instance, limiter: RateLimiter
) -> None:
    two = Instance(watch, limiter.table_name, "i:two")  # type: ignore[attr-defined]
    for each in (one, two):
        each.book.put(metrics.JUMP_AT, await watch.records.now_ms())
        each.book.put(metrics.JUMP_MS, 7000)
        await each.self.tell()
    await watch.frame()

    await assert_told(watch, "clock_jump", "warning", "the wall clock of i:one, i:two jumped", ["i:one", "i:two"])


@pytest.mark.req("OBS-189", "CFG-231", "OBS-113")
async def test_it_tells_at_once_of_a_connector_that_is_locked_out(
    watch: Watch, one: Instance, limiter: RateLimiter
) -> None:
    lockout = Lockout(AdminStore(watch.valkey, watch.prefix), limiter, limit=3)
    keys = ConnectorKeys(admin_key=Secret("a" * 16), public_key=Secret("p" * 16), lockout=lockout)

    def client(last: int) -> Client:
        packed = bytes(10) + b"\xff\xff" + bytes([198, 51, 100, last])
        return Client(f"198.51.100.{last}", packed, packed, "10.0.0.1", "", False, "http", "h", Note.NONE)

    async def send(last: int, key: str, times: int = 1) -> list[bool]:
        return [await keys.is_connector(client(last), f"Bearer {key}") for _ in range(times)]

    assert await send(1, "p" * 16) == [True]
    assert await send(2, "wrong", 4) == [False] * 4
    await one.tell()
    assert await watch.firing() == [], "a stranger is locked"
    assert await send(1, "wrong", 3) == [False] * 3
    await one.tell()

    assert await watch.firing() == ["connector_locked"]
    (notice,) = await watch.receiver.came(1)
    assert (notice["severity"], notice["instances"]) == ("critical", ["i:one"])
    assert "lets visitors through unqueued" in notice["message"]
    assert notice["message"].endswith("QM_CONNECTOR_IPS=192.0.2.1/32,198.51.100.1")
    incident = one.self._shut_out()
    assert incident is not None
    assert (incident.code, incident.text) == ("connector_locked", notice["message"])
    limiter.lists["locked_connectors"]._words[limiter.lists["locked_connectors"]._own] = 1
    assert one.self._locked_connectors() == [], "a minute after the last key it is told no more"
    assert await send(1, "p" * 16) == [False]


@pytest.mark.req("OBS-121", "OBS-048")
async def test_it_tells_that_the_site_behind_an_inline_room_fails_its_visitors(
    watch: Watch, one: Instance, limiter: RateLimiter
) -> None:
    two = Instance(watch, limiter.table_name, "i:two")  # type: ignore[attr-defined]
    await watch.create()
    await watch.change(proxy_origin="https://shop.example")

    async def met(failed: int, proxied: int) -> None:
        """Half of it on each instance, roughly."""
        one.self._met = {"shop": Met(failed // 2, proxied // 2)}
        two.self._met = {"shop": Met(failed - failed // 2, proxied - proxied // 2)}
        await two.self.tell()
        await one.tell()

    for few in ((4, 4), (6, 13)):
        await met(*few)
        assert await watch.pending() == [], few
    await met(6, 12)
    assert await watch.pending() == ["origin_down"]
    await watch.hold(120)
    (notice,) = await watch.receiver.came(1)
    assert (notice["event"], notice["severity"], notice["roomId"]) == ("origin_down", "critical", "shop")
    assert notice["message"] == "Shop: 6 of 12 requests failed at the site behind the room in the last minute"

    await met(0, 12)
    await watch.frame(after_sec=10)
    assert [n["status"] for n in await watch.receiver.came(2)] == ["firing", "resolved"]
    down = SiteHealth()
    for _ in range(3):
        down = down.after(Knocked(await watch.sites.now_ms(), 9, 0, "connect"))
    await watch.sites.put(watch.term.epoch, {Origin("https", "shop.example", 443): down}, by="i:one")
    watch.duty._sight._rooms._sites._known.clear()  # type: ignore[attr-defined]
    await watch.frame()
    assert await watch.pending() == ["origin_down"], "by the knocks, where visitors say nothing"
