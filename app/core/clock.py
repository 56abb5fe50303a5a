"""The two clocks of a process: wall time that never goes back, and a monotonic one for waits.

The pace of a room does not come from here: rooms carry a clock of their own in Valkey (see ``lua/lib``). These two are
for tokens, log lines, deadlines and the like.
"""

from __future__ import annotations

import time

from app.core.ids import EpochMs

_last_ms = 0


def wall_ms() -> EpochMs:
    """Milliseconds since 1970; never smaller than an earlier answer to this thread of the process (FLT-126).

    Without a lock: it is asked several times a request. Two threads at the same instant may each set their own last
    value; the later one stands, and both are of that instant.
    """
    global _last_ms
    now_ms = time.time_ns() // 1_000_000
    if now_ms > _last_ms:
        _last_ms = now_ms
    return _last_ms  # type: ignore[return-value]  # naming the type would be a call, on the hottest path


def raw_wall_ms() -> int:
    """Milliseconds since 1970 as the machine says, which may go back: only for finding out that it did."""
    return time.time_ns() // 1_000_000


def cpu_sec() -> float:
    """Seconds of CPU that this process has used."""
    return time.process_time()


def mono() -> float:
    """Seconds of a clock that no one can set; only differences mean something."""
    return time.monotonic()
