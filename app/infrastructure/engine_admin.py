"""Operator calls of the engine: rooms, ejects, figures, and taking back what could not be committed.

Not here: who may call them (services), validation of fields (domain/room_fields.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any, Final

import ujson

from app.core.ids import EpochMs, Generation, RoomId
from app.domain.actor import actor_members, actor_tail
from app.domain.layout import Phase
from app.domain.marks import mark, split_mark
from app.domain.room import Room, RoomConfig, RoomState
from app.domain.room_codec import config_from_json, config_to_json, field_text
from app.infrastructure.engine import room_error
from app.infrastructure.engine_detail import read_detail
from app.infrastructure.engine_errors import RoomGone
from app.infrastructure.engine_pack import RoomCode
from app.infrastructure.engine_results import RoomFigures, TicketState
from app.infrastructure.keys import RoomKeys, origins_key, rooms_key
from app.infrastructure.lua_loader import Commands, LuaLoader

FIRST_EPOCH: Final = 1


class WriteCode(IntEnum):
    """Outcome of a change of a room."""

    CREATED = 1
    EXISTS = 2
    STALE_GEN = 3
    """The generation asked for is not above that of the deleted room; ``generation`` tells that one."""
    UPDATED = 4
    UNCHANGED = 5
    NO_ROOM = 6
    CONFLICT = 7
    """A field that was expected to have a value has another."""
    DELETED = 8


@dataclass(frozen=True, slots=True)
class RoomWrite:
    """Answer to a change of a room. ``seq``: mark of the fact to wait for; ``background``: need not be waited for.

    UNCHANGED and EXISTS carry the mark of what is still on its way to the journal, else 0.
    """

    code: WriteCode
    generation: int = 0
    cfg_ver: int = 0
    seq: int = 0
    changed: tuple[str, ...] = ()
    background: bool = False
    pre_queue: int = 0
    """Places held at the moment of the change, or dropped by a deletion."""
    waiting: int = 0
    """Dropped by a deletion, like the next two."""
    passes: int = 0
    sessions: int = 0


class EjectCode(IntEnum):
    """Outcome of an eject."""

    OK = 1
    NO_TICKET = 2
    NO_ROOM = 3


@dataclass(frozen=True, slots=True)
class EjectAnswer:
    """``was``: state before, EJECTED when it had been ejected already; ``seq``: mark of the fact to wait for."""

    code: EjectCode
    was: TicketState = TicketState.NONE
    seq: int = 0


class LineCode(IntEnum):
    """Outcome of a flush or purge."""

    OK = 1
    NO_ROOM = 2
    BYPASSED = 3
    """A flush of a room whose queue is off."""
    SCHEDULED = 4
    """A flush of a room whose doors are not open yet."""


@dataclass(frozen=True, slots=True)
class LineAnswer:
    """``waiting``, ``pre_queue``: people it was done to; ``seq``: mark of the fact to wait for."""

    code: LineCode
    generation: int = 0
    waiting: int = 0
    pre_queue: int = 0
    seq: int = 0


_FLUSH_REFUSED: Final = {RoomState.BYPASS: LineCode.BYPASSED, RoomState.SCHEDULED: LineCode.SCHEDULED}


class EngineAdmin:
    """Operator calls. They raise RoomFenced (live state missing or being rebuilt) and StorageUnavailable."""

    def __init__(self, valkey: Commands, prefix: str, loader: LuaLoader) -> None:
        self._valkey = valkey
        self._prefix = prefix
        self._loader = loader

    async def create(self, config: RoomConfig, *, gen: int, salt: bytes, actor: str) -> RoomWrite:
        """Make a room of generation ``gen`` unless the id is in use. Fact: room_created."""
        values = config_to_json(config)
        args = (gen, FIRST_EPOCH, actor_members(actor), salt, field_text(values), *_pairs(values))
        # Listed first: a room that nobody lists would not be drained; a listed one that does not exist harms nothing.
        await self._valkey.execute("SADD", rooms_key(self._prefix), config.id)
        reply = await self._call("room_create", config.id, *args)
        _, outcome, generation, cfg_ver, seq, epoch = _ok(reply, config.id)
        code = (WriteCode.EXISTS, WriteCode.CREATED, WriteCode.STALE_GEN)[outcome]
        return RoomWrite(code, generation, cfg_ver, mark(epoch, seq))

    async def update(
        self,
        room_id: RoomId,
        changes: dict[str, Any],
        *,
        actor: str,
        why: str = "operator",
        expect_gen: int | None = None,
        expect: dict[str, Any] | None = None,
    ) -> RoomWrite:
        """Set fields (snake_case name → value of RoomConfig or its JSON form). Facts: scheduled, room_updated.

        ``expect_gen``: StaleRoom when the room has another generation. ``expect``: values that must hold now, compared
        in the same step, else CONFLICT.
        """
        expected = expect or {}
        args = (
            expect_gen or 0,
            actor_members(actor),
            field_text(why),
            len(expected),
            *_pairs(expected),
            *_pairs(changes),
        )
        reply = await self._call("room_update", room_id, *args)
        if reply[0] == RoomCode.NOROOM:
            return RoomWrite(WriteCode.NO_ROOM)
        if reply[0] == RoomCode.CONFLICT:
            return RoomWrite(WriteCode.CONFLICT)
        _, background, gen, cfg_ver, seq, epoch, pre_queue, *names = _ok(reply, room_id)
        code = WriteCode.UPDATED if names else WriteCode.UNCHANGED
        changed = tuple(name.decode() for name in names)
        return RoomWrite(code, gen, cfg_ver, mark(epoch, seq), changed, background == 1, pre_queue)

    async def delete(self, room_id: RoomId, *, actor: str) -> RoomWrite:
        """End the room's generation and unlink what it left. Fact: room_deleted."""
        reply = await self._call("room_delete", room_id, actor_members(actor))
        if reply[0] == RoomCode.NOROOM:
            return RoomWrite(WriteCode.NO_ROOM)
        _, gen, seq, epoch, waiting, passes, sessions, places = _ok(reply, room_id)
        while (await self._call("collect", room_id))[1] == 1:
            pass
        await self._loader.call("drop_origins", origins_key(self._prefix), room_id)
        return RoomWrite(WriteCode.DELETED, gen, 0, mark(epoch, seq), (), False, places, waiting, passes, sessions)

    async def forget(self, room_id: RoomId) -> None:
        """Take a deleted room whose last fact is committed off the list of rooms that are drained and ticked."""
        await self._valkey.execute("SREM", rooms_key(self._prefix), room_id)

    async def read(self, room_id: RoomId) -> Room | None:
        """The room as the live store has it; None = deleted. RoomFenced when it must not be read now."""
        reply = await self._call("room_read", room_id)
        if reply[0] == RoomCode.NOROOM:
            return None
        _, gen, cfg_ver, created_at, updated_at, *rest = _ok(reply, room_id)
        raw = dict(zip(rest[::2], rest[1::2], strict=True))
        salt = raw.pop(b"salt")
        config = config_from_json({name.decode(): ujson.loads(value) for name, value in raw.items()})
        return Room(config, Generation(gen), salt, cfg_ver, EpochMs(created_at), EpochMs(updated_at))

    async def eject(self, room_id: RoomId, ticket: int, *, actor: str, expect_gen: int | None = None) -> EjectAnswer:
        """Take a ticket out. Fact: ejected, unless it was ejected before.

        ``expect_gen``: StaleRoom when the room has another generation.
        """
        reply = await self._call("eject", room_id, ticket, actor_tail(actor), expect_gen or 0)
        if reply[0] == RoomCode.NOROOM:
            return EjectAnswer(EjectCode.NO_ROOM)
        _, was, seq, epoch = _ok(reply, room_id)
        if was == TicketState.NONE:
            return EjectAnswer(EjectCode.NO_TICKET)
        return EjectAnswer(EjectCode.OK, TicketState(was), mark(epoch, seq))

    async def flush(self, room_id: RoomId, *, actor: str) -> LineAnswer:
        """Give everybody who waits a pass. Fact: promoted by flush, unless nobody waits."""
        reply = await self._call("flush", room_id, actor_tail(actor))
        if reply[0] == RoomCode.NOROOM:
            return LineAnswer(LineCode.NO_ROOM)
        _, refused, gen, waiting, seq, epoch = _ok(reply, room_id)
        if refused:
            return LineAnswer(_FLUSH_REFUSED[refused], gen)
        return LineAnswer(LineCode.OK, gen, waiting, 0, mark(epoch, seq))

    async def purge(self, room_id: RoomId, *, actor: str) -> LineAnswer:
        """Drop everybody in line and in the pre-queue. Fact: purged, unless nobody is there."""
        reply = await self._call("purge", room_id, actor_tail(actor))
        if reply[0] == RoomCode.NOROOM:
            return LineAnswer(LineCode.NO_ROOM)
        _, gen, waiting, pre_queue, seq, epoch = _ok(reply, room_id)
        return LineAnswer(LineCode.OK, gen, waiting, pre_queue, mark(epoch, seq))

    async def figures(
        self, room_ids: Sequence[RoomId], *, detailed: Collection[RoomId] = ()
    ) -> dict[RoomId, RoomFigures | None]:
        """Live figures, of the rooms in ``detailed`` with their details.

        None: the room must not be read now (missing, or being rebuilt). Deleted rooms are left out: a copy of the
        rooms may still have one.
        """
        calls = [("figures", RoomKeys(self._prefix, room_id).header, int(room_id in detailed)) for room_id in room_ids]
        found: dict[RoomId, RoomFigures | None] = {}
        for room_id, reply in zip(room_ids, await self._loader.call_many(calls), strict=True):
            if isinstance(reply, Exception):
                raise reply
            if reply[0] != RoomCode.NOROOM:
                found[room_id] = _figures(reply) if reply[0] == RoomCode.OK else None
        return found

    async def refused_origins(self) -> dict[str, dict[str, int]]:
        """Checks refused for the origin of their page: room id → origin → number (ENG-211)."""
        flat = await self._valkey.execute("HGETALL", origins_key(self._prefix))
        found: dict[str, dict[str, int]] = {}
        for name, number in flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True):
            room_id, _, origin = name.decode().partition(" ")
            found.setdefault(room_id, {})[origin] = int(number)
        return found

    async def undo_join(self, room_id: RoomId, gen: int, seq: int, ticket: int) -> bool:
        """Withdraw the join at mark ``seq``. True: it was committed meanwhile and stands. Fact: join_withdrawn."""
        return await self._undo("undo_join", room_id, gen, seq, ticket)

    async def undo_prejoin(self, room_id: RoomId, gen: int, seq: int, handle: bytes) -> bool:
        """Withdraw the pre-queue place made at mark ``seq``. True: it was committed meanwhile. Fact: join_withdrawn."""
        return await self._undo("undo_prejoin", room_id, gen, seq, handle)

    async def undo_admission(self, room_id: RoomId, gen: int, seq: int, ticket: int) -> bool:
        """Withdraw the admission at mark ``seq``. True: it was committed meanwhile. Fact: admission_withdrawn."""
        return await self._undo("undo_admission", room_id, gen, seq, ticket)

    async def committed(self, room_id: RoomId) -> tuple[int, int, int]:
        """Generation, last seq and last seq known to be in the journal; RoomGone for a room without header."""
        reply = await self._call("committed", room_id)
        if reply[0] == RoomCode.NOHEADER:
            raise RoomGone
        _, gen, seq, committed = _ok(reply, room_id)
        return gen, seq, committed

    async def _undo(self, name: str, room_id: RoomId, gen: int, seq: int, what: int | bytes) -> bool:
        epoch, plain = split_mark(seq)
        reply = _ok(await self._call(name, room_id, gen, epoch, plain, what), room_id)
        return bool(reply[1] == 1)

    async def _call(self, name: str, room_id: RoomId, *args: Any) -> Any:
        return await self._loader.call(name, RoomKeys(self._prefix, room_id).header, *args)


