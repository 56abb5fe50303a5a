"""Finding the files of CPUs: containers of both versions of control groups, a bare machine, a system without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.domain.cpu_text import ProcessTime, Throttle
from app.infrastructure.cpu_files import CpuFiles
from tests.unit.test_cpu_text import PRESSURE, STAT, V1_STAT, V2_STAT

MAIN = 100


def write(root: Path, **texts: str) -> Path:
    """Files by path; ``__`` stands for a slash."""
    for name, text in texts.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def process(pid: int, parent: int, name: str, ticks: int) -> dict[str, str]:
    return {f"proc__{pid}__stat": f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {pid} 1 1"}


def files(root: Path, cores: int | None = 4) -> CpuFiles:
    return CpuFiles(MAIN, root=root, cores=lambda: cores)


@pytest.mark.req("BUD-056")
def test_of_a_container_of_version_2_it_reads_its_quota_and_what_that_took(tmp_path: Path) -> None:
    write(
        tmp_path, proc__stat=STAT, proc__self__cgroup="0::/\n", proc__pressure__cpu="some total=1\n",
        sys__fs__cgroup__cpu_DOT_max="150000 100000\n", sys__fs__cgroup__cpu_DOT_stat=V2_STAT,
        sys__fs__cgroup__cpu_DOT_pressure=PRESSURE,
    )  # fmt: skip
    found = files(tmp_path).read()
    assert (found.usable, found.quota, found.group_sec, found.throttle) == (1.5, 1.5, 2.5, Throttle(300, 45, 1.5))
    assert found.pressure_sec == 25.450043


@pytest.mark.req("BUD-056")
def test_the_tightest_quota_above_a_service_is_the_one_that_counts(tmp_path: Path) -> None:
    """A service of systemd: the group lies deeper, and a slice above it may be the one with the limit."""
    base = "sys__fs__cgroup__a_DOT_slice"
    write(
        tmp_path,
        **{
            "proc__self__cgroup": "0::/a.slice/qm.service\n",
            f"{base}__qm_DOT_service__cpu_DOT_max": "max 100000\n",
            f"{base}__qm_DOT_service__cpu_DOT_stat": "usage_usec 1\nnr_periods 0\nnr_throttled 0\n",
            f"{base}__cpu_DOT_max": "50000 100000\n",
            f"{base}__cpu_DOT_stat": V2_STAT,
            "sys__fs__cgroup__cpu_DOT_stat": "usage_usec 9\n",
        },
    )
    found = files(tmp_path).read()
    assert (found.usable, found.quota, found.throttle) == (0.5, 0.5, Throttle(300, 45, 1.5))


@pytest.mark.req("BUD-056")
@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
def test_of_a_container_of_version_1_it_reads_the_same(tmp_path: Path, folder: str) -> None:
    """Inside a container its own path is not there: the mount is the group."""
    base = f"sys__fs__cgroup__{folder}"
    usage = f"{base}__cpuacct_DOT_usage" if "," in folder else "sys__fs__cgroup__cpuacct__cpuacct_DOT_usage"
    write(
        tmp_path,
        **{
            "proc__self__cgroup": "5:cpu,cpuacct:/docker/ab\n",
            "proc__pressure__cpu": PRESSURE,
            f"{base}__cpu_DOT_cfs_quota_us": "200000\n",
            f"{base}__cpu_DOT_cfs_period_us": "100000\n",
            f"{base}__cpu_DOT_stat": V1_STAT,
            usage: "7500000000\n",
        },
    )
    found = files(tmp_path).read()
    assert (found.usable, found.quota, found.group_sec, found.throttle) == (2.0, 2.0, 7.5, Throttle(200, 10, 3.0))
    assert found.pressure_sec == 25.450043


@pytest.mark.req("BUD-056")
def test_a_quota_above_the_cores_limits_nothing(tmp_path: Path) -> None:
    write(
        tmp_path, proc__self__cgroup="0::/\n",
        sys__fs__cgroup__cpu_DOT_max="800000 100000\n", sys__fs__cgroup__cpu_DOT_stat=V2_STAT,
    )  # fmt: skip
    found = files(tmp_path, cores=4).read()
    assert (found.usable, found.quota) == (4.0, None)


@pytest.mark.req("BUD-056")
def test_what_a_system_does_not_tell_is_not_known(tmp_path: Path) -> None:
    found = files(tmp_path, cores=None).read()
    assert (found.usable, found.quota, found.machine, found.own, found.group_sec) == (None,) * 5
    assert (found.throttle, found.pressure_sec) == (None, None)


@pytest.mark.req("BUD-056")
def test_own_processes_are_main_and_all_that_it_and_its_children_started(tmp_path: Path) -> None:
    write(
        tmp_path, **process(MAIN, 1, "python", 5), **process(101, MAIN, "qm-web", 50),
        **process(102, MAIN, "postgres", 7), **process(103, 102, "postgres", 9), **process(200, 1, "cron", 999),
    )  # fmt: skip
    assert files(tmp_path).read().own == {
        MAIN: ProcessTime("python", 1, MAIN, 5),
        101: ProcessTime("qm-web", MAIN, 101, 50),
        102: ProcessTime("postgres", MAIN, 102, 7),
        103: ProcessTime("postgres", 102, 103, 9),
    }


@pytest.mark.req("BUD-056")
@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="this system has no /proc")
def test_this_machine_tells_of_itself() -> None:
    found = CpuFiles(os.getpid()).read()
    assert found.usable is not None
    assert 0 < found.usable <= len(os.sched_getaffinity(0))
    assert found.machine is not None
    assert found.own is not None
    assert os.getpid() in found.own
