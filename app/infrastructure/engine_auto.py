"""Calls by which the leader decides about rooms: threshold switches and autotune.

Each call carries the epoch of the leader's term; a room that a later leader has decided about refuses it (FLT-026). Not
here: when they are made (services/), how a rate is found (domain/autotune.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import ujson

from app.core.ids import RoomId
from app.domain.actor import SYSTEM, Actor, actor_members
from app.domain.automation import AutoActivate
from app.domain.marks import mark
from app.domain.room import Room, RoomState
from app.infrastructure.engine import room_error
from app.infrastructure.engine_pack import RoomCode
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import LuaLoader


class Overtaken(Exception):
    """A later leader has decided about the room: this one's term is over."""


class Switch(IntEnum):
    """What a look at a room's threshold did."""

    NOTHING = 0
    OPENED = 1
    CLOSED = 2


_OVERTAKEN = 3


@dataclass(frozen=True, slots=True)
class Switched:
    """Outcome of one look. ``arrivals``: of the last full minute; ``seconds``: how long the condition had held."""

    outcome: Switch
    arrivals: int
    seconds: int
    seq: int


@dataclass(frozen=True, slots=True)
class Tuning:
    """What autotune needs to know of a room at one moment."""

    generation: int
    cfg_ver: int
    state: RoomState
    rate: int
    waiting: int
    occupancy: int
    max_concurrent: int | None
    passes_outstanding: int
    hand_rate: int
    """Last rate that a person set."""
    hand_rate_age_ms: int | None
    """How long ago; None: it is the room's first rate."""


class EngineAuto:
    """The calls. They raise RoomGone, RoomFenced, StaleRoom, Overtaken and StorageUnavailable."""

    def __init__(self, prefix: str, loader: LuaLoader, *, instance: str) -> None:
        """``instance``: name of the one that decides."""
        self._prefix = prefix
        self._loader = loader
        self._actor = actor_members(Actor(SYSTEM, kind=SYSTEM, instance=instance))

    async def switch_many(
        self, rooms: Sequence[tuple[Room, AutoActivate]], *, leader: int
    ) -> list[Switched | Exception]:
        """Look at the thresholds of rooms; the error of one room stands in its place."""
        calls = [
            ("auto_switch", self._key(room.id), room.generation, room.cfg_ver, leader, rule.sustain_sec,
             rule.release_after_sec, self._actor)
            for room, rule in rooms
        ]  # fmt: skip
        replies = await self._loader.call_many(calls) if calls else []
        return [_switched(reply, room.id) for reply, (room, _) in zip(replies, rooms, strict=True)]

    async def tuning_many(self, room_ids: Sequence[RoomId]) -> list[Tuning | Exception]:
        """Read rooms; the error of one room stands in its place."""
        replies = await self._loader.call_many([("tuning", self._key(room_id)) for room_id in room_ids])
        return [_tuning(reply, room_id) for reply, room_id in zip(replies, room_ids, strict=True)]

    async def tune(
        self, room_id: RoomId, seen: Tuning, rate: int, *, leader: int, hold_ms: int, figures: Mapping[str, Any]
    ) -> bool:
        """Set ``rate`` if the room is still as it was ``seen``; False when it is not."""
        text = ujson.dumps({**figures, "leader": leader}, ensure_ascii=False, escape_forward_slashes=False)
        args = (seen.generation, seen.cfg_ver, leader, seen.rate, rate, hold_ms, text, self._actor)
        reply = await self._loader.call("tune", self._key(room_id), *args)
        if reply[0] != RoomCode.OK:
            raise room_error(reply[0], room_id)
        if reply[1] == _OVERTAKEN:
            raise Overtaken
        return bool(reply[1] == 1)

    def _key(self, room_id: RoomId) -> str:
        return RoomKeys(self._prefix, room_id).header


def _switched(reply: Any, room_id: RoomId) -> Switched | Exception:
    if isinstance(reply, Exception):
        return reply
    if reply[0] != RoomCode.OK:
        return room_error(reply[0], room_id)
    _, outcome, arrivals, seconds, seq, epoch = reply
    return Overtaken() if outcome == _OVERTAKEN else Switched(Switch(outcome), arrivals, seconds, mark(epoch, seq))


def _tuning(reply: Any, room_id: RoomId) -> Tuning | Exception:
    if isinstance(reply, Exception):
        return reply
    if reply[0] != RoomCode.OK:
        return room_error(reply[0], room_id)
    _, gen, cfg_ver, state, rate, waiting, occupancy, cap, passes, hand_rate, age = reply
    return Tuning(
        gen, cfg_ver, RoomState(state), rate, waiting, occupancy, cap or None, passes, hand_rate,
        None if age < 0 else age,
    )  # fmt: skip
