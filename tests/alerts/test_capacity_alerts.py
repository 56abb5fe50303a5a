"""Alerts of CPU and capacity: by the records that instances leave, and by what the deployment was declared to need."""

from __future__ import annotations

from typing import Any

import pytest

from app.infrastructure.fleet_records import FleetRecords, InstanceRecord
from tests.alerts.conftest import Watch
from tests.alerts.test_fleet_alerts import assert_resolved, assert_told

REASON = "callers give up while a single instance restarts"


async def tells(watch: Watch, name: str, *, ago_sec: int = 0, **figures: Any) -> None:
    """An instance leaves its record; ``ago_sec``: seconds since then."""
    records = FleetRecords(watch.valkey, watch.prefix, f"{name}.1")
    seen_at = await watch.records.now_ms() - ago_sec * 1000
    await records.put(InstanceRecord(f"{name}.1", name, "1", "k", 1, True, True, False, seen_at, figures))


async def test_it_tells_of_an_instance_that_lacks_cpu(watch: Watch) -> None:
    """As a warning: there is no ``budget_missed`` yet that would make it worse, and no timeline to mark."""
    sentence = "CPU contention on i:a: a process that is not Queue Manager uses 93 % of this machine"
    await tells(watch, "i:a", cpuContention=sentence)
    await tells(watch, "i:b", cpuContention=None)
    await watch.frame()

    await assert_told(watch, "cpu_contention", "warning", sentence, ["i:a"])

    await tells(watch, "i:a", cpuContention=None)
    await assert_resolved(watch, "cpu_contention")


@pytest.mark.req("BUD-065")
async def test_it_tells_of_instances_that_may_use_fewer_cpus_than_declared(watch: Watch) -> None:
    """One alert for all of them, which says so."""
    for name in ("i:a", "i:b"):
        sentence = f"{name} may use 1 of the 2 CPUs that INSTANCE_MIN_CPUS declares"
        await tells(watch, name, cpusShort=sentence)
    await watch.frame()

    message = "i:a may use 1 of the 2 CPUs that INSTANCE_MIN_CPUS declares (and on 1 more)"
    await assert_told(watch, "cpus_below_min", "critical", message, ["i:a", "i:b"])

    for name in ("i:a", "i:b"):
        await tells(watch, name)
    await assert_resolved(watch, "cpus_below_min")


@pytest.mark.req("BUD-063", "BUD-067")
async def test_it_tells_of_fewer_instances_than_declared(watch: Watch) -> None:
    await watch.begin(fleet_min_instances=2, fleet_min_reason=REASON)
    await tells(watch, "i:a")
    await tells(watch, "i:b")
    await watch.frame()
    assert await watch.pending() == []
    await tells(watch, "i:b", stopping=True)
    await watch.frame()

    await assert_told(watch, "fleet_below_min", "critical", f"1 of 2 instances; do not lower this: {REASON}", None)

    await tells(watch, "i:c")
    await assert_resolved(watch, "fleet_below_min")


@pytest.mark.req("BUD-063", "BUD-068")
async def test_an_instance_counts_while_it_is_there_and_answers_visitors(watch: Watch) -> None:
    await watch.begin(fleet_min_instances=2)
    await tells(watch, "i:a")
    cases: list[tuple[int, dict[str, Any], bool]] = [
        (16, {}, True),
        (0, {"role": "web"}, False),
        (0, {"role": "worker"}, True),
        (0, {}, False),
        (0, {"stopping": True}, True),
    ]
    record = InstanceRecord("i:b.1", "i:b", "1", "k", 1, True, True, False, 1_000_000)
    assert (record.is_live(1_015_000), record.is_live(1_015_001)) == (True, False)
    for ago_sec, figures, is_short in cases:
        await tells(watch, "i:b", ago_sec=ago_sec, **figures)
        await watch.frame()
        assert ("fleet_below_min" in await watch.pending()) is is_short, (ago_sec, figures)


@pytest.mark.req("BUD-063")
async def test_of_a_number_that_nobody_declared_there_is_no_alert(watch: Watch) -> None:
    await tells(watch, "i:a")
    await watch.frame()
    assert await watch.pending() == []
