"""Lanes in which lost rooms are rebuilt: a few at once, the smallest first, and only one of them a huge one.

So a room of a million tickets keeps nobody waiting but those who stand in it. Not here: which rooms have to be rebuilt
and what follows from it (recovery.py), the rebuild itself (infrastructure/rebuild.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

import structlog

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.infrastructure.journal import Head

if TYPE_CHECKING:
    from app.infrastructure.postgres import OwnLink

LANES: Final = 2
"""Rebuilds at once; each has a connection to Postgres of its own, for as long as there is something to do."""
HUGE: Final = 100_000
"""Facts from which on a room takes long, and much memory: such rooms follow one another."""

log = structlog.get_logger(__name__)


class RebuildLanes:
    """Rebuilds what it is given. ``session``: a connection for rebuilds; ``rebuild``: rebuild one room over it.

    ``rebuild`` keeps the errors of a room to itself; StorageUnavailable means that nothing can be rebuilt at present,
    and gives up all that waits. ``settled`` is called when a room is done, or was given up.
    """

    def __init__(
        self,
        session: Callable[[], AbstractAsyncContextManager[OwnLink]],
        rebuild: Callable[[OwnLink, Head], Awaitable[None]],
        settled: Callable[[], None],
    ) -> None:
        self._session = session
        self._rebuild = rebuild
        self._settled = settled
        self._waiting: dict[RoomId, Head] = {}
        self._under_way: dict[RoomId, Head] = {}
        self._ends: dict[RoomId, asyncio.Future[None]] = {}
        self._lanes: set[asyncio.Task[Any]] = set()

    @property
    def has_small(self) -> bool:
        """True while a room that is not huge waits or is being rebuilt."""
        return any(head.seq < HUGE for head in (*self._waiting.values(), *self._under_way.values()))

    def has(self, room: RoomId) -> bool:
        """True while the room waits or is being rebuilt."""
        return room in self._ends

    def add(self, heads: Iterable[Head]) -> None:
        """Rebuild these rooms; those that it has already are left as they are."""
        for head in heads:
            if head.room not in self._ends:
                self._waiting[head.room] = head
                end = asyncio.get_running_loop().create_future()
                end.add_done_callback(_look_at)
                self._ends[head.room] = end
        self._fill()

    async def wait(self, rooms: Iterable[RoomId]) -> None:
        """Until these rooms are done; raises StorageUnavailable when one was given up."""
        ends = [self._ends[room] for room in rooms if room in self._ends]
        if ends:
            await asyncio.wait(ends)
            for end in ends:
                end.result()

    async def stop(self) -> None:
        """Give up what waits, and leave off what is being rebuilt: whoever comes later starts it over."""
        self._give_up(StorageUnavailable())
        lanes = list(self._lanes)
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)

    def _fill(self) -> None:
        """Open as many lanes as have something to do."""
        while len(self._lanes) < min(LANES, len(self._waiting) + len(self._under_way)) and self._next() is not None:
            lane = asyncio.ensure_future(self._run())
            self._lanes.add(lane)
            lane.add_done_callback(self._leave_lane)

    def _leave_lane(self, lane: asyncio.Task[Any]) -> None:
        self._lanes.discard(lane)
        self._fill()

    def _next(self) -> Head | None:
        """The smallest room that waits, unless it is huge and another huge one is being rebuilt."""
        head = min(self._waiting.values(), key=lambda one: one.seq, default=None)
        if head is None or (head.seq >= HUGE and any(one.seq >= HUGE for one in self._under_way.values())):
            return None
        return head

    async def _run(self) -> None:
        """One lane: one room after the other, until there is none for it."""
        head: Head | None = None
        try:
            async with self._session() as link:
                while not link.is_closed() and (head := self._next()) is not None:
                    self._under_way[head.room] = self._waiting.pop(head.room)
                    await self._rebuild(link, head)
                    self._end(head.room, None)
        except StorageUnavailable as error:
            self._give_up(error)
        except Exception as error:
            log.exception("rebuild_lane_broke")
            self._give_up(error)
        finally:
            if head is not None and head.room in self._under_way:
                self._end(head.room, StorageUnavailable())

    def _give_up(self, error: Exception) -> None:
        for room in list(self._waiting):
            del self._waiting[room]
            self._end(room, error)

    def _end(self, room: RoomId, error: Exception | None) -> None:
        self._under_way.pop(room, None)
        end = self._ends.pop(room)
        if not end.done():
            if error is None:
                end.set_result(None)
            else:
                end.set_exception(error)
        self._settled()


def _look_at(end: asyncio.Future[None]) -> None:
    """Take notice of an outcome, which nobody need have waited for."""
    if not end.cancelled():
        end.exception()
