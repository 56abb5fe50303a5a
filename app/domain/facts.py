"""Facts of a room: what the engine appends to a room's outbox and the journal keeps, with their byte forms.

An outbox element is ``type u8, lv u8, at u64 (wall ms)``, little-endian, then the body. All ends in bodies are wall
ms of the room's recorded clock. The Lua side writes the same bytes (lua/lib/facts.lua); tests compare them.
Belongs here: types, encode, decode. Not here: bodies about schedule, pre-queue and draw (facts_of_doors.py), what a
fact does to a room (fold.py). Source: ENG-250 … ENG-271.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import ujson

from app.domain import facts_of_doors as doors
from app.domain.actor import actor_name
from app.domain.facts_of_doors import DrawBegun, Drawn, DrawPart, Prejoined, Scheduled

LOG_VERSION: Final = 1
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

    @property
    def word(self) -> str:
        """Name of the type, for example ``room_created``."""
        return self.name.lower()


class Why(IntEnum):
    """Cause byte of a ticket record and of ``lapsed``."""

    NONE = 0
    PASS_OVER = 1
    SESSION_IDLE = 2
    SESSION_MAX = 3
    LEFT = 4
    EJECTED = 5
    PURGE = 6


class Released(IntEnum):
    """Cause byte of ``slot_released``."""

    CLAIM_OVER = 1
    ABSENT = 2


class PromotedBy(IntEnum):
    """Cause byte of ``promoted``."""

    TICK = 1
    JOIN = 2
    FLUSH = 3


class UnknownFact(ValueError):
    """A type this build does not know, a higher ``lv``, or a body that does not fit its type."""


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
class Joined:
    """``ip``: readable address as 16 bytes; the others are salted digests. ``net``: as in a ticket record.

    ``from_loose``: further loose fingerprint of a connector's visitor, or b"" (ENG-110).
    """

    ticket: int
    ip: bytes
    address: bytes
    cookie: bytes
    strict: bytes
    loose: bytes
    net: int = 0
    from_loose: bytes = b""


@dataclass(frozen=True, slots=True)
class JoinWithdrawn:
    """Undoes the ``joined`` or ``prejoined`` fact at ``joined_seq``: of ``ticket``, or (0) of ``place``."""

    ticket: int
    joined_seq: int
    place: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """``count`` tickets from ``first`` on with the same ``flags`` (Flag.SLOT, Flag.PAID)."""

    first: int
    count: int
    flags: int


@dataclass(frozen=True, slots=True)
class Promoted:
    """Passes given at the fact's ``at``; ``claim_end`` 0 when no run holds a slot.

    By a flush the runs span everybody in line: of their numbers those that wait get a pass. ``flushed`` says how many
    they are, ``actor`` who did it; otherwise 0 and "".
    """

    by: int
    pass_end: int
    claim_end: int
    runs: tuple[Run, ...]
    flushed: int = 0
    actor: str = ""


@dataclass(frozen=True, slots=True)
class SlotGiven:
    """Slots given at the door; the passes are paid from then on."""

    claim_end: int
    tickets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SlotReleased:
    """Passes that gave up their slot."""

    why: int
    tickets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Admitted:
    """A session began. ``first_admitted_at``: of the ticket's first admission, from which the longest life counts."""

    ticket: int
    via: int
    door: bytes
    first_admitted_at: int


@dataclass(frozen=True, slots=True)
class AdmissionWithdrawn:
    """Undoes the ``admitted`` fact at ``admitted_seq``: the pass is as given here (``flags``: SLOT, PAID)."""

    ticket: int
    admitted_seq: int
    flags: int
    passed_at: int
    pass_end: int
    claim_end: int


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """The owner took his session back: it is a pass again, with its slot; its door key is void (ENG-156)."""

    ticket: int
    pass_end: int
    claim_end: int


@dataclass(frozen=True, slots=True)
class OwnerRebound:
    """Fingerprints of a ticket, or with ``ticket`` 0 of a place, from now on (ENG-108).

    ``from_loose``: its further one from now on, b"" = as before (ENG-110).
    """

    ticket: int
    strict: bytes
    loose: bytes
    from_loose: bytes = b""
    place: int = 0


@dataclass(frozen=True, slots=True)
class Lapsed:
    """Passes or sessions that ended by time."""

    why: int
    tickets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """Holders who left: tickets, or places of the pre-queue."""

    tickets: tuple[int, ...]
    places: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ejected:
    """``was``: TicketState before."""

    ticket: int
    was: int
    actor: str


@dataclass(frozen=True, slots=True)
class Purged:
    """Everybody in line up to number ``up_to`` was dropped. ``waiting``, ``pre_queue``: how many people."""

    up_to: int
    waiting: int
    pre_queue: int
    actor: str


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
)

