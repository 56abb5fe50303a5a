"""Points of a room's chart: what is measured every five seconds and kept for an hour (ADM-193, OBS-176).

A room's points lie in a ring of bytes; each tells its own turn, so a turn in which nobody measured is a gap. Not here:
where rings are kept (infrastructure/chart_store.py), who measures (services/sampler.py).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

STEP_SEC: Final = 5
STEP_MS: Final = STEP_SEC * 1000
POINTS: Final = 720
"""Points of an hour."""

SUM: Final = "*"
"""Name of the chart of all rooms together; no room can be called so."""

_POINT: Final = struct.Struct("<5I3i2I")
POINT_BYTES: Final = _POINT.size
_UNKNOWN: Final = -1


class Point(NamedTuple):
    """One measurement; members are named as in the answer, in its order. None = unknown, or without end."""

    ts: int
    """Beginning of the turn, epoch ms."""
    waiting: int
    pre_queue: int
    joins_per_min: int
    passes_per_min: int
    est_wait_sec: int | None
    wait_p50_sec: int | None
    wait_p90_sec: int | None
    active: int
    occupancy: int


_COUNTED: Final = tuple(name for name in Point._fields if name != "ts" and not name.endswith("_sec"))


def sum_of(ts: int, points: Sequence[Point]) -> Point:
    """Counts of all rooms together. Waits of several rooms have no sum."""
    counts = [sum(getattr(point, name) for point in points) for name in _COUNTED]
    return Point(
        ts, **dict(zip(_COUNTED, counts, strict=True)), est_wait_sec=None, wait_p50_sec=None, wait_p90_sec=None
    )


def turn_of(ms: int) -> int:
    """Number of the turn at a time."""
    return ms // STEP_MS


def place_of(turn: int) -> int:
    """Offset of a turn's point in the ring."""
    return turn % POINTS * POINT_BYTES


def pack_point(point: Point) -> bytes:
    """Its bytes in the ring."""
    ts, *counts = point
    return _POINT.pack(turn_of(ts), *(_UNKNOWN if value is None else value for value in counts))


def points_of(ring: bytes, now_ms: int) -> list[Point]:
    """Points of the hour before ``now_ms``, oldest first."""
    latest = turn_of(now_ms)
    whole = len(ring) // POINT_BYTES * POINT_BYTES
    found = [raw for raw in _POINT.iter_unpack(ring[:whole]) if latest - POINTS < raw[0] <= latest]
    return [_point(*raw) for raw in sorted(found)]


def _point(turn: int, *counts: int) -> Point:
    return Point(turn * STEP_MS, *(None if value == _UNKNOWN else value for value in counts))  # type: ignore[arg-type]
