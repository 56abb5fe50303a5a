"""Facts of a room: what the engine appends to a room's outbox and the journal keeps, with their byte forms.

An outbox element is ``type u8, lv u8, at u64 (wall ms)``, little-endian, then the body. All ends in bodies are wall
ms of the room's recorded clock. The Lua side writes the same bytes (lua/lib/facts.lua); tests compare them.
Belongs here: types, heads, encode, decode. Not here: the bodies (facts_of_rooms.py, facts_of_doors.py,
facts_of_tickets.py, facts_of_passes.py), what a fact does to a room (fold.py). Source: ENG-250 … ENG-271.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from app.domain import facts_of_doors, facts_of_passes, facts_of_rooms, facts_of_tickets
from app.domain.fact_bytes import Forms
from app.domain.facts_of_doors import DrawBegun, Drawn, DrawPart, Prejoined, Scheduled
from app.domain.facts_of_passes import (
    AdmissionWithdrawn,
    Admitted,
    Lapsed,
    Promoted,
    Reclaimed,
    SlotGiven,
    SlotReleased,
)
from app.domain.facts_of_rooms import ClockMoved, RoomCreated, RoomDeleted, RoomUpdated
from app.domain.facts_of_tickets import Ejected, Joined, JoinWithdrawn, Left, OwnerRebound, Purged

EVENT_LOG_VERSION: Final = 1
"""Highest ``lv`` that this build reads (ENG-251)."""


class FactType(IntEnum):
    """Type byte of a fact; ``word`` is its name in the journal (ENG-253)."""

    ROOM_CREATED = 1
    ROOM_UPDATED = 2
    ROOM_DELETED = 3
    SCHEDULED = 4
    PREJOINED = 5
    JOINED = 6
    JOIN_WITHDRAWN = 7
    DRAW_PART = 8
    DRAWN = 9
    PROMOTED = 10
    SLOT_GIVEN = 11
    SLOT_RELEASED = 12
    ADMITTED = 13
    ADMISSION_WITHDRAWN = 14
    RECLAIMED = 15
    OWNER_REBOUND = 16
    LAPSED = 17
    LEFT = 18
    EJECTED = 19
    PURGED = 20
    DRAW_BEGUN = 21
    CLOCK_MOVED = 22

    @property
    def word(self) -> str:
        """Name of the type, for example ``room_created``."""
        return self.name.lower()


class UnknownFact(ValueError):
    """A type this build does not know, a higher ``lv``, or a body that does not fit its type."""


FactBody = (
    RoomCreated
    | RoomUpdated
    | RoomDeleted
    | Scheduled
    | Prejoined
    | DrawBegun
    | DrawPart
    | Drawn
    | Joined
    | JoinWithdrawn
    | Promoted
    | SlotGiven
    | SlotReleased
    | Admitted
    | AdmissionWithdrawn
    | Reclaimed
    | OwnerRebound
    | Lapsed
    | Left
    | Ejected
    | Purged
    | ClockMoved
)

HEAD: Final = struct.Struct("<BBQ")


@dataclass(frozen=True, slots=True)
class Element:
    """One outbox element or journal row, body undecoded."""

    type: int
    lv: int
    at: int
    body: bytes

    def decode(self) -> FactBody:
        """The fact; raises UnknownFact."""
        return decode_body(self.type, self.lv, self.body)


def split_element(data: bytes) -> Element:
    """Head and body of an outbox element; raises UnknownFact when it is too short."""
    if len(data) < HEAD.size:
        raise UnknownFact(f"element of {len(data)} bytes")
    kind, lv, at = HEAD.unpack_from(data)
    return Element(kind, lv, at, data[HEAD.size :])


def encode_element(at: int, fact: FactBody) -> bytes:
    """Outbox element of ``fact`` recorded at ``at`` (wall ms)."""
    return HEAD.pack(fact_type(fact), EVENT_LOG_VERSION, at) + encode_body(fact)


def fact_type(fact: FactBody) -> FactType:
    """Type byte that belongs to ``fact``."""
    return _TYPE_OF[type(fact)]


def encode_body(fact: FactBody) -> bytes:
    """Body bytes of ``fact``."""
    return _FORMS[type(fact)][0](fact)


def decode_body(kind: int, lv: int, body: bytes) -> FactBody:
    """Fact of type ``kind`` and log version ``lv``; raises UnknownFact and never guesses (ENG-251)."""
    decode = _DECODE.get(kind)
    if decode is None or not 1 <= lv <= EVENT_LOG_VERSION:
        raise UnknownFact(f"fact type {kind}, lv {lv}")
    try:
        return decode(body)
    except (struct.error, ValueError, LookupError, TypeError) as error:
        raise UnknownFact(f"body of fact type {kind} does not fit") from error


_TYPE_OF: Final[dict[type, FactType]] = {
    RoomCreated: FactType.ROOM_CREATED,
    RoomUpdated: FactType.ROOM_UPDATED,
    RoomDeleted: FactType.ROOM_DELETED,
    Scheduled: FactType.SCHEDULED,
    Prejoined: FactType.PREJOINED,
    DrawBegun: FactType.DRAW_BEGUN,
    DrawPart: FactType.DRAW_PART,
    Drawn: FactType.DRAWN,
    Joined: FactType.JOINED,
    JoinWithdrawn: FactType.JOIN_WITHDRAWN,
    Promoted: FactType.PROMOTED,
    SlotGiven: FactType.SLOT_GIVEN,
    SlotReleased: FactType.SLOT_RELEASED,
    Admitted: FactType.ADMITTED,
    AdmissionWithdrawn: FactType.ADMISSION_WITHDRAWN,
    Reclaimed: FactType.RECLAIMED,
    OwnerRebound: FactType.OWNER_REBOUND,
    Lapsed: FactType.LAPSED,
    Left: FactType.LEFT,
    Ejected: FactType.EJECTED,
    Purged: FactType.PURGED,
    ClockMoved: FactType.CLOCK_MOVED,
}

_FORMS: Final[Forms] = {
    **facts_of_rooms.FORMS,
    **facts_of_doors.FORMS,
    **facts_of_tickets.FORMS,
    **facts_of_passes.FORMS,
}

_DECODE: Final[dict[int, Callable[[bytes], FactBody]]] = {kind: _FORMS[fact][1] for fact, kind in _TYPE_OF.items()}
