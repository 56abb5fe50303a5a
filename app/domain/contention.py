"""Whether an instance gets the CPU that it needs, and who takes it otherwise. Pure: a state that goes on by looks.

Contention begins when over 30 s the loops of web workers were late, or CPU time was stolen or withheld; it ends after
60 s without. Source: BUD-057, BUD-059.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.cpu_use import HEAVY, OTHER, REST, WEB, CpuReading, CpuUse, use_between

WINDOW_SEC: Final = 5.0
WINDOWS: Final = 6
"""Windows that a look goes by: 30 s."""
OVER_SEC: Final = 60.0
TAKEN_PART: Final = 0.05
"""Part of CPU time stolen, or of periods throttled, from which on it is contention."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look, at the end of a window. ``lag_ms``: p99 of the worst web worker in that window; None = not known."""

    reading: CpuReading
    lag_ms: float | None


@dataclass(frozen=True, slots=True)
class Contention:
    """Where things stand. ``met_at``: when the condition was last met, in the clock of the readings."""

    looks: tuple[Look, ...] = ()
    is_on: bool = False
    met_at: float = 0.0

    def after(self, look: Look, *, warn_ms: float, ticks_a_sec: int) -> tuple[Contention, CpuUse]:
        """Go on with a further look; with it, what happened in the last 30 s."""
        looks = (*self.looks, look)[-WINDOWS - 1 :]
        use = use_between(looks[0].reading, look.reading, ticks_a_sec)
        now = look.reading.at
        if _is_met(looks, use, warn_ms):
            return Contention(looks, True, now), use
        is_on = self.is_on and now - self.met_at < OVER_SEC
        return Contention(looks, is_on, self.met_at), use


def _is_met(looks: Sequence[Look], use: CpuUse, warn_ms: float) -> bool:
    """The first of the looks is the one from which the 30 s are counted; its own window was before."""
    late = sum(one.lag_ms is not None and one.lag_ms > warn_ms for one in looks[-WINDOWS:])
    if 2 * late >= WINDOWS:
        return True
    if len(looks) <= WINDOWS:
        return False
    return any(part is not None and part >= TAKEN_PART for part in (use.steal, use.throttled))


def culprit(use: CpuUse, jobs: Sequence[str] = ()) -> str:
    """Who takes the CPU, in a clause. ``jobs``: heavy work that runs now, by name."""
    where = "what this container may use" if use.has_quota else "this machine"
    if use.steal is not None and use.steal >= TAKEN_PART:
        return f"the provider takes {_percent(use.steal)} of the CPU time of this machine (steal)"
    if use.throttled is not None and use.throttled >= TAKEN_PART:
        return f"the CPU quota of the provider holds this instance back in {_percent(use.throttled)} of its periods"
    if not use.users:
        return "who takes the CPU cannot be seen here"
    kind = max(use.users, key=lambda one: use.users[one])
    part = f"{_percent(use.users[kind])} of {where}"
    named = f" ({', '.join(jobs)})" if jobs else ""
    return {
        HEAVY: f"Queue Manager's own heavy work{named} uses {part}",
        WEB: f"Queue Manager's web workers use {part} (traffic)",
        REST: f"Queue Manager's stores and other processes use {part}",
        OTHER: f"a process that is not Queue Manager uses {part}",
    }[kind]


def _percent(part: float) -> str:
    return f"{round(100 * part)} %"
