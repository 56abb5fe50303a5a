"""The journal in Postgres: appending facts of many rooms in one commit, and reading them back.

A room's facts are appended only when its head stands where the caller's live state says it does, so the journal never
holds two histories of one position (FLT-083). Rooms that do not match drop out of the commit alone (FLT-115). Not here:
where the facts come from (``drain.py``), what they mean for a room (``domain/fold.py``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import ujson

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.facts import HEAD, FactType, UnknownFact, decode_body
from app.domain.notes import is_noted
from app.infrastructure.notes_store import config_before, note
from app.infrastructure.postgres import Postgres
from app.infrastructure.queries import QUERIES

if TYPE_CHECKING:
    from app.infrastructure.postgres import PooledLink

_WITH_ADDRESS: Final = frozenset({FactType.JOINED, FactType.PREJOINED})
_IP: Final = slice(4, 20)
"""Where those bodies have the readable address in the outbox; the journal keeps it in a column of its own."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Outbox elements of one room: facts ``base`` + 1, ``base`` + 2, …"""

    room: RoomId
    gen: int
    epoch: int
    base: int
    elements: Sequence[bytes]

    @property
    def last(self) -> int:
        """Seq of the last element."""
        return self.base + len(self.elements)


class Outcome(Enum):
    """What became of a batch."""

    STORED = "stored"
    REPLAYED = "replayed"
    """Its beginning was stored before, by a writer whose answer was lost."""
    FORKED = "forked"
    """The journal holds another history, or a rebuild has taken over: the live state must not go on."""
    AHEAD = "ahead"
    """The live state is further than the journal (an older Postgres under it): nothing is stored, nothing rebuilt."""
    POISONED = "poisoned"
    """A fact of this room cannot be stored."""


@dataclass(frozen=True, slots=True)
class Appended:
    """Outcome for one batch. ``committed``: last position known to be stored; ``reason`` is for the log."""

    batch: Batch
    outcome: Outcome
    committed: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Head:
    """Last journaled position of a room's generation, and the epoch that may append."""

    room: RoomId
    gen: int
    epoch: int
    seq: int
    deleted: bool = False


def outbox_to_row(element: bytes) -> tuple[int, int, int, bytes | None, bytes]:
    """(type, lv, at, ip, body) of an outbox element; raises UnknownFact when it has no readable head."""
    if len(element) < HEAD.size:
        raise UnknownFact(f"element of {len(element)} bytes")
    kind, lv, at = HEAD.unpack_from(element)
    body = element[HEAD.size :]
    if kind in _WITH_ADDRESS:
        return kind, lv, at, body[_IP], body[: _IP.start] + body[_IP.stop :]
    return kind, lv, at, None, body


def recorded_at(element: bytes) -> int:
    """Recorded time of an outbox element, epoch ms; 0 when it has no readable head."""
    return int(HEAD.unpack_from(element)[2]) if len(element) >= HEAD.size else 0


class Undone(Exception):
    """Ends the transaction of a probe."""


