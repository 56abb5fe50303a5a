"""Slow facts of rooms (rule hits, measured waits, refused origins) as room objects show them, read every few seconds.

Not here: the numbers that move all the time (engine_results.RoomFigures), their place in an object (room_object.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.core.clock import mono, wall_ms
from app.core.ids import RoomId
from app.domain.hour_record import live_percentiles_sec
from app.domain.origin_errors import NO_ERRORS, OriginErrors
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_detail import RoomDetail
from app.infrastructure.engine_results import RoomFigures
from app.infrastructure.origin_failures import OriginFailures

EVERY_SEC: Final = 10.0


@dataclass(frozen=True, slots=True)
class Details:
    """What a room object shows of one room. Equal values make equal objects."""

    rules: Mapping[str, tuple[int, int]]
    """Rule field (visitor_counts.rule_field) → checks that it decided, time of the last one (epoch ms)."""
    wait_p50_sec: int | None
    wait_p90_sec: int | None
    """Of the waits that ended within the last hour; None = there was none."""
    refused_origins: Mapping[str, int]
    """Origin → refused checks."""
    protection: Mapping[str, int]
    """What bot protection made of joins (engine_detail.RoomDetail)."""
    origin: OriginErrors = NO_ERRORS
    """Failures of the origin of an inline room."""


class RoomDetails:
    """Reads figures, and with them details that are older than ``EVERY_SEC``."""

    def __init__(self, engine: EngineAdmin, failures: OriginFailures | None = None) -> None:
        """``failures``: of origins; None: they are not told."""
        self._engine = engine
        self._failures = failures
        self._known: dict[RoomId, tuple[float, Details]] = {}

    async def figures(self, room_ids: Sequence[RoomId], *, fresh: bool = False) -> dict[RoomId, RoomFigures | None]:
        """Live figures as ``EngineAdmin.figures``. ``fresh``: with the details of this moment.

        Raises StorageUnavailable.
        """
        now = mono()
        old = -EVERY_SEC if fresh else now - EVERY_SEC
        due = {room_id for room_id in room_ids if fresh or self._known.get(room_id, (old, None))[0] <= old}
        found = await self._engine.figures(room_ids, detailed=due)
        if due:
            origins = await self._engine.refused_origins()
            failures = {} if self._failures is None else await self._failures.recent(wall_ms())
            for room_id, one in found.items():
                if one is not None and one.detail is not None:
                    made = _details(one.detail, one.now, origins.get(room_id, {}), failures.get(room_id))
                    self._known[room_id] = (now, made)
        return found

    def keep_only(self, room_ids: Sequence[RoomId]) -> None:
        """Forget rooms that are gone."""
        if len(self._known) > len(room_ids):
            self._known = {room_id: self._known[room_id] for room_id in room_ids if room_id in self._known}

    def of(self, room_id: RoomId) -> Details | None:
        """The details last read; None when none were."""
        known = self._known.get(room_id)
        return None if known is None else known[1]


def _details(detail: RoomDetail, now_ms: int, origins: Mapping[str, int], failures: OriginErrors | None) -> Details:
    p50, p90 = live_percentiles_sec(detail.hours, now_ms)
    return Details(detail.rules, p50, p90, origins, detail.protection, failures or NO_ERRORS)
