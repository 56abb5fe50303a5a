"""Fold of the facts about the doors: places in the pre-queue, their draw, how far the opening is (ENG-257 … ENG-261).

Records are kept as the bytes of the live store (layout.py). Not here: tickets (fold.py), what is written back
(fold_image.py).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from app.domain.facts_of_doors import DrawBegun, Drawn, DrawPart
from app.domain.layout import CHUNK, PLACE_BYTES, PLACE_LATE, PRE, TICKET_BYTES, Phase
from app.domain.ticket_state import TicketState

PREJOINED_BODY: Final = 78
"""Bytes of a journaled ``prejoined``: place u32, handle 16, net u16, address 8, cookie, strict and loose 16 each."""

_HEAD: Final = struct.Struct("<BBBxIIH")
_ADDRESS: Final = struct.Struct("<14xH8s72x")
"""net, address."""
_COOKIE_AT, _HANDLE_AT = 24, TICKET_BYTES


@dataclass(slots=True)
class DoorsFold:
    """Pre-queue and opening of a room as its facts tell them. Plain values only: a checkpoint keeps them."""

    phase: int = Phase.NONE
    opens_at: int = 0
    drawn_at: int = 0
    places: int = 0
    """Highest place number."""
    records: bytearray = field(default_factory=bytearray)
    """Place records from number 1 on, whole chunks."""
    numbers: bytearray = field(default_factory=bytearray)
    """Ticket of each place, u32; 0 = none."""
    base: int = 0
    live: int = 0
    purged: int = 0
    first: int = 0
    count: int = 0
    done: int = 0
    seed: bytes = bytes(32)

    def schedule(self, at: int, opens_at: int | None) -> None:
        """A new opening time, recorded at ``at``; None opens the doors to whoever stands there."""
        self.drawn_at = 0
        if opens_at:
            if self.phase == Phase.NONE:
                self.base, self.live = self.places, 0
            self.phase, self.opens_at = Phase.OPEN, opens_at
        elif self.phase != Phase.NONE and self.live:
            self.phase, self.opens_at = Phase.CALLED, at
        else:
            self.phase, self.opens_at = Phase.NONE, 0

    def prejoin(self, at: int, now_ds: int, body: bytes) -> None:
        """One more place; ``body`` without the readable address."""
        place = int.from_bytes(body[:4], "little")
        begin = (place - 1) * PLACE_BYTES
        if begin >= len(self.records):
            chunks = (place - 1) // CHUNK + 1
            self.records.extend(bytes(chunks * CHUNK * PLACE_BYTES - len(self.records)))
            self.numbers.extend(bytes(chunks * CHUNK * 4 - len(self.numbers)))
        head = _HEAD.pack(TicketState.WAITING, 0, 0, now_ds, at & 0xFFFFFFFF, at >> 32)
        self.records[begin : begin + PLACE_BYTES] = head + body[20:] + body[4:20] + bytes(8)
        self.places = max(self.places, place)
        self.live += 1

    def number(self, place: int) -> int:
        """Ticket of a place; 0 = none."""
        return int.from_bytes(self.numbers[(place - 1) * 4 : place * 4], "little")

    def is_known(self, place: int) -> bool:
        """Tell whether the place was ever given."""
        return 1 <= place <= self.places

    def finish(self, place: int, state: TicketState, why: int) -> int:
        """End a place; returns its ticket, which ends with it, or 0."""
        number = self.number(place)
        late = self.phase >= Phase.DRAWING or number
        begin = (place - 1) * PLACE_BYTES
        self.records[begin : begin + 3] = bytes((state, PLACE_LATE if late else 0, why))
        if self.phase != Phase.NONE:
            self.live -= 1
        return number

    def rebind(self, place: int, prints: bytes) -> None:
        """The fingerprints of a place's holder from now on."""
        end = (place - 1) * PLACE_BYTES + TICKET_BYTES
        self.records[end - len(prints) : end] = prints

    def purge(self) -> None:
        """Everybody in the pre-queue is dropped; the numbers of a running draw go with the line."""
        self.purged, self.live = self.places, 0

    def begin(self, fact: DrawBegun) -> None:
        """List and seed are fixed."""
        self.base = max(self.base, self.purged)
        self.phase, self.opens_at = Phase.DRAWING, fact.opens_at
        self.first, self.count, self.done, self.seed = fact.first, fact.count, 0, fact.seed

    def put(self, fact: DrawPart) -> Iterator[tuple[int, bytes]]:
        """Ticket numbers and records of the next places in the order."""
        for place in fact.order:
            number = self.first + self.done
            self.done += 1
            self.numbers[(place - 1) * 4 : place * 4] = number.to_bytes(4, "little")
            record = self.records[(place - 1) * PLACE_BYTES : (place - 1) * PLACE_BYTES + TICKET_BYTES]
            record[1] = 0
            yield number, bytes(record)

    def close(self, at: int, fact: Drawn) -> None:
        """The whole order stands and, being in the journal, may be told."""
        self.phase, self.opens_at, self.drawn_at = Phase.NONE, fact.opens_at, at
        self.base, self.live = self.places, 0
        self.done, self.seed = 0, bytes(32)

    def renew(self, now_ds: int) -> None:
        """Let every holder have been seen at this moment."""
        for i, byte in enumerate(now_ds.to_bytes(4, "little"), 4):
            self.records[i : self.places * PLACE_BYTES : PLACE_BYTES] = bytes([byte]) * self.places

    def header(self) -> dict[str, float]:
        """The header's fields about the doors."""
        return {
            "opens_at": self.opens_at,
            "phase": self.phase,
            "places": self.places,
            "drawn_at": self.drawn_at,
        }

    def owners(self) -> Iterator[tuple[bytes, bytes]]:
        """Entries of the owner index: first bytes of the cookie digest, ``p`` and the place."""
        for place, record in self._all():
            yield record[_COOKIE_AT : _COOKIE_AT + 8], b"p%d" % place

    def is_drawn(self) -> bytearray:
        """For each ticket number a byte, 1 if the draw gave it; no longer than the highest of them."""
        drawn = bytearray()
        for (number,) in struct.iter_unpack("<I", self.numbers):
            if number:
                if number >= len(drawn):
                    drawn.extend(bytes(number + 1 - len(drawn)))
                drawn[number] = 1
        return drawn

    def writes(self) -> Iterator[tuple[str, Any]]:
        """What the live store holds beside header, owners and tickets: kind and its content, not yet in slices."""
        if not self.places and self.phase == Phase.NONE and not self.first:
            return
        yield "h", self.records
        yield "pn", bytes(self.numbers).rstrip(b"\0").ljust(self._numbers_end(), b"\0")
        yield "hx", ((record[_HANDLE_AT : _HANDLE_AT + 8], place) for place, record in self._all())
        state = (self.base, self.live, self.purged, self.first, self.count, self.done, 0)
        yield "hm", PRE.pack(*state, self.seed)

    def _numbers_end(self) -> int:
        """Bytes up to and with the last place that has a number."""
        return (len(bytes(self.numbers).rstrip(b"\0")) + 3) // 4 * 4

    def _all(self) -> Iterator[tuple[int, bytes]]:
        for place in range(1, self.places + 1):
            record = bytes(self.records[(place - 1) * PLACE_BYTES : place * PLACE_BYTES])
            if record[0] != TicketState.NONE:
                yield place, record

    def held(self) -> Counter[tuple[int, bytes]]:
        """Places held now per (net, address)."""
        if self.phase == Phase.NONE:
            return Counter()
        begin = max(self.base, self.purged)
        return Counter(
            _ADDRESS.unpack(record)
            for place, record in self._all()
            if place > begin and record[0] == TicketState.WAITING
        )
