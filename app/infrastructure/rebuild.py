"""Rebuilding a room's live state from its journal: from its latest checkpoint and the facts after it.

The epoch is raised in Postgres first: from then on no fact of the lost live state can be stored, and the journal of the
room stands still while it is read. The room answers nobody until the header is written, last of all (FLT-085, FLT-086).
Not here: when a room has to be rebuilt (``services/recovery.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from app.core.clock import mono
from app.core.ids import RoomId
from app.core.pacing import rest
from app.domain.fold_image import RoomImage, Write, make_image
from app.infrastructure.journal import Head
from app.infrastructure.postgres import UNREACHABLE, Postgres
from app.infrastructure.queries import QUERIES
from app.infrastructure.snapshots import fold_room

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from app.infrastructure.postgres import OwnLink

STATEMENT_SEC: Final = 30.0
"""Longest statement of a rebuild; a Postgres that hangs must not hold the other rooms up for ever."""
IDLE_MS: Final = 15_000
"""Silence after which Postgres takes a rebuild's lock away: its instance is frozen, or cut off (FLT-085)."""
SIGN_SEC: Final = 3.0
"""How often a rebuild that computes or writes gives a sign of life."""
CALL_BYTES: Final = 250_000
"""Most bytes written in one call of the live store: well below 2 ms of it."""

MEMBER_WEIGHT: Final = 125
"""What one member of a hash or sorted set counts for among the bytes of a call."""

_T = TypeVar("_T")


class Overtaken(Exception):
    """Another instance has begun a later rebuild of this room."""


class NotNeeded(Exception):
    """Another instance has rebuilt this room since it was found wrong."""


class LiveStore(Protocol):
    """What a rebuild asks of the engine (``engine_jobs.EngineJobs``); False = a later rebuild has begun."""

    async def rebuild_begin(self, room_id: RoomId, gen: int, epoch: int) -> bool:
        """Fence the room and drop what is left of it."""
        ...

    async def rebuild_put(self, room_id: RoomId, epoch: int, writes: Sequence[Write]) -> bool:
        """Write one slice."""
        ...

    async def rebuild_end(self, room_id: RoomId, epoch: int, header: bytes, cfg: dict[str, bytes]) -> bool:
        """Write configuration and header: the room answers."""
        ...


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild did."""

    head: Head
    tickets: int
    seconds: float


class Rebuilder:
    """Rebuilds rooms. ``now_ms``: wall time by the clock of the live store."""

    def __init__(self, *, postgres: Postgres, live: LiveStore, now_ms: Callable[[], Awaitable[int]]) -> None:
        self._postgres = postgres
        self._live = live
        self._now_ms = now_ms

    def session(self) -> AbstractAsyncContextManager[OwnLink]:
        """A connection for rebuilds, outside the pool."""
        return self._postgres.dedicated(command_timeout_sec=STATEMENT_SEC, idle_ms=IDLE_MS)

    async def rebuild(
        self, link: OwnLink, room: RoomId, wanted: Callable[[], Awaitable[Head | None]]
    ) -> Rebuilt | None:
        """Rebuild a room; None when another instance is at it.

        ``link``: from ``session``; the lock of the room lives as long as it. ``wanted`` is asked once it is held, and
        tells the head to rebuild, or None (NotNeeded): what made the caller ask may be over. Overtaken: this rebuild
        took so long that another began. UnknownFact, BrokenJournal: the journal cannot be read by this build; the room
        stays fenced.
        """
        if not await link.fetchval(QUERIES["journal_rebuild_lock"], room):
            return None
        try:
            head = await wanted()
            if head is None:
                raise NotNeeded
            return await self._rebuild(link, head)
        finally:
            # A lost connection has given the lock back itself.
            if not link.is_closed():
                await link.fetchval(QUERIES["journal_rebuild_unlock"], room)

    @asynccontextmanager
    async def new_life(self, heads: Sequence[Head]) -> AsyncIterator[tuple[set[RoomId], set[RoomId]]]:
        """Raise the epochs of rooms whose live state, found where ``heads`` say, goes on in another life of its store.

        The live state may lack facts that a process still waits for, and gives their numbers to others; the old epoch
        tells the ones from the others (ENG-276). Yields the rooms that were raised, and those that stand elsewhere by
        now; nobody else rebuilds or compares the former meanwhile, and whom another instance is at are in neither.
        """
        async with self.session() as link:
            rows = await link.fetch(QUERIES["journal_rebuild_lock_many"], [head.room for head in heads])
            mine = {RoomId(row["room"]) for row in rows}
            try:
                taken = [head for head in heads if head.room in mine]
                columns = zip(*[(h.room, h.gen, h.epoch, h.seq) for h in taken], strict=True) if taken else [[]] * 4
                raised = await link.fetch(QUERIES["journal_new_life"], *map(list, columns))
                moved = {RoomId(row["room"]) for row in raised}
                yield moved, mine - moved
            finally:
                if not link.is_closed():
                    await link.fetchval(QUERIES["journal_rebuild_unlock_many"], list(mine))

    async def _rebuild(self, link: OwnLink, head: Head) -> Rebuilt:
        began = mono()
        epoch, seq = await link.fetchrow(QUERIES["journal_take_epoch"], head.room, head.gen) or (0, 0)
        taken = Head(head.room, head.gen, epoch, seq, head.deleted)
        _go_on(await self._live.rebuild_begin(head.room, head.gen, epoch))
        last_at = await link.fetchval(QUERIES["journal_last_at"], head.room, head.gen, seq)
        fold = await fold_room(link, taken, max(await self._now_ms(), last_at or 0))
        image = await _beside(link, lambda: make_image(fold))
        calls = _calls(image)
        signed = mono()
        while writes := await _beside(link, lambda: next(calls, None)):
            slice_began = mono()
            _go_on(await self._live.rebuild_put(head.room, epoch, writes))
            await rest(slice_began)
            if mono() - signed > SIGN_SEC:
                signed = mono()
                await _sign(link)
        _go_on(await self._live.rebuild_end(head.room, epoch, image.header_bytes(epoch), image.cfg()))
        return Rebuilt(taken, image.tickets, mono() - began)


async def _beside(link: OwnLink, work: Callable[[], _T]) -> _T:
    """Do long work in a thread, so that others are served meanwhile, with signs of life over ``link``."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        while not (await asyncio.wait([task], timeout=SIGN_SEC))[0]:
            await _sign(link)
    finally:
        task.cancel()
    return task.result()


async def _sign(link: OwnLink) -> None:
    """A sign of life. Without the lock it goes on: who has it now takes a later epoch, and this one is overtaken."""
    with contextlib.suppress(*UNREACHABLE):
        await link.fetchval("SELECT 1")


def _go_on(allowed: bool) -> None:
    if not allowed:
        raise Overtaken


def _calls(image: RoomImage) -> Iterator[list[Write]]:
    """Slices put together to calls of about CALL_BYTES."""
    call: list[Write] = []
    size = 0
    for write in image.writes():
        weight = len(write[2]) if len(write) == 3 else len(write[1]) * MEMBER_WEIGHT
        if call and size + weight > CALL_BYTES:
            yield call
            call, size = [], 0
        call.append(write)
        size += weight
    if call:
        yield call
