"""Packed layouts of a room's live state: header fields, records of tickets, doors and pre-queue places.

The engine's Lua library (app/infrastructure/lua) writes them, a rebuild writes them again from the journal.
``HEADER_FIELDS`` is compared with ``lua/lib/header.lua`` by a test. Numbers are little-endian.
Clocks: ``M`` = room clock in ms, moves only forward; ``ds`` = M // 100; ``W`` = recorded wall clock in ms.
Not here: names of keys (infrastructure/keys.py), facts (facts.py).
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

LAYOUT: Final = 1
"""Number of this layout; a library that meets a higher one answers 503."""

CHUNK: Final = 1024
"""Records in one chunk: ticket n is record (n − 1) % CHUNK of chunk (n − 1) // CHUNK."""

RING_PLACES: Final = 50_000
"""Tickets that are over and keep their times (``qm.RING_PLACES``)."""

HEADER_SLOTS: Final = 56

HEADER_FIELDS: Final = (
    "layout",
    "gen",
    "epoch",  # raised by each rebuild; the drainer's conditional UPDATE names it
    "deleted",  # 1 = tombstone: the room is gone, its facts may still be on the way
    "fenced",  # 1 = answers nobody until it is rebuilt
    "t0",  # wall ms at which M would have been 0, by the latest fact that says so (ENG-303)
    "last_time",  # Valkey's TIME in ms at the last saved call
    "mono",  # M
    "wall",  # W
    "offset",  # ms added to TIME; 0 except in tests
    "last_ticket",  # highest number issued
    "head",  # tickets up to here have been promoted or passed over
    "removed",  # bits set in the bitmap beyond head
    "seq",  # last fact
    "committed",  # last fact known to be in the journal
    "cfg_ver",
    "created_at",  # wall ms
    "updated_at",  # wall ms
    "state",  # RoomState
    "rate",  # promotions per minute
    "max_concurrent",  # 0 = no cap
    "passed_ttl",  # s
    "session_ttl",  # s
    "session_max",  # s
    "presence",  # s
    "ip_cap",  # 0 = no cap
    "pre_ip_cap",  # 0 = no cap
    "credit",
    "last_tick",  # M of the last tick
    "active",  # running sessions
    "pending",  # unused passes that hold a slot
    "passes_out",  # unused passes without a slot
    "flush_up_to",  # records up to here may still have to get the pass of a flush; 0 = none
    "purge_up_to",  # whoever is said to wait up to here, and is not waiting for a flush, was purged
    "opens_at",  # wall ms at which the doors open or opened; 0 = never scheduled
    "phase",  # Phase
    "places",  # highest place number, counted through all pre-queues of the generation
    "line_since",  # M since which somebody waits without a break; 0 = nobody waits
    "freed_at",  # M at which a slot was last freed
    "second",  # M // 1000 that the four now_ counters belong to
    "now_joins",
    "now_passes",
    "now_paid",
    "now_freed",
    "min_joins",  # sums over the ring's last 60 s
    "min_passes",
    "min_paid",
    "min_freed",
    "rescore",  # 1 + cursor of a walk over the deadlines after a shorter session; 0 = none
    "forgotten",  # chunks whose tickets were over long enough to be dropped
    "drawn_at",  # wall ms of the last draw's closing fact; 0 = none since the schedule was set
    "session_ip_cap",  # 0 = no bound
    "hour_end",  # wall ms at which the running hour of the statistics ends; 0 = none since a rebuild
    "ended",  # tickets that ended and kept their times: the next place in the ring of the last 50,000
    "auto_joins",  # threshold of arrivals per minute; 0 = threshold activation is off
    "auto_since",  # M since which the condition of the next switch holds without a break; 0 = it does not
)
"""Order of the doubles in the header string. Derived by a rebuild: head, removed, active, pending, passes_out.
Fresh after one: counters 0, ``credit`` at most 1, ``last_tick`` = ``mono`` = ``wall`` − ``t0``; ``t0`` is that of the
facts, in a new room ``created_at``."""

HEADER: Final = struct.Struct(f"<{HEADER_SLOTS}d")


def pack_header(fields: dict[str, float]) -> bytes:
    """Header string from named fields; fields that are not named are 0."""
    return HEADER.pack(*(fields.get(name, 0.0) for name in HEADER_FIELDS))


def unpack_header(data: bytes) -> dict[str, float]:
    """Named fields of a header string; raises struct.error when the length is wrong."""
    return dict(zip(HEADER_FIELDS, HEADER.unpack(data), strict=True))


class Phase(IntEnum):
    """How far the opening of the doors is (``qm.PHASE``). The room is scheduled in every phase but NONE (ENG-062)."""

    NONE = 0
    OPEN = 1
    """The pre-queue takes places; the doors open at ``opens_at``."""
    CALLED = 2
    """The schedule was cancelled with people in the pre-queue: the doors open at the next tick."""
    DRAWING = 3
    """The list of places is fixed, the order is being put in place; new joins stand behind it."""
    DRAWN = 4
    """The order stands; it is told once its closing fact is in the journal."""


