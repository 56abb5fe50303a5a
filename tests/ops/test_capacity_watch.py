"""CPU and capacity as an instance finds them, on real stores, with readings of the test's own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.core import metrics
from app.core.runtime import Runtime
from app.core.settings_rules import load
from app.domain.capacity import Declared
from app.domain.cpu_text import Machine, ProcessTime
from app.domain.cpu_use import CpuReading
from app.infrastructure.fleet_records import FleetRecords, InstanceRecord
from app.services.capacity_watch import CapacityWatch
from app.services.contention import contention_since, is_contended
from app.services.cpu_watch import CpuShown, CpuWatch
from app.services.health_of_capacity import HealthOfCapacity
from app.services.instances import Instances
from app.services.loop_meter import web_process
from app.services.stop_guard import StopGuard
from tests.admin.conftest import House, Process
from tests.ops.test_instance_watch import Desk

REASON = "callers give up while a single instance restarts"


class Machinery:
    """An instance whose machine does what the test says."""

    def __init__(self, desk: Desk, **env: str) -> None:
        self.desk = desk
        loaded = load({"QM_WORKERS": "1", **env})
        plain = desk.runtime
        self.runtime = Runtime(loaded.settings, "", "", "i:test", desk.table.name, 1, 1, True, given=loaded.given)
        assert self.runtime.run_name == plain.run_name
        self.reading = CpuReading(
            at=0.0, usable=2.0, machine=Machine(2, 0, 0, 0), own={1: ProcessTime("qm-web", 0, 1, 0)}
        )
        self.wall = 1_730_000_000_000
        self.begin()

    def begin(self) -> None:
        """As the process that watches has it when it was just started."""
        self.cpu = CpuWatch(
            runtime=self.runtime, book=self.desk.book, read=lambda: self.reading, ticks_a_sec=100,
            now=lambda: self.wall,
        )  # fmt: skip
        self.capacity = CapacityWatch(runtime=self.runtime, book=self.desk.book, cpu=self.cpu)
        self.desk.watch = self.desk.make_watch(self.desk.standing, self.capacity)

    async def window(self, lag_ms: float, *, busy: float = 0.0) -> None:
        """Five seconds in which the loop of the web worker was so late, and others used a part of the machine."""
        machine = self.reading.machine
        assert machine is not None
        at = self.reading.at + 5
        more = replace(machine, total=machine.total + 1000, busy=machine.busy + int(1000 * busy))
        self.reading = replace(self.reading, at=at, machine=more)
        self.wall += 5000
        self.desk.book.put(metrics.LOOP_P99, int(lag_ms * 1000), web_process(0))
        self.desk.book.put(metrics.LOOP_BEAT, int(at * 1000), web_process(0))
        await self.cpu.look()

    async def found(self) -> dict[str, str]:
        """Incidents of the instance: code → text."""
        return {one.code: one.text for one in await self.desk.incidents()}

    async def other(self, name: str, **figures: Any) -> None:
        """Another instance is there."""
        house = self.desk.house
        records = FleetRecords(house.valkey, house.prefix, f"{name}.1")
        now = await records.now_ms()
        await records.put(InstanceRecord(f"{name}.1", name, "1", "k", 1, True, True, False, now, figures))

    async def health(self) -> HealthOfCapacity:
        return HealthOfCapacity(runtime=self.runtime, book=self.desk.book)


@pytest.fixture
async def desk(house: House, process: Process) -> AsyncIterator[Desk]:
    desk = Desk(process, house)
    yield desk
    desk.limiter.close()
    desk.table.close()


@pytest.mark.req("BUD-057", "BUD-059", "BUD-061", "OBS-005", "OBS-012", "OBS-044")
async def test_contention_is_an_incident_as_long_as_it_lasts_and_takes_nobody_out_of_rotation(desk: Desk) -> None:
    """Whoever burns the CPU beside the server is seen within 15 s here; a real one burns in the slow form."""
    machinery = Machinery(desk, LOOP_LAG_WARN_MS="80")
    for _ in range(2):
        await machinery.window(120, busy=0.93)
    assert await machinery.found() == {}
    assert not is_contended(desk.book)

    await machinery.window(120, busy=0.93)

    text = (
        "CPU contention on i:test: a process that is not Queue Manager uses 93 % of this machine; loops of web workers "
        "are up to 120 ms late"
    )
    assert await machinery.found() == {"cpu_contention": text}
    stand = desk.standing.now()
    assert (stand.ready, stand.status, stand.degraded) == (True, "degraded", ("cpu_contention",))
    assert stand.incidents[0].severity == "warning"
    assert is_contended(desk.book)
    assert contention_since(desk.book) == stand.incidents[0].since == machinery.wall
    assert machinery.capacity.figures()["cpuContention"] == text
    block = (await machinery.health()).cpu_block()
    assert block == {
        "usable": 2, "self": 0.0, "host": 0.93, "steal": 0.0, "throttled": None, "pressure": None,
        "loopLagP99Ms": 120, "contention": True, "who": "a process that is not Queue Manager uses 93 % of this machine",
    }  # fmt: skip

    machinery.begin()  # the watching process was started again
    for _ in range(11):
        await machinery.window(80)
        assert is_contended(desk.book), "as late as may be is not too late, but 60 s have to pass"
    with capture_logs() as lines:
        for _ in range(2):
            await machinery.window(80)
    assert [line["event"] for line in lines] == ["cpu_contention_ended"]
    assert await machinery.found() == {}
    assert not is_contended(desk.book)
    assert (await machinery.health()).cpu_block()["who"] is None


@pytest.mark.req("BUD-056")
async def test_what_cannot_be_read_is_null(desk: Desk) -> None:
    machinery = Machinery(desk)
    machinery.reading = CpuReading(at=5.0)
    block = (await machinery.health()).cpu_block()
    assert block == {**dict.fromkeys(block), "contention": False}, "nobody has looked yet"
    await machinery.cpu.look()
    machinery.reading = CpuReading(at=10.0)
    await machinery.cpu.look()
    assert (await machinery.health()).cpu_block() == block
    assert CpuShown.of(desk.book) == CpuShown()


@pytest.mark.req("BUD-063", "BUD-067", "BUD-068", "OBS-005")
async def test_fewer_instances_than_declared_are_an_incident_and_a_warning_with_the_reason(desk: Desk) -> None:
    machinery = Machinery(desk, FLEET_MIN_INSTANCES="2", FLEET_MIN_REASON=REASON)
    instances = Instances(desk.records, None)  # type: ignore[arg-type]
    await desk.watch.tell()
    text = f"1 of 2 instances; do not lower this: {REASON}"
    assert await machinery.found() == {"fleet_below_min": text}
    assert desk.standing.now().ready
    health = await machinery.health()
    assert health.sentences(await instances.read()) == [text]
    assert health.capacity_block(instances.last) == {
        "instancesDeclared": 2, "instances": 1, "cpusDeclared": None, "cpusUsable": None, "reason": REASON,
    }  # fmt: skip

    await machinery.other("i:worker", role="worker")
    await machinery.other("i:leaving", stopping=True)
    await desk.watch.tell()
    assert list(await machinery.found()) == ["fleet_below_min"]
    await machinery.other("i:two", role="web")
    await desk.watch.tell()
    assert await machinery.found() == {}
    assert health.sentences(await instances.read()) == []
    assert health.capacity_block(instances.last)["instances"] == 2


@pytest.mark.req("BUD-063")
async def test_of_a_default_nobody_is_told(desk: Desk) -> None:
    machinery = Machinery(desk)
    machinery.runtime = replace(machinery.runtime, settings=replace(machinery.runtime.settings, fleet_min_instances=2))
    machinery.begin()
    await desk.watch.tell()
    assert await machinery.found() == {}


@pytest.mark.req("BUD-065", "OBS-005")
async def test_an_instance_that_is_smaller_than_declared_warns(desk: Desk) -> None:
    machinery = Machinery(desk, INSTANCE_MIN_CPUS="3")
    await machinery.window(1)
    text = "i:test may use 2 of the 3 CPUs that INSTANCE_MIN_CPUS declares"
    assert await machinery.found() == {"cpus_below_min": text}
    assert desk.standing.now().ready
    assert machinery.capacity.figures()["cpusShort"] == text
    health = await machinery.health()
    assert health.sentences(None) == [text]
    assert (health.capacity_block(None)["cpusDeclared"], health.capacity_block(None)["cpusUsable"]) == (3, 2)
    machinery.reading = replace(machinery.reading, usable=3.0)
    await machinery.window(1)
    assert await machinery.found() == {}
    assert health.sentences(None) == []


@pytest.mark.req("BUD-069")
async def test_no_instance_is_shut_down_whose_place_nobody_takes(desk: Desk) -> None:
    machinery = Machinery(desk, FLEET_MIN_INSTANCES="2", FLEET_MIN_REASON=REASON)
    guard = StopGuard(machinery.runtime, Instances(desk.records, None))  # type: ignore[arg-type]
    await desk.watch.tell()
    assert await guard.refusal() == f"0 of 2 instances; do not lower this: {REASON}"
    for env in ({"FLEET_MIN_INSTANCES": "1"}, {}):
        other = StopGuard(Machinery(desk, **env).runtime, Instances(desk.records, None))  # type: ignore[arg-type]
        assert await other.refusal() is None, env
    await machinery.other("i:two")
    await machinery.other("i:worker", role="worker")
    await machinery.other("i:leaving", stopping=True)
    assert await guard.refusal() == f"1 of 2 instances; do not lower this: {REASON}"
    await machinery.other("i:three")
    assert await guard.refusal() is None


@pytest.mark.req("BUD-069")
async def test_a_signal_is_obeyed_and_logged_with_the_same_sentence(desk: Desk) -> None:
    machinery = Machinery(desk, FLEET_MIN_INSTANCES="2", FLEET_MIN_REASON=REASON)
    await desk.watch.tell()
    await machinery.other("i:two")
    await desk.watch.tell()
    with capture_logs() as lines:
        machinery.capacity.tell_stop()
    (line,) = lines
    assert (line["log_level"], line["event"]) == ("warning", "stopped_below_fleet_minimum")
    assert line["what"] == f"1 of 2 instances; do not lower this: {REASON}"
    await machinery.other("i:three")
    await desk.watch.tell()
    with capture_logs() as lines:
        machinery.capacity.tell_stop()
    assert lines == []


@pytest.mark.req("BUD-068")
async def test_a_stop_is_in_the_record_as_soon_as_it_begins(desk: Desk) -> None:
    machinery = Machinery(desk)
    await desk.watch.look()
    (record,) = (await desk.records.read()).live
    assert not record.is_stopping
    desk.runtime.stopping.set()
    await desk.watch.look()
    (record,) = (await desk.records.read()).live
    assert record.is_stopping
    assert json.loads(record.to_text())["figures"]["stopping"] is True
    assert machinery.runtime.run_name == record.run


@pytest.mark.req("BUD-062", "BUD-063", "BUD-103", "BUD-104", "BUD-105", "BUD-107")
@pytest.mark.parametrize(
    ("env", "instances", "is_set", "lag_ms"),
    [
        ({}, 1, False, 50),
        ({"QM_ENV": "test"}, 1, False, 50),
        ({"FLEET_MIN_INSTANCES": "5", "LOOP_LAG_WARN_MS": "4"}, 5, True, 5),
        ({"FLEET_MIN_INSTANCES": "1001", "LOOP_LAG_WARN_MS": "5001"}, 1000, True, 5000),
        ({"FLEET_MIN_INSTANCES": "0"}, 1, True, 50),
        ({"FLEET_MIN_INSTANCES": "two"}, 1, False, 50),
    ],
)
def test_the_settings_have_their_bounds(env: dict[str, str], instances: int, is_set: bool, lag_ms: int) -> None:
    loaded = load(env)
    declared = Declared.of(loaded.settings, loaded.given)
    assert (declared.instances, declared.is_set, declared.reason, declared.cpus) == (instances, is_set, None, None)
    assert loaded.settings.loop_lag_warn_ms == lag_ms


@pytest.mark.req("BUD-062", "BUD-064", "BUD-103", "BUD-104", "BUD-105")
def test_production_needs_two_unless_it_says_otherwise_and_one_is_a_risk() -> None:
    production = {
        "QM_ENV": "production", "STORE": "valkey", "SIDESTORE": "pg", "VALKEY_URL": "redis://valkey:6379/0",
        "DATABASE_URL": "postgresql://qm:pass@postgres/qm", "SECRET": "s" * 64, "ADMIN_KEY": "a" * 32,
    }  # fmt: skip
    risk = "FLEET_MIN_INSTANCES is 1: one instance is one deploy away from a closed door"
    plain, spoiled = load(production), load({**production, "FLEET_MIN_INSTANCES": "two"})
    assert (plain.settings.fleet_min_instances, spoiled.settings.fleet_min_instances) == (2, 2)
    assert risk not in plain.hardening
    one = load({**production, "FLEET_MIN_INSTANCES": "1"})
    assert one.settings.fleet_min_instances == 1
    assert risk in one.hardening
    assert [warning for warning in one.warnings if warning.variable == "FLEET_MIN_INSTANCES"] == []
    assert risk not in load({"FLEET_MIN_INSTANCES": "1"}).hardening

    long = load({"FLEET_MIN_REASON": "x" * 201, "INSTANCE_MIN_CPUS": "257"})
    assert long.settings.fleet_min_reason == "x" * 200
    assert long.settings.instance_min_cpus == 256
    (cut,) = [warning for warning in long.warnings if warning.variable == "FLEET_MIN_REASON"]
    assert (cut.code, cut.using) == ("out_of_bounds", "x" * 200)
    assert "is longer than 200 characters" in cut.message
    assert [load({"INSTANCE_MIN_CPUS": text}).settings.instance_min_cpus for text in ("0", "-1", "two")] == [
        1, None, None,
    ]  # fmt: skip