HEAD: Final = struct.Struct("<BBQ")
_DIGEST: Final = 16
_JOINED: Final = struct.Struct("<I16sH8s16s16s16s")
"""ticket, ip, net, address, cookie, strict, loose: from ``net`` on the bytes of a ticket record."""
_JOIN_WITHDRAWN: Final = struct.Struct("<IQ")
_PROMOTED: Final = struct.Struct("<BQQ")
_FLUSHED: Final = struct.Struct("<IB")
"""Tickets, runs: behind the ends of a promotion by flush; the actor follows the runs."""
_RUN: Final = struct.Struct("<IIB")
_RECLAIMED: Final = struct.Struct("<IQQ")
_OWNER_REBOUND: Final = struct.Struct("<I16s16s")
_PURGED: Final = struct.Struct("<III")
_ADMITTED: Final = struct.Struct("<IB16sQ")
_ADMISSION_WITHDRAWN: Final = struct.Struct("<IQBQQQ")


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
    return HEAD.pack(fact_type(fact), LOG_VERSION, at) + encode_body(fact)


def fact_type(fact: FactBody) -> FactType:
    """Type byte that belongs to ``fact``."""
    return _TYPE_OF[type(fact)]


def encode_body(fact: FactBody) -> bytes:
    """Body bytes of ``fact``."""
    return _ENCODE[fact_type(fact)](fact)


def decode_body(kind: int, lv: int, body: bytes) -> FactBody:
    """Fact of type ``kind`` and log version ``lv``; raises UnknownFact and never guesses (ENG-251)."""
    decode = _DECODE.get(kind)
    if decode is None or not 1 <= lv <= LOG_VERSION:
        raise UnknownFact(f"fact type {kind}, lv {lv}")
    try:
        return decode(body)
    except (struct.error, ValueError, LookupError, TypeError) as error:
        raise UnknownFact(f"body of fact type {kind} does not fit") from error


def _json(value: dict[str, Any]) -> bytes:
    return ujson.dumps(value, ensure_ascii=False, escape_forward_slashes=False).encode()


def _tickets(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 4}I", data)


def _encode_tickets(tickets: tuple[int, ...]) -> bytes:
    return struct.pack(f"<{len(tickets)}I", *tickets)