class Flag(IntFlag):
    """Flag byte of a ticket record."""

    SLOT = 1
    """The pass holds a slot, or the session took one over."""
    PAID = 2
    """The pass has cost its credit."""
    TOLD = 4
    """The holder has been told of his pass (ENG-140); not journaled."""
    AT_DOOR = 8
    """Stands at the door, or holds a slot that was given there (ENG-131). A fold sets it with ``slot_given``
    and clears it with ``slot_released``."""
    FROM_PRE_QUEUE = 16
    ADMITTED_ONCE = 32
    HAS_FROM = 64
    WASTED = 128
    """Let a slot given at the door go unused: the pass ends with its time, present or not. A fold sets it when
    ``slot_released`` with why 1 meets AT_DOOR."""


PRE: Final = struct.Struct("<ddddddd32s")
"""State of the pre-queue and its draw (key ``hm``): places of earlier pre-queues, places now held, highest place
purged, first ticket of the draw, places drawn, those that have their number already, seq of the closing fact, seed."""

PLACE_BYTES: Final = 96
PLACE_LATE: Final = 1
"""Flag byte of a place that was given up after the list of its draw was fixed: it keeps its number in the order."""

TICKET_BYTES: Final = 72
TICKET: Final = struct.Struct("<BBBxIIHH8s16s16s16s")
"""state, flags, why, pad, seen (ds), joinedAt low 32 bits, joinedAt high 16 bits, net, addr, cookie, strict, loose.

``net`` (ENG-295): 0 for IPv4, else 1 + which /56 of its /48 (0–255, turned by a salted amount); the first four bytes of
``addr`` are then the digest of the /48, the last four that of the /64. The pad is the live store's alone: how often the
owner was bound anew in this minute (lua/lib/binding.lua)."""

DOOR_BYTES: Final = 48
DOOR: Final = struct.Struct("<IHBxIIIIII16s")
"""passedAt low, passedAt high, before, passEnd, claimEnd, usedAt, firstAdmitted, admitted (ds each), admission seq,
door-key hash. ``before`` = flags as they were when the running admission took the pass (for its withdrawal).
``usedAt`` = last passing check: the session ends at min(usedAt + session_ttl, firstAdmitted + session_max).
The pad after ``before`` is the live store's alone: 1 = the session has an entry of its addresses
(lua/lib/sharing.lua)."""


class TicketRecord(NamedTuple):
    """One ticket as stored (72 bytes)."""

    state: int
    flags: int
    why: int
    seen: int
    joined_at: int
    addr: bytes
    cookie: bytes
    strict: bytes
    loose: bytes
    net: int = 0

    def pack(self) -> bytes:
        """The 72 bytes."""
        low, high = self.joined_at & 0xFFFFFFFF, self.joined_at >> 32
        head = (self.state, self.flags, self.why, self.seen, low, high, self.net)
        return TICKET.pack(*head, self.addr, self.cookie, self.strict, self.loose)

    @classmethod
    def unpack(cls, data: bytes) -> TicketRecord:
        """Record from its 72 bytes."""
        state, flags, why, seen, low, high, net, addr, cookie, strict, loose = TICKET.unpack(data)
        return cls(state, flags, why, seen, low | high << 32, addr, cookie, strict, loose, net)


class DoorRecord(NamedTuple):
    """Pass and session of one ticket as stored (48 bytes); times in ds but ``passed_at`` (wall ms)."""

    passed_at: int
    before: int
    pass_end: int
    claim_end: int
    used_at: int
    first_admitted: int
    admitted: int
    admission_seq: int
    door: bytes

    def pack(self) -> bytes:
        """The 48 bytes."""
        low, high = self.passed_at & 0xFFFFFFFF, self.passed_at >> 32
        return DOOR.pack(low, high, *self[1:])

    @classmethod
    def unpack(cls, data: bytes) -> DoorRecord:
        """Record from its 48 bytes."""
        low, high, *rest = DOOR.unpack(data)
        return cls(low | high << 32, *rest)


class PlaceRecord(NamedTuple):
    """One place in a pre-queue as stored (96 bytes): a ticket record, the handle, eight spare bytes."""

    ticket: TicketRecord
    handle: bytes

    def pack(self) -> bytes:
        """The 96 bytes."""
        return self.ticket.pack() + self.handle + bytes(8)

    @classmethod
    def unpack(cls, data: bytes) -> PlaceRecord:
        """Record from its 96 bytes."""
        return cls(TicketRecord.unpack(data[:TICKET_BYTES]), data[TICKET_BYTES : TICKET_BYTES + 16])
