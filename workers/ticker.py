"""Process ``ticker``: moves every room on, twice a second.

Each instance ticks every room: a tick takes the time that has passed since the last one, whoever made it, so two
tickers promote no faster than one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from app.core.clock import mono, wall_ms
from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.core.metrics import PASSES
from app.core.pacing import rest
from app.domain.layout import Phase
from app.infrastructure.engine_errors import RoomFenced, RoomGone
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_results import TickAnswer
from app.infrastructure.keys import control_channel, rooms_key
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.metric_book import MetricBook
from workers.loop import PushedBack
from workers.runner import Background

log = structlog.get_logger(__name__)

EVERY_SEC: Final = 0.5
"""A tick counts at most 1 s (ENG-116): with this pause a turn may be half a second late and the pace loses nothing."""
AFRESH_SEC: Final = 0.05
"""Pause while doors are due by this clock and not by that of the live store."""
ROOMS_A_TRIP: Final = 20
MAX_ROUNDS: Final = 200
"""Most calls of one room in one turn; a room with more work goes on in the next turn."""

TickMany = Callable[[Sequence[RoomId]], Awaitable[list[TickAnswer | Exception]]]


async def run(background: Background) -> None:
    """Tick until the process is stopped."""
    valkey, prefix = background.valkey, background.settings.valkey_prefix
    jobs = EngineJobs(prefix, LuaLoader(valkey), lapsed_ttl_ms=background.settings.lapsed_ttl_ms)

    async def rooms() -> list[RoomId]:
        return [RoomId(name.decode()) for name in await valkey.execute("SMEMBERS", rooms_key(prefix))]

    ticker = Ticker(jobs.tick_many, is_stopping=background.stop.is_set, book=background.book)
    background.ready()
    while not background.stop.is_set():
        began = mono()
        try:
            await ticker.turn(await rooms())
            for room in ticker.drawing:
                # Said again every turn until it is done: nothing is lost with a message or a process.
                await valkey.execute("PUBLISH", control_channel(prefix), f"draw {room}")
        except StorageUnavailable:
            log.debug("ticks_left_out", why="valkey cannot be reached")
        except Exception:
            log.exception("turn_failed")
        await background.pause(ticker.pause_sec(began))


class Ticker:
    """One turn over all rooms: failures of one room never keep the others waiting.

    ``drawing``: rooms whose doors have opened and whose order is not drawn yet; ``opens_at``: the next opening (epoch
    ms), None without one. Both as of the last turn.
    """

    def __init__(self, tick_many: TickMany, *, is_stopping: Callable[[], bool], book: MetricBook | None = None) -> None:
        """``book``: where passes are counted."""
        self._book = book or MetricBook.alone()
        self._tick_many = tick_many
        self._is_stopping = is_stopping
        self.drawing: set[RoomId] = set()
        self.opens_at: int | None = None
        self._pushed_back = PushedBack()

    async def turn(self, rooms: Sequence[RoomId]) -> None:
        """Tick each of ``rooms``, those with more work again, until all are done; StorageUnavailable passes."""
        wanted = self._pushed_back.ready(rooms)
        self.drawing, self.opens_at = set(), None
        for _ in range(MAX_ROUNDS):
            more: list[RoomId] = []
            for start in range(0, len(wanted), ROOMS_A_TRIP):
                if self._is_stopping():
                    return
                part, began = wanted[start : start + ROOMS_A_TRIP], mono()
                for room, answer in zip(part, await self._tick_many(part), strict=True):
                    if self._wants_more(room, answer):
                        more.append(room)
                if more or start + ROOMS_A_TRIP < len(wanted):
                    await rest(began)
            if not more:
                return
            wanted = more

    def pause_sec(self, began: float) -> float:
        """How long to wait after a turn that began at ``began`` (``mono()``): less when doors open before the next."""
        rest = began + EVERY_SEC - mono()
        if self.opens_at is not None:
            rest = min(rest, max(AFRESH_SEC, (self.opens_at - wall_ms()) / 1000))
        return max(0.0, rest)

    def _note_doors(self, room: RoomId, answer: TickAnswer) -> None:
        if answer.phase is Phase.DRAWING:
            self.drawing.add(room)
        elif answer.phase is Phase.OPEN and (self.opens_at is None or answer.opens_at < self.opens_at):
            self.opens_at = answer.opens_at

    def _wants_more(self, room: RoomId, answer: TickAnswer | Exception) -> bool:
        if isinstance(answer, TickAnswer):
            self._pushed_back.note_success(room)
            self._note_doors(room, answer)
            if passes := answer.promoted + answer.skipped:
                self._book.add(PASSES, room, number=passes)
            return answer.again
        if not isinstance(answer, RoomGone | RoomFenced):  # those two have their own way back
            pause = self._pushed_back.note_failure(room)
            log.error("tick_failed", room=room, pushed_back_sec=pause, exc_info=answer)
        return False
