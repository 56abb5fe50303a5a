"""Fold: what the journaled facts of a room's generation add up to (ENG-252, ENG-272).

A fold decides nothing: it repeats what was recorded. It keeps ticket and door records as the bytes they have in the
live store (layout.py), so that a million joins fold in seconds. Not here: what follows from the records, and how they
are written back (fold_image.py).

A journal row is ``(seq, type, lv, at, body)``; the body of ``joined`` comes without the readable address, which the
journal keeps apart and no fold reads (FLT-150).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    SlotGiven,
    SlotReleased,
)
from app.domain.facts_of_rooms import ClockMoved, RoomCreated, RoomDeleted, RoomUpdated
from app.domain.facts_of_tickets import Ejected, JoinWithdrawn, Left, OwnerRebound, Purged
from app.domain.fold_churn import PlaceLeft, give_all_back, note_left, threshold
from app.domain.fold_doors import PREJOINED_BODY, DoorsFold
from app.domain.fold_marks import marks_after, marks_of_new_room
from app.domain.fold_passes import PassesFold
from app.domain.fold_tickets import JOINED_BODY, WITH_FROM, BrokenJournal
from app.domain.layout import PLACE_BYTES, TICKET_BYTES
from app.domain.ticket_state import TicketState, Why

JournalRow = Sequence[Any]
"""(seq, type, lv, at, body)."""

_RANGES: Final = 16
"""Purges whose numbers are remembered (lua/lib/purge.lua)."""
_PLACE_AT, _PLACE_BYTES = 14, 10
"""Where net and address stand in a record of a ticket or of a place."""


@dataclass(slots=True)
class RoomFold(PassesFold):
    """A room as its facts tell it. Feed rows in order, from the first fact of the generation on."""

    seq: int = 0
    last_at: int = 0
    updated_at: int = 0
    deleted: bool = False
    gen: int = 0
    cfg_ver: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    """RoomConfig by snake_case field name."""
    salt: bytes = b""
    marks: dict[str, str] = field(default_factory=dict)
    """JSON texts that the live store keeps beside the configuration (lua/lib/change.lua)."""
    purges: list[tuple[int, int]] = field(default_factory=list)
    """First and last number of the lines that were purged, the latest of them. Their records still say WAITING."""
    left: list[PlaceLeft] = field(default_factory=list)
    """Places that were left lately."""
    pre_queue: DoorsFold = field(default_factory=DoorsFold)

    def feed(self, rows: Iterable[JournalRow]) -> None:
        """Apply facts. UnknownFact: a type or ``lv`` of a newer build, or a damaged body; never skipped (ENG-251)."""
        joined, prejoined = FactType.JOINED, FactType.PREJOINED
        for seq, kind, lv, at, body in rows:
            if seq != self.seq + 1:
                raise BrokenJournal(f"fact {self.seq + 1} is missing, next is {seq}")
            if kind == joined:
                if len(body) not in (JOINED_BODY, WITH_FROM) or not 1 <= lv <= EVENT_LOG_VERSION:
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

        What a fact writes ``now_ds`` into belongs here too. Also needed when the room's clock has moved since: the same
        moment is then another ``now_ds``.
        """
        self.renew_tickets()
        self.pre_queue.renew(self.now_ds)

    def _apply(self, seq: int, at: int, fact: Any) -> None:
        match fact:
            case Promoted():
                self._promote(at, fact)
                if fact.by == PromotedBy.FLUSH:
                    give_all_back(self.left, "i")
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
            case ClockMoved():
                self.t0, self.clock_moves = fact.t0, self.clock_moves + 1
            case Scheduled() | DrawBegun() | DrawPart() | Drawn():
                self._move_doors(at, fact)
            case _:
                raise UnknownFact(f"fact {seq}: {type(fact).__name__} is not folded")

    def _create(self, at: int, fact: RoomCreated) -> None:
        self.config, self.salt, self.gen, self.cfg_ver = dict(fact.config), fact.salt, fact.gen, fact.cfg_ver
        self.created_at = self.updated_at = self.t0 = at
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
                note_left(self.left, (self.mono(at), "i", place, threshold(caps[0]), True))
            self._finish(n, TicketState.EXPIRED, Why.LEFT)
        for number in fact.places:
            self._finish_place(number, TicketState.EXPIRED, Why.LEFT)
            begin = (number - 1) * PLACE_BYTES + _PLACE_AT
            place = bytes(self.pre_queue.records[begin : begin + _PLACE_BYTES])
            in_line = self.pre_queue.number(number) > 0  # its number, told or not, counted there
            book, cap = ("i", caps[0]) if in_line else ("ip", caps[1])
            note_left(self.left, (self.mono(at), book, place, threshold(cap), True))

    def _finish_place(self, place: int, state: TicketState, why: int) -> None:
        if not self.pre_queue.is_known(place):
            raise BrokenJournal(f"place {place} was never given")
        if number := self.pre_queue.finish(place, state, why):
            self._finish(number, state, why)

    def _rebind(self, fact: OwnerRebound) -> None:
        if fact.place:
            if not self.pre_queue.is_known(fact.place):
                raise BrokenJournal(f"place {fact.place} was never given")
            self.pre_queue.rebind(fact.place, fact.strict + fact.loose)
            return
        self._rebind_ticket(fact.ticket, fact.strict + fact.loose, fact.from_loose)
