"""Drawing the order of a pre-queue whose doors have opened.

Belongs here: reading the fixed list, computing the order outside of the live store, putting it in place in short
calls. Any number of instances may do it at once, and any of them may die: seed and list are fixed, so the order is
the same whoever computes it, and nobody is told anything of it before all of it is journaled. Not here: when the
doors open (``lua/lib/opening.lua``), the order itself (``domain/draw.py``). Source: ENG-176 … ENG-184, ENG-300.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.draw import Order, Place, draw, places_in
from app.domain.layout import CHUNK, Phase
from app.infrastructure.engine_errors import RoomGone
from app.infrastructure.engine_jobs import DrawState
from app.infrastructure.metric_book import MetricBook
from app.services.heavy_state import at_work

SLICE: Final = 250
"""Places put in order in one call: about 2 ms of the live store (6 to 8 µs each, measured)."""
PAUSE_SEC: Final = 1.0
"""Before a draw that failed is tried again."""

log = structlog.get_logger(__name__)


class DrawStore(Protocol):
    """What a draw asks of the engine (``engine_jobs.EngineJobs``)."""

    async def draw_state(self, room_id: RoomId) -> DrawState:
        """How far the opening is."""
        ...

    async def draw_chunk(self, room_id: RoomId, chunk: int) -> bytes:
        """Place records of one chunk."""
        ...

    async def draw_put(self, room_id: RoomId, gen: int, seed: bytes, done: int, order: bytes) -> int:
        """Place the next part of the order; how many have their number, -1 = no such draw runs."""
        ...

    async def draw_end(self, room_id: RoomId, gen: int, seed: bytes, identities: int, digest: bytes) -> bool:
        """Close the draw; True when this call did it."""
        ...


@dataclass(frozen=True, slots=True)
class RoomDrawn:
    """What a draw did, for log and audit; ``digest``: SHA-256 of the order in hex."""

    places: int
    identities: int
    digest: str


async def draw_room(store: DrawStore, room_id: RoomId) -> RoomDrawn | None:
    """Draw a room whose doors have opened. None: there is nothing to draw, or another one has done it.

    Raises RoomGone, RoomFenced and StorageUnavailable; it is right to call again then.
    """
    state = await store.draw_state(room_id)
    if state.phase is not Phase.DRAWING:
        return None
    order = await asyncio.to_thread(draw, state.seed, await _list(store, room_id, state))
    if order.count != state.count:
        log.error("draw_list_differs", room=room_id, places=state.count, found=order.count)
        return None
    if not await _put(store, room_id, state, order):
        return None
    if not await store.draw_end(room_id, state.gen, state.seed, order.identities, order.digest):
        return None
    return RoomDrawn(order.count, order.identities, order.digest.hex())


async def _list(store: DrawStore, room_id: RoomId, state: DrawState) -> list[Place]:
    """The places that are drawn."""
    places: list[Place] = []
    for chunk in range(state.base // CHUNK, (state.places + CHUNK - 1) // CHUNK):
        places += places_in(await store.draw_chunk(room_id, chunk), chunk * CHUNK + 1, state.base)
    return places


async def _put(store: DrawStore, room_id: RoomId, state: DrawState, order: Order) -> bool:
    """Give the places their numbers in order; False when no such draw runs any more."""
    done = state.done
    while 0 <= done < order.count:
        part = order.places[done * 4 : (done + SLICE) * 4]
        done = await store.draw_put(room_id, state.gen, state.seed, done, part)
    return done == order.count


class Draws:
    """The draws that one process makes, one after the other."""

    def __init__(self, store: DrawStore, book: MetricBook | None = None) -> None:
        """``book``: where it is told that one is made."""
        self._book = book or MetricBook.alone()
        self._store = store
        self._asked: dict[RoomId, float] = {}
        """Rooms to draw, and when to try again."""
        self._wake = asyncio.Event()

    def ask(self, room_id: RoomId) -> None:
        """A tick has opened the doors of this room; asking again is harmless."""
        self._asked.setdefault(room_id, 0.0)
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Draw what is asked for until ``stop`` is set. A room that fails keeps no other waiting."""
        while not stop.is_set():
            self._wake.clear()
            for room_id, not_before in list(self._asked.items()):
                if not_before <= mono() and not stop.is_set():
                    await self._try(room_id)
            await _either(self._wake, stop, self._pause())

    def _pause(self) -> float | None:
        return max(0.0, min(self._asked.values()) - mono()) if self._asked else None

    async def _try(self, room_id: RoomId) -> None:
        began = mono()
        try:
            with at_work(self._book, "draw"):
                drawn = await draw_room(self._store, room_id)
        except RoomGone:
            drawn = None
        except Exception as error:
            self._asked[room_id] = mono() + PAUSE_SEC
            if not isinstance(error, StorageUnavailable):
                log.exception("draw_failed", room=room_id)
            return
        del self._asked[room_id]
        if drawn is not None:
            log.info(
                "room_drawn",
                room=room_id,
                places=drawn.places,
                identities=drawn.identities,
                order_sha256=drawn.digest,
                sec=round(mono() - began, 2),
            )


async def _either(wake: asyncio.Event, stop: asyncio.Event, timeout_sec: float | None) -> None:
    tasks = [asyncio.ensure_future(event.wait()) for event in (wake, stop)]
    try:
        await asyncio.wait(tasks, timeout=timeout_sec, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
