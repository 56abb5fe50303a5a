"""The fleet's sums of what each web worker counts: small increases, handed over about once a second.

Nothing here is on a request's way. While the live store is away the counts stay here, and it gets them later; one whose
answer was lost is handed over again, so that a sum may be too high by what one second brought, and never misses any.
Source: ENG-202, ENG-203, ENG-210, ENG-211.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Final

import structlog

from app.core.clock import wall_ms
from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.inline.failures import Failure
from app.infrastructure.engine_counts import EngineCounts, RoomTally
from app.infrastructure.origin_failures import OriginFailures
from app.infrastructure.pages_seen import PagesSeen
from app.services.fleet_counts import FleetCounts
from app.services.inline_counts import InlineCounts
from app.services.visitor_counts import MAX_ORIGIN_PAIRS, VisitorCounts

EVERY_SEC: Final = 1.0

log = structlog.get_logger(__name__)


class Tally:
    """Hands over the counts of one web worker."""

    def __init__(
        self,
        *,
        counts: VisitorCounts,
        engine: EngineCounts,
        fleet: FleetCounts | None = None,
        pages: PagesSeen | None = None,
        inline: tuple[InlineCounts, OriginFailures] | None = None,
        every_sec: float = EVERY_SEC,
    ) -> None:
        """``fleet``: what shows the counts of the instance, ``pages``: where pages are noted from which checks came,
        ``inline``: failures of origins and where they are summed; None = nobody asks for them."""
        self._inline = inline
        self._sent_failures: Counter[tuple[str, Failure]] = Counter()
        self._fleet = fleet
        self._pages = pages
        self._counts = counts
        self._engine = engine
        self._every_sec = every_sec
        self._sent: Counter[tuple[str, str]] = Counter()
        self._sent_origins: Counter[tuple[str, str]] = Counter()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Hand over regularly from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="tally")

    async def stop(self) -> None:
        """Hand over what is left, if the live store takes it, and end."""
        if self._task is None:
            return
        self._stopping.set()
        await self._task
        with contextlib.suppress(StorageUnavailable):
            await self.hand_over()

    async def hand_over(self) -> None:
        """Add everything counted since the last time. Raises StorageUnavailable; nothing is lost by it."""
        await self._rooms()
        await self._origins()
        await self._note_pages()
        await self._failures()
        if self._fleet is not None:
            await self._fleet.hand_over()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._every_sec)
            try:
                await self.hand_over()
            except StorageUnavailable:
                log.debug("counts_kept_back", why="valkey cannot be reached")
            except Exception:
                log.exception("tally_failed")

    async def _rooms(self) -> None:
        counted = Counter(self._counts.by_room)
        news = counted - self._sent
        rules, self._counts.rules = self._counts.rules, {}
        tallies: dict[tuple[str, int, int], RoomTally] = {}
        for (room_id, what), number in news.items():
            tallies.setdefault((room_id, 0, 0), RoomTally(RoomId(room_id))).plain[what] = number
        for key, hits in rules.items():
            index = (key.room_id, key.generation, key.cfg_ver)
            tallies.setdefault(index, RoomTally(RoomId(key.room_id), key.generation, key.cfg_ver)).rules[key.field] = (
                hits
            )
        try:
            later = await self._engine.add(list(tallies.values())) if tallies else []
        except BaseException:
            self._counts.take_back(rules)
            raise
        waiting = {(one.room_id, one.generation, one.cfg_ver) for one in later}
        self._counts.take_back(
            {key: hits for key, hits in rules.items() if (key.room_id, key.generation, key.cfg_ver) in waiting}
        )
        self._sent = Counter({pair: n for pair, n in counted.items() if (pair[0], 0, 0) not in waiting}) | self._sent

    async def _origins(self) -> None:
        counted = Counter(self._counts.refused_origins)
        if news := counted - self._sent_origins:
            await self._engine.add_origins(news, limit=MAX_ORIGIN_PAIRS)
            self._sent_origins = counted

    async def _note_pages(self) -> None:
        pages, self._counts.pages = self._counts.pages, set()
        if self._pages is None or not pages:
            return
        try:
            await self._pages.add(pages, wall_ms())
        except BaseException:
            self._counts.pages |= pages
            raise

    async def _failures(self) -> None:
        if self._inline is None:
            return
        counts, store = self._inline
        counted = Counter(counts.failures)
        if news := counted - self._sent_failures:
            await store.add({(room_id, failure.value): n for (room_id, failure), n in news.items()}, wall_ms())
            self._sent_failures = counted
