"""When checkpoints are made: a room with many facts since its last one gets a new one, one room at a time in the fleet.

Belongs here: choice of room, pace, what a failure means. Not here: folding and storing (infrastructure/snapshots.py).
Source: CFG-045, FLT-102.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from app.core.clock import mono, wall_ms
from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.facts import UnknownFact
from app.domain.fold_tickets import BrokenJournal
from app.infrastructure import snapshots
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.postgres import Postgres
from app.services.heavy_pauses import Rest, never
from app.services.heavy_state import at_work

LOOK_SEC: Final = 5.0
"""How often a process looks for a room that is due."""
REST: Final = 20
"""Pause after a checkpoint in units of the time it took: at most a twentieth of a core, however busy a room is."""
RETRY_SEC: Final = 600.0
"""Pause of a room whose journal this build cannot read."""

log = structlog.get_logger(__name__)


class Checkpoints:
    """Makes checkpoints."""

    def __init__(self, postgres: Postgres, *, events: int, rest: Rest = never, book: MetricBook | None = None) -> None:
        """``events``: CHECKPOINT_EVENTS. ``rest`` is awaited before each; ``book``: where its work is shown."""
        self._rest = rest
        self._book = book or MetricBook.alone()
        self._postgres = postgres
        self._events = events
        self._unreadable: dict[RoomId, float] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Until ``stop`` is set. Never ends by an error of a store or a room."""
        while not stop.is_set():
            began = mono()
            try:
                await self._rest()
                began = mono()
                made = await self.turn()
            except StorageUnavailable:
                made = None
            except Exception:
                log.exception("checkpoint_broke")
                made = None
            pause = max(LOOK_SEC, REST * (mono() - began)) if made is not None else LOOK_SEC
            await _pause(pause, stop)

    async def turn(self) -> RoomId | None:
        """Make one checkpoint if a room is due and no other instance is at it; the room's id."""
        async with self._postgres.acquire() as link:
            if not await snapshots.take_turn(link):
                return None
            try:
                return await self._make(link)
            finally:
                await _give_back(link)

    async def _make(self, link: snapshots.Link) -> RoomId | None:
        await snapshots.sweep(link)
        now = mono()
        self._unreadable = {room: until for room, until in self._unreadable.items() if until > now}
        head = await snapshots.most_behind(link, self._events, without=self._unreadable.keys())
        if head is None:
            return None
        try:
            with at_work(self._book, "checkpoint"):
                fold = await snapshots.fold_room(link, head, wall_ms())
                await snapshots.store(link, head, fold)
        except (UnknownFact, BrokenJournal, TypeError) as error:
            self._postpone(head.room, str(error))
            return None
        log.info("checkpoint_made", room=head.room, seq=head.seq, tickets=fold.last_ticket, sec=round(mono() - now, 2))
        return head.room

    def _postpone(self, room: RoomId, reason: str) -> None:
        self._unreadable[room] = mono() + RETRY_SEC
        log.error("checkpoint_failed", room=room, reason=reason, next_try_sec=RETRY_SEC)


async def _give_back(link: snapshots.Link) -> None:
    """Let another instance make the next checkpoint. A lost connection has given the lock back itself."""
    if link.is_closed():
        return
    try:
        await snapshots.end_turn(link)
    except BaseException:
        link.terminate()  # it would go back to the pool, lock and all
        raise


async def _pause(seconds: float, stop: asyncio.Event) -> None:
    waiting = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([waiting], timeout=seconds)
    finally:
        waiting.cancel()
