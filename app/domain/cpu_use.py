"""How much CPU was used between two readings, by whom, and how much of it was taken away. Pure.

Shares are parts of 1; what could not be read is None. Not here: reading (infrastructure/cpu_files.py), what becomes of
it (contention.py). Source: BUD-056, BUD-059, BUD-102.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from app.domain.cpu_text import Machine, ProcessTime, Throttle

WEB: Final = "web"
HEAVY: Final = "heavy"
REST: Final = "rest"
OTHER: Final = "other"
_KINDS: Final = {"qm-web": WEB, "qm-jobs": HEAVY, "qm-heavy": HEAVY}
"""Names of processes of an instance; all others of it are REST."""
_DIGITS: Final = 3


@dataclass(frozen=True, slots=True)
class CpuReading:
    """The counters at one moment."""

    at: float
    """Seconds of a clock that is never set."""
    usable: float | None = None
    """CPUs that this instance may really use: cores that it may run on, and what a quota leaves of them."""
    quota: float | None = None
    """CPUs that a quota leaves; None without one."""
    machine: Machine | None = None
    own: Mapping[int, ProcessTime] | None = None
    """This instance's processes, private stores included, by process id."""
    group_sec: float | None = None
    """CPU seconds used in the container."""
    throttle: Throttle | None = None
    pressure_sec: float | None = None


@dataclass(frozen=True, slots=True)
class CpuUse:
    """What happened between two readings."""

    usable: float | None = None
    own: float | None = None
    """Part of the usable CPUs that this instance's processes used."""
    host: float | None = None
    """Part of all CPUs of the machine that was used; with a quota, part of what that leaves, used in the container."""
    steal: float | None = None
    throttled: float | None = None
    """Part of the periods in which the quota held the container back."""
    pressure: float | None = None
    """Part of the time in which something that could run had to wait."""
    has_quota: bool = False
    users: Mapping[str, float] = field(default_factory=dict)
    """Part of the machine (with a quota: of what that leaves) by who used it: WEB, HEAVY, REST, OTHER."""

    def rounded(self) -> CpuUse:
        """As it is shown, without who used it."""
        return CpuUse(
            usable=_whole(self.usable),
            own=_rounded(self.own),
            host=_rounded(self.host),
            steal=_rounded(self.steal),
            throttled=_rounded(self.throttled),
            pressure=_rounded(self.pressure),
            has_quota=self.has_quota,
        )


def use_between(before: CpuReading, after: CpuReading, ticks_a_sec: int) -> CpuUse:
    """What happened from ``before`` to ``after``; nothing is known of no time at all."""
    seconds = after.at - before.at
    if seconds <= 0:
        return CpuUse(after.usable)
    spent = _own_sec(before, after, ticks_a_sec)
    own_sec = None if spent is None else sum(spent.values())
    usable = after.usable
    return CpuUse(
        usable=usable,
        own=None if own_sec is None or not usable else _part(own_sec, seconds * usable),
        host=(host := _host(before, after, seconds)),
        steal=_steal(before.machine, after.machine),
        throttled=_throttled(before.throttle, after.throttle),
        pressure=_pressure(before, after, seconds),
        has_quota=after.quota is not None,
        users=_users(spent, host, seconds * (after.quota or _cpus(after))),
    )


def _rounded(part: float | None) -> float | None:
    return None if part is None else round(part, _DIGITS)


def _whole(number: float | None) -> float | int | None:
    """Two CPUs and not 2.0."""
    if number is None:
        return None
    return int(number) if number == int(number) else round(number, _DIGITS)


def _cpus(reading: CpuReading) -> float:
    return reading.machine.cpus if reading.machine is not None else reading.usable or 1.0


def _part(used: float, of: float) -> float:
    """Readings of different files are not of the very same moment: no part is more than all."""
    return min(1.0, max(0.0, used / of)) if of > 0 else 0.0


def _own_sec(before: CpuReading, after: CpuReading, ticks_a_sec: int) -> dict[str, float] | None:
    """CPU seconds of this instance's processes by kind. Of one that ended in between the rest is not known."""
    if before.own is None or after.own is None:
        return None
    found = dict.fromkeys((WEB, HEAVY, REST), 0.0)
    for pid, now in after.own.items():
        then = before.own.get(pid)
        ticks = now.ticks - (then.ticks if then is not None and then.started == now.started else 0)
        found[_KINDS.get(now.name, REST)] += max(0, ticks) / ticks_a_sec
    return found


def _host(before: CpuReading, after: CpuReading, seconds: float) -> float | None:
    if after.quota is not None:
        if before.group_sec is None or after.group_sec is None:
            return None
        return _part(after.group_sec - before.group_sec, seconds * after.quota)
    if before.machine is None or after.machine is None:
        return None
    return _part(after.machine.busy - before.machine.busy, after.machine.total - before.machine.total)


def _steal(before: Machine | None, after: Machine | None) -> float | None:
    if before is None or after is None or before.steal is None or after.steal is None:
        return None
    return _part(after.steal - before.steal, after.total - before.total)


def _throttled(before: Throttle | None, after: Throttle | None) -> float | None:
    if before is None or after is None:
        return None
    return _part(after.throttled - before.throttled, after.periods - before.periods)


def _pressure(before: CpuReading, after: CpuReading, seconds: float) -> float | None:
    if before.pressure_sec is None or after.pressure_sec is None:
        return None
    return _part(after.pressure_sec - before.pressure_sec, seconds)


def _users(spent: Mapping[str, float] | None, host: float | None, capacity_sec: float) -> dict[str, float]:
    if spent is None:
        return {}
    found = {kind: _part(seconds, capacity_sec) for kind, seconds in spent.items()}
    if host is not None:
        found[OTHER] = max(0.0, host - sum(found.values()))
    return found
