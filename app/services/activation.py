"""Threshold activation: the leader looks once a second whether a room's queue is due to be switched (ENG-213).

What "due" means, and since when it holds, the engine itself keeps (``lua/lib/watch.lua``), so a new leader goes on
where the last one stopped. Not here: counting of arrivals, the switch (``lua/fn/auto_switch.lua``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.domain.automation import AutoActivate
from app.domain.room import Room
from app.infrastructure.engine_auto import EngineAuto, Overtaken, Switch, Switched
from app.infrastructure.engine_errors import RoomFenced, RoomGone, StaleRoom
from app.infrastructure.room_directory import RoomDirectory
from app.services.leadership import Term, TermOver

EVERY_SEC: Final = 1.0
ROOMS_A_TRIP: Final = 100

log = structlog.get_logger(__name__)

Watched = tuple[Room, AutoActivate]


class Activation:
    """The duty."""

    name = "activation"

    def __init__(self, *, rooms: RoomDirectory, engine: EngineAuto) -> None:
        self._rooms = rooms
        self._engine = engine

    async def run(self, term: Term) -> None:
        """Look at every room that has a threshold, once a second, until the term is over."""
        while True:
            began = mono()
            await self.look(term)
            await asyncio.sleep(max(0.0, began + EVERY_SEC - mono()))

    async def look(self, term: Term) -> None:
        """One look at all of them. Raises TermOver, StorageUnavailable."""
        rules = [(room, room.config.auto_activate) for room in self._rooms.all()]
        watched = [(room, rule) for room, rule in rules if rule is not None and rule.enabled]
        for start in range(0, len(watched), ROOMS_A_TRIP):
            await self._look_at(watched[start : start + ROOMS_A_TRIP], term)

    async def _look_at(self, watched: Sequence[Watched], term: Term) -> None:
        answers = await self._engine.switch_many(watched, leader=term.check())
        for (room, rule), answer in zip(watched, answers, strict=True):
            if isinstance(answer, Switched):
                if answer.outcome is not Switch.NOTHING:
                    await self._tell(room, rule, answer)
            elif isinstance(answer, Overtaken):
                raise TermOver
            elif isinstance(answer, StaleRoom):
                await self._rooms.reload(room.id)
            elif isinstance(answer, StorageUnavailable) and not isinstance(answer, RoomFenced):
                raise answer
            elif not isinstance(answer, RoomGone | RoomFenced):
                log.error("threshold_not_looked_at", room=room.id, exc_info=answer)

    async def _tell(self, room: Room, rule: AutoActivate, switched: Switched) -> None:
        log.info(
            "queue_opened" if switched.outcome is Switch.OPENED else "queue_closed",
            room=room.id,
            by="threshold",
            joins_per_min=switched.arrivals,
            threshold=rule.joins_per_min,
            seconds=switched.seconds,
        )
        await self._rooms.reload(room.id)
        await self._rooms.announce(room.id)
