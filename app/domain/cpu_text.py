"""What the kernel writes about CPUs, as numbers. Pure: texts come from infrastructure/cpu_files.py.

Each function gives None for a text that does not say it: what cannot be read is not known, and never 0 (BUD-056).
Sources: proc(5); kernel documentation, "Control Group v2" (cpu.max, cpu.stat), "CFS Bandwidth Control" (version 1),
"PSI - Pressure Stall Information".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_STEAL: Final = 7
"""Place of ``steal`` in a line of /proc/stat: user nice system idle iowait irq softirq steal guest guest_nice."""
_IDLE: Final = (3, 4)
_UNLIMITED: Final = "max"


@dataclass(frozen=True, slots=True)
class Machine:
    """CPU time of the machine since it started, in clock ticks over all its CPUs."""

    cpus: int
    total: int
    busy: int
    """Without what was idle, waited for a disk or was stolen."""
    steal: int | None
    """None where the kernel has no such number."""


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """CPU time of one process in clock ticks. ``started`` tells it from a later one of the same id."""

    name: str
    parent: int
    started: int
    ticks: int


@dataclass(frozen=True, slots=True)
class Throttle:
    """How often a CPU quota was looked at, and how often it held the group back."""

    periods: int
    throttled: int
    seconds: float
    """Time that was taken from the group's threads, added up."""


def machine(text: str) -> Machine | None:
    """``/proc/stat``."""
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    if not lines or lines[0][0] != "cpu":
        return None
    try:
        ticks = [int(word) for word in lines[0][1:]]
    except ValueError:
        return None
    own = ticks[: _STEAL + 1]  # guests are in user and nice already
    if len(own) <= max(_IDLE):
        return None
    steal = ticks[_STEAL] if len(ticks) > _STEAL else None
    busy = sum(own) - sum(own[at] for at in _IDLE) - (steal or 0)
    return Machine(max(1, len(lines) - 1), sum(own), busy, steal)


def process_time(text: str) -> ProcessTime | None:
    """``/proc/<pid>/stat``. The name stands in brackets and may hold any character, brackets too."""
    name, _, rest = text.partition("(")[2].rpartition(")")
    words = rest.split()
    try:
        return ProcessTime(name, int(words[1]), int(words[19]), int(words[11]) + int(words[12]))
    except (IndexError, ValueError):
        return None


def groups(text: str) -> tuple[str | None, str | None]:
    """``/proc/self/cgroup``: path of the group of version 2, and of the one that counts CPUs in version 1."""
    unified = old = None
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            unified = path
        elif "cpu" in controllers.split(","):
            old = path
    return unified, old


def quota(text: str) -> float | None:
    """``cpu.max`` of version 2: so many CPUs; None without a limit too."""
    words = text.split()
    return None if len(words) != 2 or words[0] == _UNLIMITED else quota_of(words[0], words[1])


def quota_of(quota_us: str, period_us: str) -> float | None:
    """``cpu.cfs_quota_us`` and ``cpu.cfs_period_us`` of version 1: so many CPUs; None without a limit (-1) too."""
    try:
        most, period = int(quota_us), int(period_us)
    except ValueError:
        return None
    return most / period if most > 0 and period > 0 else None


def throttle(text: str) -> Throttle | None:
    """``cpu.stat`` of either version; None for a group that can have no quota."""
    said = _pairs(text)
    if "nr_periods" not in said or "nr_throttled" not in said:
        return None
    seconds = said["throttled_usec"] / 1e6 if "throttled_usec" in said else said.get("throttled_time", 0) / 1e9
    return Throttle(said["nr_periods"], said["nr_throttled"], seconds)


def used_sec(text: str) -> float | None:
    """``cpu.stat`` of version 2: CPU seconds that the group has used."""
    micros = _pairs(text).get("usage_usec")
    return None if micros is None else micros / 1e6


def used_sec_of(text: str) -> float | None:
    """``cpuacct.usage`` of version 1: the same."""
    return int(text) / 1e9 if text.strip().isdecimal() else None


def pressure_sec(text: str) -> float | None:
    """``cpu.pressure`` or ``/proc/pressure/cpu``: seconds in which something that could run had to wait."""
    for line in text.splitlines():
        kind, *words = line.split()
        total = next((word.removeprefix("total=") for word in words if word.startswith("total=")), "")
        if kind == "some" and total.isdecimal():
            return int(total) / 1e6
    return None


def _pairs(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
