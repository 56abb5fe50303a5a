"""Checkpoints in Postgres: a folded room at a position of its journal, so that a rebuild folds only what came later.

Made from the journal alone, never from the live state, and so always in agreement with it (FLT-102). Not here: when one
is made (services/checkpoints.py), what a state is (domain/fold_state.py).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Collection
from typing import TYPE_CHECKING, Any, Final

import structlog

from app.core.ids import RoomId
from app.domain.fold import RoomFold
from app.domain.fold_state import STATE_FORM, UnreadableState, dump_fold, load_fold
from app.infrastructure.journal import Head
from app.infrastructure.queries import QUERIES

if TYPE_CHECKING:
    from app.infrastructure.postgres import OwnLink, PooledLink

    Link = OwnLink | PooledLink


SLICE_ROWS: Final = 20_000
"""Facts read and folded at a time: some MB, about 50 ms of this process."""
_FAST: Final = 1
"""Digests do not compress; the rest is mostly zeros."""

log = structlog.get_logger(__name__)


async def fold_room(link: Link, head: Head, now_ms: int) -> RoomFold:
    """The room of ``head`` as its latest readable checkpoint and the facts after it tell it, at moment ``now_ms``.

    UnknownFact, BrokenJournal: this build cannot read a fact, or one is missing.
    """
    fold = await _latest(link, head, now_ms) or RoomFold(now_ms)
    async for rows in _slices(link, head, fold.seq):
        await asyncio.to_thread(fold.feed, rows)  # long work beside others that wait for this process
    return fold


async def take_turn(link: Link) -> bool:
    """True when this session is the one that makes checkpoints now, until ``end_turn``."""
    return bool(await link.fetchval(QUERIES["snapshot_lock"]))


async def end_turn(link: Link) -> None:
    """Let another instance make the next one."""
    await link.fetchval(QUERIES["snapshot_unlock"])


async def most_behind(link: Link, events: int, *, without: Collection[RoomId] = ()) -> Head | None:
    """The room with the most facts since its last checkpoint, if they are more than ``events``."""
    row = await link.fetchrow(QUERIES["snapshot_due"], events, list(without))
    return None if row is None else Head(*row)


async def store(link: Link, head: Head, fold: RoomFold) -> None:
    """Keep ``fold`` as a checkpoint of its position, and of the older ones only the latest, in one transaction."""
    place = (head.room, head.gen, fold.seq)
    pieces = [await asyncio.to_thread(zlib.compress, piece, _FAST) for piece in dump_fold(fold)]
    async with link.transaction():
        await link.execute(QUERIES["snapshot_begin"], *place, STATE_FORM, len(pieces))
        for number, piece in enumerate(pieces):
            await link.execute(QUERIES["snapshot_put"], *place, number, piece)
        await link.execute(QUERIES["snapshot_thin"], head.room, head.gen)


async def sweep(link: Link) -> None:
    """Drop the checkpoints of rooms and generations that have ended."""
    await link.execute(QUERIES["snapshot_sweep"])


async def _latest(link: Link, head: Head, now_ms: int) -> RoomFold | None:
    for row in await link.fetch(QUERIES["snapshot_list"], head.room, head.gen, head.seq):
        try:
            return await _read(link, head, row, now_ms)
        except UnreadableState as error:
            log.warning("snapshot_skipped", room=head.room, seq=row["seq"], reason=str(error))
    return None


async def _read(link: Link, head: Head, row: Any, now_ms: int) -> RoomFold:
    if row["lv"] != STATE_FORM:
        raise UnreadableState(f"lv {row['lv']}, this build reads {STATE_FORM}")
    pieces = []
    for number in range(row["parts"]):
        body = await link.fetchval(QUERIES["snapshot_part"], head.room, head.gen, row["seq"], number)
        try:
            pieces.append(await asyncio.to_thread(zlib.decompress, body or b""))
        except zlib.error as error:
            raise UnreadableState(f"part {number} is damaged") from error
    fold = load_fold(pieces, now_ms)
    if (fold.seq, fold.gen) != (row["seq"], head.gen):
        raise UnreadableState("of another position than it says")
    return fold


async def _slices(link: Link, head: Head, after: int) -> AsyncIterator[list[Any]]:
    """Facts after ``after`` up to ``head.seq`` in slices of rows (seq, type, lv, at, body)."""
    while after < head.seq:
        rows = await link.fetch(QUERIES["journal_slice"], head.room, head.gen, after, head.seq, SLICE_ROWS)
        if not rows:
            return
        after = rows[-1][0]
        yield rows
