"""The two clocks of a process: wall time that never goes back, and a monotonic one for waits.

The pace of a room does not come from here: rooms carry a clock of their own in Valkey (see ``lua/lib``). These two are
for tokens, log lines, deadlines and the like.
"""

from __future__ import annotations

import threading
import time

from app.core.ids import EpochMs

_lock = threading.Lock()
_last_ms = 0


def wall_ms() -> EpochMs:
    """Milliseconds since 1970; never smaller than an earlier answer in this process (FLT-126)."""
    global _last_ms
    with _lock:
        _last_ms = max(_last_ms, time.time_ns() // 1_000_000)
        return EpochMs(_last_ms)


def mono() -> float:
    """Seconds of a clock that no one can set; only differences mean something."""
    return time.monotonic()
