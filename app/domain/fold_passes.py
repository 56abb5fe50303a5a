"""Fold of passes: promotions, slots at the door, admissions and what takes them back (ENG-262 … ENG-266).

Not here: the records themselves (fold_tickets.py), the room and its facts (fold.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from app.domain.facts_of_passes import (
    AdmissionWithdrawn,
    Admitted,
    Promoted,
    PromotedBy,
    Reclaimed,
    Released,
    Run,
    SlotGiven,
    SlotReleased,
)
from app.domain.fold_tickets import TicketsFold
from app.domain.layout import DOOR_BYTES, TICKET_BYTES, DoorRecord, Flag
from app.domain.ticket_state import TicketState

_NO_KEY: Final = bytes(16)
_DOOR_SLOT: Final = Flag.SLOT | Flag.PAID | Flag.AT_DOOR
_BEFORE: Final = _DOOR_SLOT | Flag.ADMITTED_ONCE
"""What an admission takes from a pass and its withdrawal gives back."""
_OWN: Final = Flag.FROM_PRE_QUEUE | Flag.HAS_FROM
"""What a waiting ticket may have already, and keeps."""
_WAITING: Final = re.compile(rb"\x01+")


@dataclass(slots=True)
class PassesFold(TicketsFold):
    """Tickets with their passes and sessions. ``head``: the highest number that was let in or dropped."""

    head: int = 0

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