def _pairs(values: dict[str, Any]) -> chain[str]:
    return chain.from_iterable((name, field_text(value)) for name, value in values.items())


def _ok(reply: Any, room_id: RoomId) -> Any:
    if reply[0] != RoomCode.OK:
        raise room_error(reply[0], room_id)
    return reply


def _figures(reply: Sequence[Any]) -> RoomFigures:
    _, gen, cfg_ver, state, rate, waiting, active, pending, passes, joins, passed, oldest, last, *rest = reply
    release, is_floor, seq, committed, now, top_slots, without_url, blocked, shared, *rest = rest
    switch, switch_at, last_change, phase, opens_at, drawn_at, pre_queue, full, *detail = rest
    return RoomFigures(
        generation=gen,
        cfg_ver=cfg_ver,
        state=RoomState(state),
        rate_per_minute=rate,
        waiting=waiting,
        active=active,
        pending_entry=pending,
        passes_outstanding=passes,
        joins_per_min=joins,
        passed_last_minute=passed,
        oldest_wait_sec=None if oldest < 0 else oldest,
        last_ticket=last,
        release_per_min=float(release),
        est_is_floor=is_floor == 1,
        seq=seq,
        committed=committed,
        now=now,
        checks_without_url=without_url,
        blocked_return_urls=blocked,
        shared_sessions=shared,
        detail=read_detail(detail) if detail else None,
        last_switch_at=None if switch_at is None else int(switch_at),
        last_switch=None if switch is None else ujson.loads(switch),
        last_change=last_change,
        phase=Phase(phase),
        opens_at=opens_at,
        drawn_at=drawn_at,
        pre_queue=pre_queue,
        top_address_slots=top_slots,
        joins_refused=None if full is None else full.decode(),
    )
