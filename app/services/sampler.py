"""Measuring for the charts: every five seconds one process of the fleet writes a point for each room (ADM-194).

Which one is settled anew for each turn, so that no loss of an instance or of the leader makes a hole of more than the
turn it had taken. Not here: what is measured by the engine itself (lua/lib/hours.lua).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence, Set
from typing import Final

import structlog

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.chart import STEP_MS, Point, sum_of, turn_of
from app.infrastructure.chart_store import ChartStore
from app.infrastructure.engine_results import RoomFigures
from app.services.room_details import Details, RoomDetails
from app.services.room_object import line_wait

ROOMS_A_TRIP: Final = 100

log = structlog.get_logger(__name__)


class Sampler:
    """The measuring of one instance."""

    def __init__(
        self, *, details: RoomDetails, store: ChartStore, rooms: Callable[[], Awaitable[Sequence[RoomId]]]
    ) -> None:
        """``rooms``: ids of all rooms that live in the live store."""
        self._details = details
        self._store = store
        self._rooms = rooms
        self._measured: Set[RoomId] = set()
        """Rooms that had figures. While one of them has none, a sum would be too low: the chart of all has a gap."""

    async def run(self, stop: asyncio.Event) -> None:
        """Measure until ``stop`` is set. Never ends by an error of a store."""
        while not stop.is_set():
            pause = STEP_MS / 1000
            try:
                now = await self._store.now_ms()
                await self.measure(now)
                pause = (STEP_MS - await self._store.now_ms() % STEP_MS) / 1000
            except StorageUnavailable:
                log.debug("chart_not_measured")
            except Exception:
                log.exception("chart_not_measured")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause)

    async def measure(self, now_ms: int) -> bool:
        """Write the points of the turn at ``now_ms``; False: another process does. Raises StorageUnavailable."""
        turn = turn_of(now_ms)
        if not await self._store.take_turn(turn):
            return False
        rooms = list(await self._rooms())
        measured: dict[RoomId, Point] = {}
        lost: set[RoomId] = set()
        for start in range(0, len(rooms), ROOMS_A_TRIP):
            found = await self._details.figures(rooms[start : start + ROOMS_A_TRIP])
            points = {
                (room_id, figures.generation): point_of(turn * STEP_MS, figures, self._details.of(room_id))
                for room_id, figures in found.items()
                if figures is not None
            }
            await self._store.put(points)
            measured |= {room_id: point for (room_id, _), point in points.items()}
            lost |= {room_id for room_id, figures in found.items() if figures is None and room_id in self._measured}
        self._measured = measured.keys() | lost
        if not lost:
            await self._store.put_sum(sum_of(turn * STEP_MS, list(measured.values())))
        self._details.keep_only(rooms)
        return True


def point_of(ts: int, figures: RoomFigures, details: Details | None) -> Point:
    """What a chart keeps of a room's figures."""
    return Point(
        ts=ts,
        waiting=figures.waiting,
        pre_queue=figures.pre_queue,
        joins_per_min=figures.joins_per_min,
        passes_per_min=figures.passed_last_minute,
        est_wait_sec=line_wait(figures),
        wait_p50_sec=None if details is None else details.wait_p50_sec,
        wait_p90_sec=None if details is None else details.wait_p90_sec,
        active=figures.active,
        occupancy=figures.occupancy,
    )
