"""Charts of rooms in the live store: one ring of bytes a room and generation, gone with it (ADM-166).

Not here: what a point is (domain/chart.py), who measures and when (services/sampler.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from app.core.ids import RoomId
from app.domain.chart import POINTS, STEP_MS, Point, pack_point, place_of, turn_of
from app.infrastructure.keys import RoomKeys, chart_turn_key
from app.infrastructure.valkey import Valkey

RING_LIFE_MS: Final = (POINTS + 12) * STEP_MS
"""A ring nobody adds to is of no use once its points are old."""
TURN_LIFE_MS: Final = 3 * STEP_MS
ROOMS_A_TRIP: Final = 200


class ChartStore:
    """Reads and writes. Raises StorageUnavailable."""

    def __init__(self, valkey: Valkey, prefix: str) -> None:
        self._valkey = valkey
        self._prefix = prefix

    async def now_ms(self) -> int:
        """The live store's clock, by which points are dated."""
        seconds, micros = await self._valkey.execute("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def take_turn(self, turn: int) -> bool:
        """True for the one process of the fleet that measures in this turn."""
        key = chart_turn_key(self._prefix, turn)
        return await self._valkey.execute("SET", key, 1, "NX", "PX", TURN_LIFE_MS) is not None

    async def put(self, points: Mapping[tuple[RoomId, int], Point]) -> None:
        """Add one point to the chart of each (room, generation)."""
        rooms = list(points.items())
        for start in range(0, len(rooms), ROOMS_A_TRIP):
            commands: list[tuple[str | int | bytes, ...]] = []
            for (room_id, generation), point in rooms[start : start + ROOMS_A_TRIP]:
                key = RoomKeys(self._prefix, room_id).chart(generation)
                commands.append(("SETRANGE", key, place_of(turn_of(point.ts)), pack_point(point)))
                commands.append(("PEXPIRE", key, RING_LIFE_MS))
            for reply in await self._valkey.pipeline(commands):
                if isinstance(reply, Exception):
                    raise reply

    async def rings(self, rooms: Sequence[tuple[RoomId, int]]) -> list[bytes]:
        """Rings of some rooms, each of one generation; empty where there is none."""
        commands = [("GET", RoomKeys(self._prefix, room_id).chart(gen)) for room_id, gen in rooms]
        found = await self._valkey.pipeline(commands) if commands else []
        for reply in found:
            if isinstance(reply, Exception):
                raise reply
        return [ring or b"" for ring in found]