class Journal:
    """Appends and reads. Every method raises StorageUnavailable when Postgres cannot be reached."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    async def append(self, batches: Sequence[Batch]) -> list[Appended]:
        """Store the facts of many rooms in one transaction; one answer per batch, in order.

        StorageUnavailable: the outcome is unknown or nothing was stored. Asking again with the same batches is right
        in both cases.
        """
        readable, done = _readable(batches)
        stored = await self._store(readable)
        for batch in readable:
            if batch.room in stored:
                done[batch.room] = stored[batch.room]
        rest = [batch for batch in readable if batch.room not in done]
        if rest:
            done.update({answer.batch.room: answer for answer in await self._explain(rest)})
        return [done[batch.room] for batch in batches]

    async def probe(self) -> None:
        """Do what a commit does with one row, and take it back (OBS-024). Raises StorageUnavailable."""
        try:
            async with self._postgres.acquire() as link, link.transaction():
                await link.execute(QUERIES["journal_probe"])
                raise Undone
        except Undone:
            return
        except asyncpg.PostgresError as error:
            raise StorageUnavailable from error

    async def heads(self, rooms: Iterable[tuple[RoomId, int]]) -> dict[tuple[RoomId, int], Head]:
        """Heads of the rooms and generations named; missing ones are left out."""
        asked = list(rooms)
        rows = await self._postgres.fetch(
            QUERIES["journal_heads"], [room for room, _ in asked], [gen for _, gen in asked]
        )
        return {(row["room"], row["gen"]): Head(*row) for row in rows}

    async def current_heads(self, room: RoomId | None = None) -> list[Head]:
        """Heads of the latest generations of all rooms, or of one; deleted rooms say so."""
        return [Head(*row) for row in await self._postgres.fetch(QUERIES["journal_current_heads"], room)]

    async def room_ids(self) -> list[RoomId]:
        """Ids of the rooms that are not deleted."""
        return [row["room"] for row in await self._postgres.fetch(QUERIES["rooms_names"])]

    async def _store(self, batches: Sequence[Batch]) -> dict[RoomId, Appended]:
        if not batches:
            return {}
        try:
            return await self._store_together(batches)
        except (asyncpg.PostgresError, struct.error, ValueError, UnknownFact) as error:
            if len(batches) == 1:
                return {batches[0].room: _poisoned(batches[0], error)}
        # One of them spoils the statement for all: each on its own, so that only that one fails.
        answers: dict[RoomId, Appended] = {}
        for batch in batches:
            answers.update(await self._store([batch]))
        return answers

    async def _store_together(self, batches: Sequence[Batch]) -> dict[RoomId, Appended]:
        columns = _columns(batches)
        about_rooms = [batch for batch in batches if any(map(is_noted, batch.elements))]
        async with self._postgres.acquire() as link:
            if about_rooms:
                async with link.transaction():
                    stored = await _append(link, batches, columns)
                    for batch in about_rooms:
                        if batch.room in stored:
                            await _project(link, batch)
            else:
                stored = await _append(link, batches, columns)
        return stored

    async def _explain(self, batches: Sequence[Batch]) -> list[Appended]:
        heads = await self.heads((batch.room, batch.gen) for batch in batches)
        answers = []
        for batch in batches:
            head = heads.get((batch.room, batch.gen))
            if head is None or head.seq < batch.base or head.epoch < batch.epoch:
                stands = "nowhere" if head is None else f"at {head.seq}, epoch {head.epoch}"
                answers.append(Appended(batch, Outcome.AHEAD, 0, f"journal stands {stands}"))
            elif head.epoch > batch.epoch:
                answers.append(Appended(batch, Outcome.FORKED, 0, f"rebuilt as epoch {head.epoch}"))
            else:
                answers.append(await self._compare(batch, head))
        return answers

    async def _compare(self, batch: Batch, head: Head) -> Appended:
        upto = min(batch.last, head.seq)
        rows = await self._postgres.fetch(QUERIES["journal_slice_with_ip"], batch.room, batch.gen, batch.base, upto)
        if len(rows) != upto - batch.base:
            return Appended(batch, Outcome.POISONED, batch.base, "the journal has a gap")
        for row, element in zip(rows, batch.elements, strict=False):
            seq, *stored = row
            mine = outbox_to_row(element)
            # A blanked address (FLT-150) is no difference.
            if (*stored[:3], stored[4]) != (*mine[:3], mine[4]) or stored[3] not in (None, mine[3]):
                return Appended(batch, Outcome.FORKED, 0, f"another fact is journaled at {seq}")
        return Appended(batch, Outcome.REPLAYED, upto)


def _poisoned(batch: Batch, error: Exception) -> Appended:
    return Appended(batch, Outcome.POISONED, batch.base, f"{type(error).__name__}: {error}")


def _readable(batches: Sequence[Batch]) -> tuple[list[Batch], dict[RoomId, Appended]]:
    """Batches whose elements all have a head, and the answers for the others."""
    good: list[Batch] = []
    bad: dict[RoomId, Appended] = {}
    for batch in batches:
        short = next((e for e in batch.elements if len(e) < HEAD.size), None)
        if short is None:
            good.append(batch)
        else:
            bad[batch.room] = _poisoned(batch, UnknownFact(f"element of {len(short)} bytes"))
    return good, bad


def _columns(batches: Sequence[Batch]) -> tuple[list[Any], ...]:
    """The facts of all batches as columns: batch number (from 1), seq, type, lv, at, ip, body."""
    numbers: list[int] = []
    seqs: list[int] = []
    rows: list[tuple[int, int, int, bytes | None, bytes]] = []
    for number, batch in enumerate(batches, 1):
        count = len(batch.elements)
        numbers += [number] * count
        seqs += range(batch.base + 1, batch.base + count + 1)
        rows += map(outbox_to_row, batch.elements)
    return numbers, seqs, *(list(column) for column in zip(*rows, strict=True))


async def _append(link: PooledLink, batches: Sequence[Batch], columns: tuple[list[Any], ...]) -> dict[RoomId, Appended]:
    moved = await link.fetch(
        QUERIES["journal_append"],
        [b.room for b in batches],
        [b.gen for b in batches],
        [b.epoch for b in batches],
        [b.base for b in batches],
        [b.last for b in batches],
        *columns,
    )
    stored = (batches[row[0] - 1] for row in moved)
    return {batch.room: Appended(batch, Outcome.STORED, batch.last) for batch in stored}


async def _project(link: PooledLink, batch: Batch) -> None:
    """Bring the table ``rooms`` up to the room facts of one batch, and note its acts (ADM-252).

    Inside the transaction that stores them, so that neither exists without the other.
    """
    for element in filter(is_noted, batch.elements):
        kind, lv, at, _, body = outbox_to_row(element)
        before = await config_before(link, batch.room, batch.gen) if kind == FactType.ROOM_UPDATED else {}
        await note(link, batch.room, (kind, lv, at, body), before)
        if kind > FactType.SCHEDULED:
            continue
        fact: Any = decode_body(kind, lv, body)
        if kind == FactType.ROOM_CREATED:
            config = ujson.dumps(fact.config)
            await link.execute(QUERIES["room_created"], batch.room, batch.gen, fact.cfg_ver, config, fact.salt, at)
        elif kind in (FactType.ROOM_UPDATED, FactType.SCHEDULED):
            changes = ujson.dumps(fact.changes)
            await link.execute(QUERIES["room_updated"], batch.room, batch.gen, fact.cfg_ver, changes, fact.updated_at)
        else:
            await link.execute(QUERIES["room_deleted"], batch.room, batch.gen, at)
