"""Autotune: every 30 s the leader adjusts the rate of rooms whose queue runs, by how their sites answer (ENG-222 …).

When each room had its last round is kept in the live store, so a new leader neither skips one nor makes one twice. Not
here: the algorithm (domain/autotune.py), knocks (prober.py), the setting of a rate (``lua/fn/tune.lua``).
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.automation import Autotune
from app.domain.autotune import HANDS_OFF_MS, ROUND_MS, Scene, Tuned, tune
from app.domain.room import Room, RoomState
from app.infrastructure.engine_auto import EngineAuto, Overtaken, Tuning
from app.infrastructure.engine_errors import RoomFenced, RoomGone, StaleRoom
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.site_store import SiteStore, TuneRound
from app.services.leadership import Term, TermOver
from app.services.prober import site_of

EVERY_SEC: Final = 1.0
OLD_ROUND_MS: Final = 2 * ROUND_MS
"""A round that is longer ago says nothing about what has grown since."""

log = structlog.get_logger(__name__)


class Tuner:
    """The duty. ``default``: whether rooms without a setting of their own are tuned (AUTOTUNE)."""

    name = "autotune"

    def __init__(self, *, rooms: RoomDirectory, engine: EngineAuto, store: SiteStore, default: bool) -> None:
        self._rooms = rooms
        self._engine = engine
        self._store = store
        self._default = default
        self._rounds: dict[str, TuneRound] = {}

    async def run(self, term: Term) -> None:
        """Hold rounds until the term is over."""
        self._rounds = await self._store.rounds()
        while True:
            try:
                await self.look(term)
            except Overtaken as error:
                raise TermOver from error
            await asyncio.sleep(EVERY_SEC)

    async def look(self, term: Term) -> None:
        """A round of every room that is due for one. Raises TermOver, Overtaken, StorageUnavailable."""
        term.check()
        now = await self._store.now_ms()
        tuned = [room for room in self._rooms.all() if self._is_tuned(room)]
        gone = self._rounds.keys() - {room.id for room in tuned}
        due = [room for room in tuned if room.id not in self._rounds or now - self._rounds[room.id].at >= ROUND_MS]
        if not due and not gone:
            return
        seen = await self._engine.tuning_many([room.id for room in due]) if due else []
        held: dict[str, TuneRound] = {}
        for room, found in zip(due, seen, strict=True):
            if isinstance(found, Tuning):
                await self._round(room, found, now, term)
                held[room.id] = TuneRound(now, found.passes_outstanding)
            elif not isinstance(found, RoomGone | RoomFenced):
                _complain(room.id, found)
        await self._store.put_rounds(term.check(), held, gone=gone)
        self._rounds = {room: last for room, last in (self._rounds | held).items() if room not in gone}

    def _is_tuned(self, room: Room) -> bool:
        own = room.config.autotune
        return self._default if own is None else own.enabled

    async def _round(self, room: Room, seen: Tuning, now: int, term: Term) -> None:
        if not may_be_tuned(seen):
            return
        tuned = await self._decide(room, seen, now)
        if tuned.rate == seen.rate:
            return
        try:
            was_set = await self._engine.tune(
                room.id, seen, tuned.rate, leader=term.check(), hold_ms=HANDS_OFF_MS, figures=tuned.figures
            )
        except (RoomGone, RoomFenced, StaleRoom):
            return
        if was_set:
            log.info("rate_tuned", room=room.id, **tuned.figures)
            await self._rooms.reload(room.id)
            await self._rooms.announce(room.id)

    async def _decide(self, room: Room, seen: Tuning, now: int) -> Tuned:
        site = site_of(room)
        healths = await self._store.healths([site]) if site is not None else {}
        health = healths.get(site) if site is not None else None
        before = self._rounds.get(room.id)
        scene = Scene(
            now=now,
            rate=seen.rate,
            limits=room.config.autotune or Autotune(enabled=True, max_rate=seen.hand_rate),
            probes=() if health is None else health.knocks,
            occupancy=seen.occupancy,
            max_concurrent=seen.max_concurrent,
            passes_outstanding=seen.passes_outstanding,
            passes_before=before.passes_outstanding if before and now - before.at <= OLD_ROUND_MS else None,
        )
        return tune(scene)


def may_be_tuned(seen: Tuning) -> bool:
    """Tell whether autotune acts on a room as it is now (ENG-224); the setting of the rate looks once more."""
    rested = seen.hand_rate_age_ms is None or seen.hand_rate_age_ms >= HANDS_OFF_MS
    return seen.state is RoomState.ACTIVE and seen.rate > 0 and seen.waiting > 0 and rested


def _complain(room: RoomId, error: Exception) -> None:
    if isinstance(error, StorageUnavailable):
        raise error
    log.error("room_not_tuned", room=room, exc_info=error)
