"""Facts about the room itself: made, changed, deleted, its clock (ENG-254, ENG-255, ENG-256, ENG-303).

Belongs here: what each body says and its bytes. Not here: type numbers and heads (facts.py).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import ujson

from app.domain.fact_bytes import Forms, json_bytes


@dataclass(frozen=True, slots=True)
class RoomCreated:
    """``config``: every field of RoomConfig by snake_case name (room_codec.py); ``salt``: 16 bytes."""

    config: dict[str, Any]
    salt: bytes
    actor: str
    gen: int
    cfg_ver: int


@dataclass(frozen=True, slots=True)
class RoomUpdated:
    """``changes``: new values by snake_case field name; ``updated_at``: wall ms; ``figures``: what an automatic change
    rests on, its leader's epoch among them."""

    changes: dict[str, Any]
    actor: str
    why: str
    cfg_ver: int
    updated_at: int
    figures: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RoomDeleted:
    """End of a generation. ``last_ticket``: highest number it issued."""

    actor: str
    last_ticket: int = 0


@dataclass(frozen=True, slots=True)
class ClockMoved:
    """Wall time and the room's clock have parted, or met. ``t0``: wall ms at which the room's clock would have been 0;
    times in later facts lie on it by this."""

    t0: int


_T0: Final = struct.Struct("<Q")


def _encode_created(fact: RoomCreated) -> bytes:
    return json_bytes(
        {
            "config": fact.config,
            "salt": fact.salt.hex(),
            "actor": fact.actor,
            "gen": fact.gen,
            "cfg_ver": fact.cfg_ver,
        }
    )


def _decode_created(body: bytes) -> RoomCreated:
    raw = ujson.loads(body)
    return RoomCreated(raw["config"], bytes.fromhex(raw["salt"]), raw["actor"], raw["gen"], raw["cfg_ver"])


def _encode_updated(fact: RoomUpdated) -> bytes:
    return json_bytes(
        {
            "changes": fact.changes,
            "actor": fact.actor,
            "why": fact.why,
            "cfg_ver": fact.cfg_ver,
            "updated_at": fact.updated_at,
            **({} if fact.figures is None else {"figures": fact.figures}),
        }
    )


def _decode_updated(body: bytes) -> RoomUpdated:
    raw = ujson.loads(body)
    return RoomUpdated(raw["changes"], raw["actor"], raw["why"], raw["cfg_ver"], raw["updated_at"], raw.get("figures"))


def _encode_deleted(fact: RoomDeleted) -> bytes:
    return json_bytes({"actor": fact.actor, "last_ticket": fact.last_ticket})


def _decode_deleted(body: bytes) -> RoomDeleted:
    raw = ujson.loads(body)
    return RoomDeleted(raw["actor"], raw.get("last_ticket", 0))


FORMS: Final[Forms] = {
    RoomCreated: (_encode_created, _decode_created),
    RoomUpdated: (_encode_updated, _decode_updated),
    RoomDeleted: (_encode_deleted, _decode_deleted),
    ClockMoved: (lambda fact: _T0.pack(fact.t0), lambda body: ClockMoved(*_T0.unpack(body))),
}
