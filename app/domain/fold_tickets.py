"""Fold of tickets: their records and those of their doors, as the bytes they have in the live store (layout.py).

Belongs here: finding a record, a ticket's beginning and its end, whose times are kept. Not here: passes and sessions
(fold_passes.py), the room and its facts (fold.py).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from app.domain.layout import CHUNK, DOOR_BYTES, RING_PLACES, TICKET_BYTES, DoorRecord, Flag
from app.domain.ticket_state import TicketState, Why

JOINED_BODY: Final = 62
"""Bytes of a journaled ``joined``: ticket u32, net u16, address 8, cookie 16, strict 16, loose 16."""
WITH_FROM: Final = JOINED_BODY + 16
"""The same with a further loose fingerprint behind (ENG-110)."""

_TICKET_HEAD: Final = struct.Struct("<BBBxIIH")
_GONE_WITH_THE_TICKET: Final = Flag.SLOT | Flag.AT_DOOR | Flag.TOLD | Flag.HAS_FROM
_PRINTS: Final = TICKET_BYTES - 32
"""Where strict and loose fingerprint of a ticket record begin."""
_DOOR_WORDS: Final = DOOR_BYTES // 4
_USED_AT: Final = 16 // 4
"""Place of usedAt among the words of a door record."""
_LIVE: Final = frozenset({TicketState.WAITING, TicketState.PASSED, TicketState.ACTIVE})


class BrokenJournal(ValueError):
    """A position is missing, or the facts contradict each other: the room stays fenced."""


@dataclass(slots=True)
class TicketsFold:
    """Tickets of a room as its facts tell of them.

    ``now_ms``: wall time, not before the last fact, that counts as the moment when everybody was last seen and every
    session last used.
    """

    now_ms: int
    created_at: int = 0
    t0: int = 0
    """Wall ms at which the room's clock would have been 0, by the facts so far."""
    clock_moves: int = 0
    """How often ``t0`` became another."""
    last_ticket: int = 0
    froms: dict[int, bytes] = field(default_factory=dict)
    """Ticket → further loose fingerprint (ENG-110)."""
    tickets: bytearray = field(default_factory=bytearray)
    """Ticket records from number 1 on, whole chunks."""
    doors: bytearray = field(default_factory=bytearray)
    """Door records from number 1 on, whole chunks."""
    ended_count: int = 0
    """Tickets that ended and kept their times."""
    ring: bytearray = field(default_factory=bytearray)
    """Numbers (u32) of the last RING_PLACES of them; the next goes to place ``ended_count`` % RING_PLACES (ENG-243)."""

    def renew_tickets(self) -> None:
        """Let everybody have been seen, and every session used, at ``now_ms``."""
        use = self.use_ds
        _stamp_seen(self.tickets, self.last_ticket, self.now_ds)
        with memoryview(self.doors) as doors, doors.cast("I") as words:
            for place, used_at in enumerate(words[_USED_AT::_DOOR_WORDS].tolist()):
                if used_at:
                    words[_USED_AT + place * _DOOR_WORDS] = use

    def mono(self, wall_ms: int) -> int:
        """The room's clock, ms, at a wall time."""
        return max(0, wall_ms - self.t0)

    def ds(self, wall_ms: int) -> int:
        """Deciseconds of the room's clock at a wall time."""
        return self.mono(wall_ms) // 100

    @property
    def now_ds(self) -> int:
        """The moment of the fold on the room's clock."""
        return self.ds(self.now_ms)

    @property
    def use_ds(self) -> int:
        """The moment of the fold as a session's last use, which 0 would deny: a use in a room's first 0.1 s is one."""
        return max(1, self.now_ds)

    def door(self, n: int) -> DoorRecord:
        """Door record of ticket n; BrokenJournal when nobody before or beside it was promoted."""
        at = (n - 1) * DOOR_BYTES
        if not 0 <= at < len(self.doors):
            raise BrokenJournal(f"ticket {n} was never promoted")
        return DoorRecord.unpack(bytes(self.doors[at : at + DOOR_BYTES]))

    def _join(self, at: int, body: bytes) -> None:
        n = int.from_bytes(body[:4], "little")
        place = (n - 1) * TICKET_BYTES
        if place >= len(self.tickets):
            self._grow(self.tickets, n, TICKET_BYTES)
        flags = 0
        if len(body) == WITH_FROM:
            flags, self.froms[n] = Flag.HAS_FROM, body[JOINED_BODY:]
        head = _TICKET_HEAD.pack(TicketState.WAITING, flags, 0, self.now_ds, at & 0xFFFFFFFF, at >> 32)
        self.tickets[place : place + TICKET_BYTES] = head + body[4:JOINED_BODY]
        self.last_ticket = max(self.last_ticket, n)

    def _grow(self, records: bytearray, n: int, size: int) -> None:
        chunks = (n - 1) // CHUNK + 1
        records.extend(bytes(chunks * CHUNK * size - len(records)))

    def _rebind_ticket(self, n: int, prints: bytes, from_loose: bytes) -> None:
        """The fingerprints of the holder of ticket n from now on."""
        place = self._known(n)
        self.tickets[place + _PRINTS : place + TICKET_BYTES] = prints
        if from_loose:
            self.tickets[place + 1] |= Flag.HAS_FROM
            self.froms[n] = from_loose

    def _finish(self, n: int, state: TicketState, why: int) -> None:
        place = self._known(n)
        self.tickets[place] = state
        self.tickets[place + 1] &= ~_GONE_WITH_THE_TICKET & 0xFF
        self.tickets[place + 2] = why
        self.froms.pop(n, None)
        if state is TicketState.EXPIRED:
            self._note_end(n)

    def _note_end(self, n: int) -> None:
        """Ticket n takes a place in the ring; the one that had it before loses its times."""
        at = self.ended_count % RING_PLACES * 4
        old = int.from_bytes(self.ring[at : at + 4], "little")
        if old and self.tickets[(old - 1) * TICKET_BYTES] not in _LIVE:
            self._drop_times(old)
        self.ring[at : at + 4] = n.to_bytes(4, "little")
        self.ended_count += 1

    def _drop_times(self, n: int) -> None:
        place, at = (n - 1) * TICKET_BYTES, (n - 1) * DOOR_BYTES
        self.tickets[place + 8 : place + 14] = bytes(6)
        if at < len(self.doors):
            self.doors[at : at + 6] = bytes(6)

    def _eject(self, n: int) -> None:
        """An ejected ticket keeps its number and owner, and no times (ENG-243)."""
        place = self._known(n)
        self.froms.pop(n, None)
        self.tickets[place : place + 4] = bytes((TicketState.EJECTED, 0, Why.EJECTED, 0))
        self._drop_times(n)

    def _put_door(self, n: int, door: DoorRecord) -> None:
        place = (n - 1) * DOOR_BYTES
        self.doors[place : place + DOOR_BYTES] = door.pack()

    def _known(self, n: int) -> int:
        """Where the record of an issued ticket begins."""
        if not 1 <= n <= self.last_ticket:
            raise BrokenJournal(f"ticket {n} was never issued")
        return (n - 1) * TICKET_BYTES


def _stamp_seen(tickets: bytearray, issued: int, ds: int) -> None:
    """Write ``seen`` into every record up to ``issued``, one byte of all of them at a time."""
    states = tickets[0 : issued * TICKET_BYTES : TICKET_BYTES]
    missing = [n * TICKET_BYTES for n, state in enumerate(states) if not state] if 0 in states else []
    for i, byte in enumerate(ds.to_bytes(4, "little"), 4):
        tickets[i : issued * TICKET_BYTES : TICKET_BYTES] = bytes([byte]) * issued
    for at in missing:  # a number that was never given keeps its empty record
        tickets[at + 4 : at + 8] = bytes(4)
