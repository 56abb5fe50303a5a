"""Fold: what the journaled facts of a room's generation add up to (ENG-252, ENG-272).

A fold decides nothing: it repeats what was recorded. It keeps ticket and door records as the bytes they have in the
live store (layout.py), so that a million joins fold in seconds. Not here: what follows from the records, and how they
are written back (fold_image.py).

A journal row is ``(seq, type, lv, at, body)``; the body of ``joined`` comes without the readable address, which the
journal keeps apart and no fold reads (FLT-150).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.domain.facts import EVENT_LOG_VERSION, FactType, UnknownFact, decode_body
from app.domain.facts_of_doors import DrawBegun, Drawn, DrawPart, Scheduled
from app.domain.facts_of_passes import (
    AdmissionWithdrawn,
    Admitted,
    Lapsed,
    Promoted,
    PromotedBy,
    Reclaimed,
    Released,
    Run,
    SlotGiven,
    SlotReleased,
)
from app.domain.facts_of_rooms import RoomCreated, RoomDeleted, RoomUpdated
from app.domain.facts_of_tickets import Ejected, JoinWithdrawn, Left, OwnerRebound, Purged
from app.domain.fold_churn import PlaceLeft, give_all_back, note_left, threshold
from app.domain.fold_doors import PREJOINED_BODY, DoorsFold
from app.domain.fold_marks import marks_after, marks_of_new_room
from app.domain.layout import CHUNK, DOOR_BYTES, PLACE_BYTES, RING_PLACES, TICKET_BYTES, DoorRecord, Flag
from app.domain.ticket_state import TicketState, Why

JournalRow = Sequence[Any]
"""(seq, type, lv, at, body)."""

JOINED_BODY: Final = 62
"""Bytes of a journaled ``joined``: ticket u32, net u16, address 8, cookie 16, strict 16, loose 16."""
_WITH_FROM: Final = JOINED_BODY + 16
"""The same with a further loose fingerprint behind (ENG-110)."""

_TICKET_HEAD: Final = struct.Struct("<BBBxIIH")
_NO_KEY: Final = bytes(16)
_DOOR_SLOT: Final = Flag.SLOT | Flag.PAID | Flag.AT_DOOR
_BEFORE: Final = _DOOR_SLOT | Flag.ADMITTED_ONCE
"""What an admission takes from a pass and its withdrawal gives back."""
_OWN: Final = Flag.FROM_PRE_QUEUE | Flag.HAS_FROM
"""What a waiting ticket may have already, and keeps."""
_WAITING: Final = re.compile(rb"\x01+")
_RANGES: Final = 16
"""Purges whose numbers are remembered (lua/lib/purge.lua)."""
_GONE_WITH_THE_TICKET: Final = Flag.SLOT | Flag.AT_DOOR | Flag.TOLD | Flag.HAS_FROM
_PRINTS: Final = TICKET_BYTES - 32
"""Where strict and loose fingerprint of a ticket record begin."""


_PLACE_AT, _PLACE_BYTES = 14, 10
"""Where net and address stand in a record of a ticket or of a place."""
_DOOR_WORDS: Final = DOOR_BYTES // 4
_USED_AT: Final = 16 // 4
"""Place of usedAt among the words of a door record."""
_LIVE: Final = frozenset({TicketState.WAITING, TicketState.PASSED, TicketState.ACTIVE})


class BrokenJournal(ValueError):
    """A position is missing, or the facts contradict each other: the room stays fenced."""


@dataclass(slots=True)
class RoomFold:
    """A room as its facts tell it. Feed rows in order, from the first fact of the generation on.

    ``now_ms``: wall time, not before the last fact, that counts as the moment when everybody was last seen and every
    session last used.
    """

    now_ms: int
    seq: int = 0
    last_at: int = 0
    created_at: int = 0
    updated_at: int = 0
    deleted: bool = False
    gen: int = 0
    cfg_ver: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    """RoomConfig by snake_case field name."""
    salt: bytes = b""
    marks: dict[str, str] = field(default_factory=dict)
    """JSON texts that the live store keeps beside the configuration (lua/lib/change.lua)."""
    last_ticket: int = 0
    head: int = 0
    purges: list[tuple[int, int]] = field(default_factory=list)
    """First and last number of the lines that were purged, the latest of them. Their records still say WAITING."""
    froms: dict[int, bytes] = field(default_factory=dict)
    """Ticket → further loose fingerprint (ENG-110)."""
    tickets: bytearray = field(default_factory=bytearray)
    """Ticket records from number 1 on, whole chunks."""
    doors: bytearray = field(default_factory=bytearray)
    """Door records from number 1 on, whole chunks."""
    left: list[PlaceLeft] = field(default_factory=list)
    """Places that were left lately."""
    pre_queue: DoorsFold = field(default_factory=DoorsFold)
    ended_count: int = 0
    """Tickets that ended and kept their times."""
    ring: bytearray = field(default_factory=bytearray)
    """Numbers (u32) of the last RING_PLACES of them; the next goes to place ``ended_count`` % RING_PLACES (ENG-243)."""

    def feed(self, rows: Iterable[JournalRow]) -> None:
        """Apply facts. UnknownFact: a type or ``lv`` of a newer build, or a damaged body; never skipped (ENG-251)."""
        joined, prejoined = FactType.JOINED, FactType.PREJOINED
        for seq, kind, lv, at, body in rows:
            if seq != self.seq + 1:
                raise BrokenJournal(f"fact {self.seq + 1} is missing, next is {seq}")
            if kind == joined:
                if len(body) not in (JOINED_BODY, _WITH_FROM) or not 1 <= lv <= EVENT_LOG_VERSION:
                    raise UnknownFact(f"fact {seq}: joined, lv {lv}, {len(body)} bytes")
                self._join(at, body)
            elif kind == prejoined:
                if len(body) != PREJOINED_BODY or not 1 <= lv <= EVENT_LOG_VERSION:
                    raise UnknownFact(f"fact {seq}: prejoined, lv {lv}, {len(body)} bytes")
                self.pre_queue.prejoin(at, self.now_ds, body)
            else:
                self._apply(seq, at, decode_body(kind, lv, body))
            self.seq = seq
            self.last_at = at

    def renew(self) -> None:
        """Let everybody have been seen, and every session used, at ``now_ms``: of a state that was folded earlier.

        What a fact writes ``now_ds`` into belongs here too.
        """
        now, use = self.now_ds, self.use_ds
        _stamp_seen(self.tickets, self.last_ticket, now)
        self.pre_queue.renew(now)
        with memoryview(self.doors) as doors, doors.cast("I") as words:
            for place, used_at in enumerate(words[_USED_AT::_DOOR_WORDS].tolist()):
                if used_at:
                    words[_USED_AT + place * _DOOR_WORDS] = use

    def ds(self, wall_ms: int) -> int:
        """Deciseconds of the room's clock at a wall time: its clock starts anew from the creation."""
        return max(0, wall_ms - self.created_at) // 100

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

    def _apply(self, seq: int, at: int, fact: Any) -> None:
        match fact:
            case Promoted():
                self._promote(at, fact)
            case Lapsed():
                for n in fact.tickets:
                    self._finish(n, TicketState.EXPIRED, fact.why)
            case Admitted():
                self._admit(seq, at, fact)
            case Left():
                self._leave(at, fact)
            case SlotGiven():
                self._give_slots(fact)
            case SlotReleased():
                self._release_slots(fact)
            case JoinWithdrawn() if fact.place:
                self._finish_place(fact.place, TicketState.WITHDRAWN, Why.NONE)
            case JoinWithdrawn():
                self._finish(fact.ticket, TicketState.WITHDRAWN, Why.NONE)
            case AdmissionWithdrawn():
                self._withdraw_admission(fact)
            case Reclaimed():
                self._reclaim(seq, fact)
            case OwnerRebound():
                self._rebind(fact)
            case Ejected():
                self._eject(fact.ticket)
            case Purged():
                self.purges = [*self.purges, (self.head + 1, fact.up_to)][-_RANGES:]
                self.head = max(self.head, fact.up_to)
                give_all_back(self.left, "i")
                if fact.pre_queue:
                    self.pre_queue.purge()
                    give_all_back(self.left, "ip")
            case RoomCreated():
                self._create(at, fact)
            case RoomUpdated():
                self.marks = marks_after(self.marks, at, fact, self.config)
                self.config.update(fact.changes)
                self.cfg_ver, self.updated_at = fact.cfg_ver, fact.updated_at
            case RoomDeleted():
                self.deleted = True
            case Scheduled() | DrawBegun() | DrawPart() | Drawn():
                self._move_doors(at, fact)
            case _:
                raise UnknownFact(f"fact {seq}: {type(fact).__name__} is not folded")

    def _create(self, at: int, fact: RoomCreated) -> None:
        self.config, self.salt, self.gen, self.cfg_ver = dict(fact.config), fact.salt, fact.gen, fact.cfg_ver
        self.created_at = self.updated_at = at
        self.marks = marks_of_new_room(self.config)
        if opens_at := self.config.get("opens_at"):
            self.pre_queue.schedule(at, opens_at)

    def _move_doors(self, at: int, fact: Scheduled | DrawBegun | DrawPart | Drawn) -> None:
        match fact:
            case Scheduled():
                self.config.update(fact.changes)
                self.cfg_ver, self.updated_at = fact.cfg_ver, fact.updated_at
                if "opens_at" in fact.changes:
                    self.pre_queue.schedule(at, fact.changes["opens_at"])
            case DrawBegun():
                self.pre_queue.begin(fact)
                self.last_ticket = fact.first + fact.count - 1
                if self.last_ticket * TICKET_BYTES > len(self.tickets):
                    self._grow(self.tickets, self.last_ticket, TICKET_BYTES)
            case DrawPart():
                self._put_order(fact)
            case Drawn():
                self.pre_queue.close(at, fact)
                give_all_back(self.left, "ip")

    def _put_order(self, fact: DrawPart) -> None:
        doors = self.pre_queue
        if fact.done != doors.done or not all(doors.is_known(place) for place in fact.order):
            raise BrokenJournal(f"part {fact.done} of the drawn order does not fit")
        for n, record in doors.put(fact):
            at = self._known(n)
            self.tickets[at : at + TICKET_BYTES] = record

    def _leave(self, at: int, fact: Left) -> None:
        caps = self.config.get("queue_max_per_ip"), self.config.get("pre_queue_max_per_ip")
        for n in fact.tickets:
            record = self._known(n)
            if self.tickets[record] == TicketState.WAITING:
                place = bytes(self.tickets[record + _PLACE_AT : record + _PLACE_AT + _PLACE_BYTES])
                note_left(self.left, (at, "i", place, threshold(caps[0]), True))
            self._finish(n, TicketState.EXPIRED, Why.LEFT)
        for number in fact.places:
            self._finish_place(number, TicketState.EXPIRED, Why.LEFT)
            begin = (number - 1) * PLACE_BYTES + _PLACE_AT
            place = bytes(self.pre_queue.records[begin : begin + _PLACE_BYTES])
            in_line = self.pre_queue.number(number) > 0  # its number, told or not, counted there
            book, cap = ("i", caps[0]) if in_line else ("ip", caps[1])
            note_left(self.left, (at, book, place, threshold(cap), True))

    def _finish_place(self, place: int, state: TicketState, why: int) -> None:
        if not self.pre_queue.is_known(place):
            raise BrokenJournal(f"place {place} was never given")
        if number := self.pre_queue.finish(place, state, why):
            self._finish(number, state, why)

    def _join(self, at: int, body: bytes) -> None:
        n = int.from_bytes(body[:4], "little")
        place = (n - 1) * TICKET_BYTES
        if place >= len(self.tickets):
            self._grow(self.tickets, n, TICKET_BYTES)
        flags = 0
        if len(body) == _WITH_FROM:
            flags, self.froms[n] = Flag.HAS_FROM, body[JOINED_BODY:]
        head = _TICKET_HEAD.pack(TicketState.WAITING, flags, 0, self.now_ds, at & 0xFFFFFFFF, at >> 32)
        self.tickets[place : place + TICKET_BYTES] = head + body[4:JOINED_BODY]
        self.last_ticket = max(self.last_ticket, n)

    def _grow(self, records: bytearray, n: int, size: int) -> None:
        chunks = (n - 1) // CHUNK + 1
        records.extend(bytes(chunks * CHUNK * size - len(records)))

    def _promote(self, at: int, fact: Promoted) -> None:
        pass_end = self.ds(fact.pass_end)
        for run in self._waiting_runs(fact.runs) if fact.by == PromotedBy.FLUSH else fact.runs:
            first, count, last = run.first, run.count, run.first + run.count - 1
            self._known(first)
            self._known(last)
            claim_end = self.ds(fact.claim_end) if run.flags & Flag.SLOT else 0
            door = DoorRecord(at, 0, pass_end, claim_end, 0, 0, 0, 0, _NO_KEY).pack()
            if last * DOOR_BYTES > len(self.doors):
                self._grow(self.doors, last, DOOR_BYTES)
            self.doors[(first - 1) * DOOR_BYTES : last * DOOR_BYTES] = door * count
            # One byte of every record of the run at a time: state, then flags.
            begin, end = (first - 1) * TICKET_BYTES, last * TICKET_BYTES
            self.tickets[begin:end:TICKET_BYTES] = bytes([TicketState.PASSED]) * count
            own = self.tickets[begin + 1 : end : TICKET_BYTES]
            flags = bytes((old & _OWN) | run.flags for old in own) if any(own) else bytes([run.flags]) * count
            self.tickets[begin + 1 : end : TICKET_BYTES] = flags
            self.head = max(self.head, last)
        if fact.by == PromotedBy.FLUSH:  # the head went past those who had left, too
            give_all_back(self.left, "i")
            self.head = max(self.head, *(run.first + run.count - 1 for run in fact.runs))

    def _waiting_runs(self, runs: Iterable[Run]) -> Iterator[Run]:
        """Of each run the pieces that wait."""
        for run in runs:
            self._known(run.first + run.count - 1)
            begin = (run.first - 1) * TICKET_BYTES
            states = bytes(self.tickets[begin : begin + run.count * TICKET_BYTES : TICKET_BYTES])
            for match in _WAITING.finditer(states):
                yield Run(run.first + match.start(), match.end() - match.start(), run.flags)

    def _give_slots(self, fact: SlotGiven) -> None:
        claim_end = self.ds(fact.claim_end)
        for n in fact.tickets:
            place = self._known(n)
            self.tickets[place + 1] |= _DOOR_SLOT
            self._put_door(n, self.door(n)._replace(claim_end=claim_end))

    def _release_slots(self, fact: SlotReleased) -> None:
        for n in fact.tickets:
            place = self._known(n)
            flags = self.tickets[place + 1]
            if fact.why == Released.CLAIM_OVER and flags & Flag.AT_DOOR:
                flags |= Flag.WASTED
            self.tickets[place + 1] = flags & ~(Flag.SLOT | Flag.AT_DOOR)

    def _admit(self, seq: int, at: int, fact: Admitted) -> None:
        place = self._known(fact.ticket)
        flags = self.tickets[place + 1]
        self.tickets[place] = TicketState.ACTIVE
        self.tickets[place + 1] = (flags & ~Flag.AT_DOOR) | Flag.SLOT | Flag.PAID | Flag.ADMITTED_ONCE
        door = self.door(fact.ticket)._replace(
            before=flags & _BEFORE,
            used_at=self.use_ds,
            first_admitted=self.ds(fact.first_admitted_at),
            admitted=self.ds(at),
            admission_seq=seq & 0xFFFFFFFF,
            door=fact.door,
        )
        self._put_door(fact.ticket, door)

    def _withdraw_admission(self, fact: AdmissionWithdrawn) -> None:
        door = self.door(fact.ticket)
        place = self._known(fact.ticket)
        if self.tickets[place] != TicketState.ACTIVE or door.admission_seq != fact.admitted_seq & 0xFFFFFFFF:
            return
        kept = fact.flags | (door.before & (Flag.AT_DOOR | Flag.ADMITTED_ONCE))
        self.tickets[place] = TicketState.PASSED
        self.tickets[place + 1] = (self.tickets[place + 1] & ~_BEFORE) | kept
        claim_end = self.ds(fact.claim_end) if fact.claim_end else 0
        pass_end = self.ds(fact.pass_end)
        first = door.first_admitted if door.before & Flag.ADMITTED_ONCE else 0
        cleared = door._replace(used_at=0, first_admitted=first, admitted=0, admission_seq=0, door=_NO_KEY)
        self._put_door(fact.ticket, cleared._replace(pass_end=pass_end, claim_end=claim_end))

    def _reclaim(self, seq: int, fact: Reclaimed) -> None:
        """The void key's digest stays: who presents it is told what happened."""
        place = self._known(fact.ticket)
        flags = self.tickets[place + 1] & (_OWN | Flag.ADMITTED_ONCE)
        self.tickets[place : place + 2] = bytes((TicketState.PASSED, flags | Flag.SLOT | Flag.PAID))
        door = self.door(fact.ticket)._replace(
            before=0,
            pass_end=self.ds(fact.pass_end),
            claim_end=self.ds(fact.claim_end),
            used_at=0,
            admitted=0,
            admission_seq=seq & 0xFFFFFFFF,
        )
        self._put_door(fact.ticket, door)

    def _rebind(self, fact: OwnerRebound) -> None:
        if fact.place:
            if not self.pre_queue.is_known(fact.place):
                raise BrokenJournal(f"place {fact.place} was never given")
            self.pre_queue.rebind(fact.place, fact.strict + fact.loose)
            return
        place = self._known(fact.ticket)
        self.tickets[place + _PRINTS : place + TICKET_BYTES] = fact.strict + fact.loose
        if fact.from_loose:
            self.tickets[place + 1] |= Flag.HAS_FROM
            self.froms[fact.ticket] = fact.from_loose

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
