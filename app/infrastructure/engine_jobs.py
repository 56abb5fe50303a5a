"""Calls of the engine's background work: ticks, draining of outboxes, fencing, verifying and rebuilding.

Not here: when they are called (workers/), the journal itself (journal.py), the image of a rebuilt room (fold_image.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from secrets import token_bytes
from typing import Any, Final, NamedTuple

from app.core.clock import wall_ms
from app.core.ids import RoomId
from app.domain.draw import SEED_BYTES
from app.domain.layout import Phase, unpack_header
from app.domain.marks import mark
from app.infrastructure.engine import room_error
from app.infrastructure.engine_errors import RoomFenced, RoomGone
from app.infrastructure.engine_pack import RoomCode
from app.infrastructure.engine_results import TickAnswer
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import LuaLoader

LAPSED_TTL_MS: Final = 86_400_000
"""How long tickets that are over are remembered, unless LAPSED_TTL_MS says otherwise."""

Write = tuple[Any, ...]
"""One piece of a rebuilt room: ("t" | "d" | "h", chunk, bytes),
("r" | "lp" | "pn" | "hm" | "c" | "hc", byte offset, bytes),
("o" | "i" | "in" | "u" | "ut" | "x0" | "x1" | "hx" | "ip" | "ipn" | "f", [(field, value), …]),
("e", [(ticket, due ds), …]), ("w", [ticket, …]), ("pu" | "vi" | "vip", [element, …])."""
_PAIRS: Final = frozenset({"o", "i", "in", "u", "ut", "x0", "x1", "hx", "ip", "ipn", "f", "e"})
_LISTS: Final = frozenset({"w", "pu", "vi", "vip"})


@dataclass(frozen=True, slots=True)
class Pulled:
    """Facts of one room that are not in the journal yet. ``base``: seq before the first of ``elements``."""

    gen: int
    epoch: int
    base: int
    elements: list[bytes]


class Place(NamedTuple):
    """Where the live state of a room was found, and the epoch that it has from now on."""

    room_id: RoomId
    gen: int
    epoch: int
    seq: int
    as_epoch: int


@dataclass(frozen=True, slots=True)
class DrawState:
    """A pre-queue and its draw. Places are numbers; drawn are those behind ``base`` that were held at the opening."""

    phase: Phase
    gen: int
    seed: bytes
    base: int
    places: int
    count: int
    done: int


class EngineJobs:
    """Background calls. They raise RoomGone, RoomFenced and StorageUnavailable."""

    def __init__(self, prefix: str, loader: LuaLoader, *, lapsed_ttl_ms: int = LAPSED_TTL_MS) -> None:
        """``lapsed_ttl_ms``: how long ticks keep what is known of tickets that are over."""
        self._lapsed_ttl_ms = lapsed_ttl_ms
        self._prefix = prefix
        self._loader = loader

    async def tick(self, room_id: RoomId, now_ms: int | None = None, seed: bytes | None = None) -> TickAnswer:
        """Move one room on. ``again``: a work limit ended it, call at once.

        ``now_ms``: this instance's wall clock (ENG-299); ``seed``: of a draw that this call may begin, 32 random bytes.
        Tests name them, everybody else leaves them out.
        """
        now_ms = wall_ms() if now_ms is None else now_ms
        args = (now_ms, seed or token_bytes(SEED_BYTES), self._lapsed_ttl_ms)
        return _tick_answer(await self._call("tick", room_id, *args), room_id)

    async def tick_many(self, room_ids: Sequence[RoomId]) -> list[TickAnswer | Exception]:
        """Ticks of many rooms; the error of one room stands in its place."""
        return [
            _value_or_error(_tick_answer, reply, room_id)
            for room_id, reply in zip(
                room_ids,
                await self._many(
                    "tick", [(r, wall_ms(), token_bytes(SEED_BYTES), self._lapsed_ttl_ms) for r in room_ids]
                ),
                strict=True,
            )
        ]

    async def draw_state(self, room_id: RoomId) -> DrawState:
        """How far the opening of the doors is, and what a draw is computed from."""
        reply = await self._call("draw_read", room_id, -1)
        if reply[0] != RoomCode.OK:
            raise room_error(reply[0], room_id)
        return DrawState(Phase(reply[1]), *reply[2:])

    async def draw_chunk(self, room_id: RoomId, chunk: int) -> bytes:
        """Place records of one chunk (layout.PlaceRecord, one after the other)."""
        reply = await self._call("draw_read", room_id, chunk)
        if reply[0] != RoomCode.OK:
            raise room_error(reply[0], room_id)
        return bytes(reply[1])

    async def draw_put(self, room_id: RoomId, gen: int, seed: bytes, done: int, order: bytes) -> int:
        """Place the next part of the order, u32 each. Returns how many have their number; -1 = no such draw runs."""
        reply = await self._call("draw_put", room_id, gen, seed, done, order)
        if reply[0] != RoomCode.OK:
            raise room_error(reply[0], room_id)
        return int(reply[1])

    async def draw_end(self, room_id: RoomId, gen: int, seed: bytes, identities: int, digest: bytes) -> bool:
        """Close the draw; True when this call did it. Fact: drawn."""
        reply = await self._call("draw_end", room_id, gen, seed, identities, digest)
        if reply[0] != RoomCode.OK:
            raise room_error(reply[0], room_id)
        return bool(reply[1] == 1)

    async def drain_next(self, room_id: RoomId, committed: int, limit: int) -> Pulled:
        """Acknowledge facts up to ``committed``, then pull at most ``limit``.

        The acknowledgement is ignored when it is not between the known one and the last fact (0 = pull only).
        """
        return _pulled(await self._call("drain_next", room_id, committed, limit), room_id)

    async def drain_many(self, pulls: Sequence[tuple[RoomId, int]], limit: int) -> list[Pulled | Exception]:
        """drain_next of many rooms; the error of one room stands in its place."""
        replies = await self._many("drain_next", [(room_id, committed, limit) for room_id, committed in pulls])
        return [_value_or_error(_pulled, reply, pull[0]) for pull, reply in zip(pulls, replies, strict=True)]

    async def header(self, room_id: RoomId) -> dict[str, Any] | None:
        """The stored header by field name, plus ``verified``; None without one. Works on fenced rooms too."""
        return _header(await self._call("header", room_id))

    async def headers(self, room_ids: Sequence[RoomId]) -> list[dict[str, Any] | None]:
        """Headers of many rooms."""
        replies = await self._many("header", [(room_id,) for room_id in room_ids])
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return [_header(reply) for reply in replies]

    async def verify_many(self, places: Sequence[Place]) -> list[bool | Exception]:
        """Let rooms answer whose headers are still exactly at these points; False = it is not, or is fenced.

        The error of one room stands in its place.
        """
        replies = await self._many("verify", [tuple(place) for place in places])
        return [
            reply if isinstance(reply, Exception) else bool(reply[0] == RoomCode.OK and reply[1] == 1)
            for reply in replies
        ]

    async def fence(self, room_id: RoomId, gen: int, epoch: int) -> bool:
        """Stop the room if its live state is of this generation and not of a later epoch. True = nothing answers."""
        return bool((await self._call("fence", room_id, gen, epoch))[1] == 1)

    async def rebuild_begin(self, room_id: RoomId, gen: int, epoch: int) -> bool:
        """Claim the rebuild with number ``epoch`` and clear the room. False = overtaken, or the room lives."""
        chunk = 0
        while True:
            _, claimed, chunk = await self._call("rebuild_begin", room_id, gen, epoch, chunk)
            if not claimed or not chunk:
                return bool(claimed == 1)

    async def rebuild_put(self, room_id: RoomId, epoch: int, writes: Sequence[Write]) -> bool:
        """Write pieces (≤ 256 KB, ≤ 2000 members a call). False = the rebuild was overtaken."""
        args = [value for write in writes for value in _flat_write(write)]
        return bool((await self._call("rebuild_put", room_id, epoch, *args))[1] == 1)

    async def rebuild_end(self, room_id: RoomId, epoch: int, header: bytes, cfg: dict[str, bytes]) -> bool:
        """Write configuration (field → JSON, ``salt`` raw) and header; the room answers. False = overtaken."""
        pairs = [value for item in cfg.items() for value in item]
        return bool((await self._call("rebuild_end", room_id, epoch, header, *pairs))[1] == 1)

    async def _call(self, name: str, room_id: RoomId, *args: Any) -> Any:
        return await self._loader.call(name, RoomKeys(self._prefix, room_id).header, *args)

    async def _many(self, name: str, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        if not calls:
            return []
        return await self._loader.call_many(
            [(name, RoomKeys(self._prefix, room_id).header, *args) for room_id, *args in calls]
        )


def _flat_write(write: Write) -> Iterator[Any]:
    kind, *values = write
    if kind in _PAIRS:
        values = [value for pair in values[0] for value in pair]
    elif kind in _LISTS:
        values = list(values[0])
    yield kind
    yield len(values)
    yield from values


def _value_or_error(parse: Any, reply: Any, room_id: RoomId) -> Any:
    if isinstance(reply, Exception):
        return reply
    try:
        return parse(reply, room_id)
    except (RoomFenced, RoomGone) as error:
        return error


def _tick_answer(reply: Any, room_id: RoomId) -> TickAnswer:
    if reply[0] != RoomCode.OK:
        raise room_error(reply[0], room_id)
    _, promoted, skipped, expired, again, seq, epoch, phase, opens_at = reply
    return TickAnswer(promoted, skipped, expired, again == 1, mark(epoch, seq), Phase(phase), opens_at)


def _pulled(reply: Any, room_id: RoomId) -> Pulled:
    if reply[0] != RoomCode.OK:
        raise room_error(reply[0], room_id)
    _, gen, epoch, base, *elements = reply
    return Pulled(gen, epoch, base, elements)


def _header(reply: Any) -> dict[str, Any] | None:
    if reply[0] == RoomCode.NOHEADER:
        return None
    _, verified, data = reply
    fields: dict[str, Any] = {name: _whole(value) for name, value in unpack_header(data).items()}
    fields["deleted"] = fields["deleted"] == 1
    fields["fenced"] = fields["fenced"] == 1
    fields["verified"] = verified == 1
    return fields


def _whole(value: float) -> float | int:
    return int(value) if value.is_integer() else value