def _encode_created(fact: RoomCreated) -> bytes:
    return _json(
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


def _decode_deleted(body: bytes) -> RoomDeleted:
    raw = ujson.loads(body)
    return RoomDeleted(raw["actor"], raw.get("last_ticket", 0))


def _encode_updated(fact: RoomUpdated) -> bytes:
    return _json(
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


def _decode_joined(body: bytes) -> Joined:
    ticket, ip, net, address, cookie, strict, loose = _JOINED.unpack_from(body)
    return Joined(ticket, ip, address, cookie, strict, loose, net, _digest_behind(body, _JOINED.size))


def _encode_withdrawn(fact: JoinWithdrawn) -> bytes:
    body = _JOIN_WITHDRAWN.pack(fact.ticket, fact.joined_seq)
    return body + fact.place.to_bytes(4, "little") if fact.place else body


def _decode_withdrawn(body: bytes) -> JoinWithdrawn:
    ticket, seq = _JOIN_WITHDRAWN.unpack_from(body)
    (place,) = _tickets(body[_JOIN_WITHDRAWN.size :]) or (0,)
    return JoinWithdrawn(ticket, seq, place)


def _encode_left(fact: Left) -> bytes:
    """Places stand behind a 0, which is no ticket."""
    return _encode_tickets((0, *fact.places) if fact.places else fact.tickets)


def _decode_left(body: bytes) -> Left:
    numbers = _tickets(body)
    return Left((), numbers[1:]) if numbers[:1] == (0,) else Left(numbers)


def _encode_promoted(fact: Promoted) -> bytes:
    runs = b"".join(_RUN.pack(run.first, run.count, run.flags) for run in fact.runs)
    head = _PROMOTED.pack(fact.by, fact.pass_end, fact.claim_end)
    if fact.by != PromotedBy.FLUSH:
        return head + runs
    return head + _FLUSHED.pack(fact.flushed, len(fact.runs)) + runs + fact.actor.encode()


def _decode_promoted(body: bytes) -> Promoted:
    by, pass_end, claim_end = _PROMOTED.unpack_from(body)
    if by != PromotedBy.FLUSH:
        runs = tuple(Run(*run) for run in _RUN.iter_unpack(body[_PROMOTED.size :]))
        return Promoted(by, pass_end, claim_end, runs)
    flushed, count = _FLUSHED.unpack_from(body, _PROMOTED.size)
    first = _PROMOTED.size + _FLUSHED.size
    last = first + count * _RUN.size
    runs = tuple(Run(*run) for run in _RUN.iter_unpack(body[first:last]))
    if len(runs) != count:
        raise ValueError("runs are missing")
    return Promoted(by, pass_end, claim_end, runs, flushed, actor_name(body[last:]))


def _decode_ejected(body: bytes) -> Ejected:
    ticket, was = struct.unpack_from("<IB", body)
    return Ejected(ticket, was, actor_name(body[5:]))


def _digest_behind(body: bytes, size: int) -> bytes:
    """The digest that may follow the first ``size`` bytes."""
    if len(body) - size not in (0, _DIGEST):
        raise ValueError("no digest")
    return body[size:]


def _encode_rebound(fact: OwnerRebound) -> bytes:
    """The place of a pre-queue stands behind a 0, which is no ticket."""
    body = _OWNER_REBOUND.pack(fact.ticket, fact.strict, fact.loose)
    return body + (fact.from_loose if fact.ticket else fact.place.to_bytes(4, "little"))


def _decode_rebound(body: bytes) -> OwnerRebound:
    ticket, strict, loose = _OWNER_REBOUND.unpack_from(body)
    if ticket:
        return OwnerRebound(ticket, strict, loose, _digest_behind(body, _OWNER_REBOUND.size))
    (place,) = _tickets(body[_OWNER_REBOUND.size :])
    return OwnerRebound(0, strict, loose, place=place)


def _decode_purged(body: bytes) -> Purged:
    up_to, waiting, pre_queue = _PURGED.unpack_from(body)
    return Purged(up_to, waiting, pre_queue, actor_name(body[_PURGED.size :]))


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
}

_ENCODE: Final[dict[FactType, Callable[[Any], bytes]]] = {
    FactType.ROOM_CREATED: _encode_created,
    FactType.ROOM_UPDATED: _encode_updated,
    FactType.ROOM_DELETED: lambda f: _json({"actor": f.actor, "last_ticket": f.last_ticket}),
    FactType.JOINED: lambda f: (
        _JOINED.pack(f.ticket, f.ip, f.net, f.address, f.cookie, f.strict, f.loose) + f.from_loose
    ),
    FactType.SCHEDULED: doors.encode_scheduled,
    FactType.PREJOINED: doors.encode_prejoined,
    FactType.DRAW_BEGUN: doors.encode_draw_begun,
    FactType.DRAW_PART: doors.encode_draw_part,
    FactType.DRAWN: doors.encode_drawn,
    FactType.JOIN_WITHDRAWN: _encode_withdrawn,
    FactType.PROMOTED: _encode_promoted,
    FactType.SLOT_GIVEN: lambda f: struct.pack("<Q", f.claim_end) + _encode_tickets(f.tickets),
    FactType.SLOT_RELEASED: lambda f: bytes([f.why]) + _encode_tickets(f.tickets),
    FactType.ADMITTED: lambda f: _ADMITTED.pack(f.ticket, f.via, f.door, f.first_admitted_at),
    FactType.ADMISSION_WITHDRAWN: lambda f: _ADMISSION_WITHDRAWN.pack(
        f.ticket, f.admitted_seq, f.flags, f.passed_at, f.pass_end, f.claim_end
    ),
    FactType.RECLAIMED: lambda f: _RECLAIMED.pack(f.ticket, f.pass_end, f.claim_end),
    FactType.OWNER_REBOUND: _encode_rebound,
    FactType.LAPSED: lambda f: bytes([f.why]) + _encode_tickets(f.tickets),
    FactType.LEFT: _encode_left,
    FactType.EJECTED: lambda f: struct.pack("<IB", f.ticket, f.was) + f.actor.encode(),
    FactType.PURGED: lambda f: _PURGED.pack(f.up_to, f.waiting, f.pre_queue) + f.actor.encode(),
}

_DECODE: Final[dict[int, Callable[[bytes], FactBody]]] = {
    FactType.ROOM_CREATED: _decode_created,
    FactType.ROOM_UPDATED: _decode_updated,
    FactType.ROOM_DELETED: _decode_deleted,
    FactType.SCHEDULED: doors.decode_scheduled,
    FactType.PREJOINED: doors.decode_prejoined,
    FactType.DRAW_BEGUN: doors.decode_draw_begun,
    FactType.DRAW_PART: doors.decode_draw_part,
    FactType.DRAWN: doors.decode_drawn,
    FactType.JOINED: _decode_joined,
    FactType.JOIN_WITHDRAWN: _decode_withdrawn,
    FactType.PROMOTED: _decode_promoted,
    FactType.SLOT_GIVEN: lambda b: SlotGiven(struct.unpack_from("<Q", b)[0], _tickets(b[8:])),
    FactType.SLOT_RELEASED: lambda b: SlotReleased(b[0], _tickets(b[1:])),
    FactType.ADMITTED: lambda b: Admitted(*_ADMITTED.unpack(b)),
    FactType.ADMISSION_WITHDRAWN: lambda b: AdmissionWithdrawn(*_ADMISSION_WITHDRAWN.unpack(b)),
    FactType.RECLAIMED: lambda b: Reclaimed(*_RECLAIMED.unpack(b)),
    FactType.OWNER_REBOUND: _decode_rebound,
    FactType.LAPSED: lambda b: Lapsed(b[0], _tickets(b[1:])),
    FactType.LEFT: _decode_left,
    FactType.EJECTED: _decode_ejected,
    FactType.PURGED: _decode_purged,
}
