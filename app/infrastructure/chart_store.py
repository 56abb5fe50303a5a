"""Charts of rooms in the live store: one ring of bytes a room and generation, gone with it (ADM-166).

Not here: what a point is (domain/chart.py), who measures and when (services/sampler.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from app.core.ids import RoomId
from app.domain.chart import POINTS, STEP_MS, Point, pack_point, place_of, turn_of
from app.infrastructure.keys import RoomKeys, chart_sum_key, chart_turn_key
from app.infrastructure.valkey import Valkey

RING_LIFE_MS: Final = (POINTS + 12) * STEP_MS
"""A ring nobody adds to is of no use once its points are old."""
TURN_LIFE_MS: Final = 3 * STEP_MS
ROOMS_A_TRIP: Final = 200


Command = tuple[str | int | bytes, ...]


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
            commands: list[Command] = []
            for (room_id, generation), point in rooms[start : start + ROOMS_A_TRIP]:
                key = RoomKeys(self._prefix, room_id).chart(generation)
                commands.extend(_added(key, point))
            await self._all(commands)

    async def put_sum(self, point: Point) -> None:
        """Add one point to the chart of all rooms together."""
        await self._all(_added(chart_sum_key(self._prefix), point))

    async def ring_of_sum(self) -> bytes:
        """The ring of all rooms together; empty where there is none."""
        ring: bytes | None = await self._valkey.execute("GET", chart_sum_key(self._prefix))
        return ring or b""

    async def rings(self, rooms: Sequence[tuple[RoomId, int]]) -> list[bytes]:
        """Rings of some rooms, each of one generation; empty where there is none."""
        commands = [("GET", RoomKeys(self._prefix, room_id).chart(gen)) for room_id, gen in rooms]
        return [ring or b"" for ring in await self._all(commands)] if commands else []

    async def _all(self, commands: Sequence[Command]) -> list[bytes | None]:
        """Replies of commands that must all be done."""
        replies: list[bytes | None] = []
        for reply in await self._valkey.pipeline(commands):
            if isinstance(reply, Exception):
                raise reply
            replies.append(reply)
        return replies


def _added(key: str, point: Point) -> list[Command]:
    """A point in its place of a ring, which lives on by it."""
    return [("SETRANGE", key, place_of(turn_of(point.ts)), pack_point(point)), ("PEXPIRE", key, RING_LIFE_MS)]
