"""Reading what the kernel writes about CPUs: each text of a table, and what none of them says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.domain import cpu_text
from app.domain.cpu_text import Machine, ProcessTime, Throttle

STAT = """cpu  100 10 50 800 20 3 7 10 5 1
cpu0 50 5 25 400 10 1 3 5 2 0
cpu1 50 5 25 400 10 2 4 5 3 1
intr 12345
btime 1730000000
"""
V2_STAT = """usage_usec 2500000
user_usec 2000000
system_usec 500000
nr_periods 300
nr_throttled 45
throttled_usec 1500000
"""
V1_STAT = "nr_periods 200\nnr_throttled 10\nthrottled_time 3000000000\n"
PRESSURE = "some avg10=13.10 avg60=10.70 avg300=9.72 total=25450043\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"


@pytest.mark.req("BUD-056")
@pytest.mark.parametrize(
    ("read", "text", "found"),
    [
        (cpu_text.machine, STAT, Machine(2, 1000, 170, 10)),
        (cpu_text.machine, "cpu  1 2 3 4 5 6 7\n", Machine(1, 28, 19, None)),
        (cpu_text.machine, "", None),
        (cpu_text.machine, "cpu0 1 2 3 4 5 6 7 8\n", None),
        (cpu_text.machine, "cpu  1 2 3\n", None),
        (cpu_text.machine, "cpu  a b c d e f\n", None),
        (cpu_text.quota, "150000 100000\n", 1.5),
        (cpu_text.quota, "max 100000\n", None),
        (cpu_text.quota, "", None),
        (cpu_text.quota, "100000\n", None),
        (cpu_text.quota, "x 100000\n", None),
        (cpu_text.throttle, V2_STAT, Throttle(300, 45, 1.5)),
        (cpu_text.throttle, V1_STAT, Throttle(200, 10, 3.0)),
        (cpu_text.throttle, "usage_usec 1\nuser_usec 1\nsystem_usec 0\n", None),
        (cpu_text.throttle, "", None),
        (cpu_text.used_sec, V2_STAT, 2.5),
        (cpu_text.used_sec, V1_STAT, None),
        (cpu_text.used_sec_of, "7500000000\n", 7.5),
        (cpu_text.used_sec_of, "", None),
        (cpu_text.pressure_sec, PRESSURE, 25.450043),
        (cpu_text.pressure_sec, "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n", None),
        (cpu_text.pressure_sec, "", None),
        (cpu_text.groups, "0::/system.slice/qm.service\n", ("/system.slice/qm.service", None)),
        (cpu_text.groups, "5:cpu,cpuacct:/docker/ab\n4:memory:/x\n0::/\n", ("/", "/docker/ab")),
        (cpu_text.groups, "2:cpuacct:/a\n1:cpu:/b\n", (None, "/b")),
        (cpu_text.groups, "", (None, None)),
    ],
)
def test_it_reads_what_is_said_and_makes_up_nothing(read: Callable[[str], Any], text: str, found: object) -> None:
    assert read(text) == found


@pytest.mark.req("BUD-056")
@pytest.mark.parametrize(
    ("quota", "period", "cpus"),
    [("200000", "100000", 2.0), ("-1", "100000", None), ("50000", "0", None), ("", "100000", None), ("1", "", None)],
)
def test_it_reads_a_quota_of_version_1(quota: str, period: str, cpus: float | None) -> None:
    assert cpu_text.quota_of(quota, period) == cpus


@pytest.mark.req("BUD-056")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "4711 (qm-web) S 4700 1 1 0 -1 4194560 1 0 0 0 150 50 9 9 20 0 1 0 9876 1 1",
            ProcessTime("qm-web", 4700, 9876, 200),
        ),
        ("7 (a) b) c) R 1 1 1 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 55 1 1", ProcessTime("a) b) c", 1, 55, 3)),
        ("", None),
        ("7 (short) R 1 1", None),
    ],
)
def test_it_reads_the_time_of_a_process_whatever_its_name(text: str, found: ProcessTime | None) -> None:
    assert cpu_text.process_time(text) == found
