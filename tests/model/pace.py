"""The model's pace: slots, presence, what ends by time, the tick (chapters 9 to 11 of docs/spec/02-engine.md).

What ends by time ends for its holder at that moment and for everybody else with the next tick. Not here: visitors
(line.py), the pre-queue (doors.py), operators (model.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from tests.model.people import CLAIM, LONGEST_TICK, NOTED, SHORT_CLAIM, Ds, Holder, Pass, Settings


@dataclass
class Pace:
    """Tickets, passes and sessions of a room."""

    settings: Settings
    gen: int = 1
    now: Ds = 0
    tickets: list[Holder] = field(default_factory=list)
    """In the order of their numbers."""
    last: int = 0
    credit: Fraction = Fraction(1)
    last_tick: Ds = 0
    is_flushing: bool = False
    """A flush was done since the last tick: until then nobody of a bounded address walks in (ENG-187)."""
    leaves: list[tuple[int, str]] = field(default_factory=list)
    """Tens of seconds and address of every place that was left in line or pre-queue."""
    counting_on: list[tuple[Ds, str, str]] = field(default_factory=list)
    """Places that were left and count on: until when, address, "line" or "pre"."""
    judged: list[tuple[int, str, bool]] = field(default_factory=list)
    """Minute, address and whether the slot went unused, of passes with a slot of which their holders were told."""

    # ---------------------------------------------------------------- figures

    @property
    def effective(self) -> str:
        """ENG-062."""
        return self.settings.state

    @property
    def can_pay(self) -> bool:
        """Credit is earned and spent only while the room lets people in (ENG-119)."""
        return self.effective == "active" and self.settings.rate > 0 and self.credit >= 1

    def waiting(self) -> list[Holder]:
        """The line (ENG-229)."""
        return [t for t in self.tickets if t.state == "waiting"]

    @property
    def active(self) -> int:
        """Sessions."""
        return sum(t.state == "active" for t in self.tickets)

    @property
    def pending(self) -> int:
        """Unused passes that hold a slot."""
        return sum(t.state == "passed" and t.right.slot for t in self.tickets)

    @property
    def passes_out(self) -> int:
        """ENG-129."""
        return sum(t.state == "passed" and not t.right.slot for t in self.tickets)

    @property
    def occupancy(self) -> int:
        """ENG-128."""
        return self.active + self.pending

    def slots_of(self, address: str) -> int:
        """ENG-296."""
        return sum(t.holds_slot and t.address == address for t in self.tickets)

    def has_room(self) -> bool:
        """A slot is free."""
        cap = self.settings.max_concurrent
        return cap is None or self.occupancy < cap

    def may_hold(self, t: Holder) -> bool:
        """The address of ``t`` has not all the slots that it may have (ENG-296)."""
        cap = self.settings.session_ip_cap
        return cap is None or self.slots_of(t.address) < cap

    def is_present(self, t: Holder) -> bool:
        """ENG-138."""
        return self.now - t.seen <= self.settings.presence * 10

    def see(self, t: Holder) -> None:
        """The holder is here (ENG-137); noted once a second."""
        if not self.is_present(t):
            t.right.at_door = t.right.at_door and t.right.slot
        if self.now - t.seen >= NOTED:
            t.seen = self.now

    # ---------------------------------------------------------------- endings

    def session_end(self, t: Holder) -> Ds:
        """ENG-148."""
        assert t.first_admitted is not None
        return min(t.used + self.settings.session_ttl * 10, t.first_admitted + self.settings.session_max * 10)

    def is_over(self, t: Holder) -> bool:
        """A session that has ended, a pass that has lapsed (ENG-130, ENG-131, ENG-148)."""
        if t.state == "active":
            return self.now >= self.session_end(t)
        if t.state != "passed" or self.now < t.right.end:
            return False
        if t.right.slot:
            return self.now >= t.right.claim_end
        return not t.right.at_door or t.right.wasted or not self.is_present(t)

    def is_live(self, t: Holder) -> bool:
        """In line, with a pass, or in a session."""
        return t.state in ("waiting", "passed", "active") and not self.is_over(t)

    def end(self, t: Holder) -> None:
        """What a tick ends for this ticket."""
        right = t.right
        if t.state == "passed" and right.slot:
            is_over = self.now >= right.claim_end
            if is_over or not (t.told or self.is_present(t)):  # ENG-127, ENG-140
                if is_over:
                    self.judge(t, is_unused=True)
                right.wasted = right.wasted or (is_over and right.given_at_door)
                right.slot = right.given_at_door = right.at_door = False
        if self.is_over(t):
            self.finish(t, "expired")

    def finish(self, t: Holder, state: str) -> None:
        """``t`` is done with."""
        t.state = state
        t.right.slot = t.right.at_door = t.right.given_at_door = False
        t.key = t.came_from = ""

    # ------------------------------------------------------------------- tick

    def earn(self) -> None:
        """Credit for the time since the last tick or change of the room (ENG-114, ENG-116, ENG-119)."""
        elapsed = min(self.now - self.last_tick, LONGEST_TICK)
        self.last_tick = self.now
        if self.effective == "active":
            earned = Fraction(self.settings.rate * elapsed, 600)
            self.credit = min(self.credit + earned, Fraction(self.settings.rate, 60) + 1)

    def move(self) -> None:
        """Ends, then the door, then the line; what credit is left is cut (ENG-115)."""
        self.is_flushing = False
        self.counting_on = [held for held in self.counting_on if held[0] > self.now]
        for t in self.tickets:
            self.end(t)
        self.serve_door()
        self.serve_line()
        self.credit = min(self.credit, Fraction(1))

    def at_door(self) -> list[Holder]:
        """Whoever stands at the door without a slot and is here, oldest first (ENG-131)."""
        return [
            t
            for t in self.tickets
            if t.state == "passed" and t.right.at_door and not t.right.slot and self.is_present(t)
        ]

    def serve_door(self) -> None:
        """ENG-122, ENG-131, ENG-133. While nobody may pay, because the room is paused or scheduled, the unpaid are
        passed by (ENG-060); a holder whose address has its slots holds nobody up (ENG-296)."""
        if self.effective == "bypass":
            return
        for t in self.at_door():
            if not self.has_room():
                return
            if not self.may_hold(t):
                continue
            if not t.right.paid and not self.can_pay:
                if self.effective == "active":
                    return
                continue
            self.pay(t)
            self.give_slot(t)
            t.right.given_at_door, t.told = True, False

    def give_slot(self, t: Holder) -> None:
        """A slot for a new claim window (ENG-127, ENG-297)."""
        t.right.slot = True
        longest = SHORT_CLAIM if self.is_squatter(t.address) else CLAIM
        t.right.claim_end = self.now + min(longest, self.settings.passed_ttl * 10)

    def judge(self, t: Holder, is_unused: bool) -> None:
        """How a slot that its holder was told of ended."""
        if self.settings.session_ip_cap is not None and t.told and t.right.slot:
            self.judged.append((self.now // 600, t.address, is_unused))

    def is_squatter(self, address: str) -> bool:
        """ENG-297."""
        if self.settings.session_ip_cap is None:
            return False
        told = [unused for minute, who, unused in self.judged if who == address and minute > self.now // 600 - 60]
        return sum(told) >= 4 and sum(told) * 2 > len(told)

    def pay(self, t: Holder) -> None:
        """The credit that a pass costs once."""
        if not t.right.paid:
            self.credit -= 1
            t.right.paid = True

    def serve_line(self) -> None:
        """ENG-121, ENG-123."""
        for t in self.waiting():
            if not self.can_pay or not self.has_room():
                return
            is_present, may_hold = self.is_present(t), self.may_hold(t)
            self.promote(t)
            if is_present and may_hold:
                self.pay(t)
                self.give_slot(t)
            else:
                t.right.at_door = is_present

    def promote(self, t: Holder) -> None:
        """A pass without slot that has not been paid."""
        t.state, t.told = "passed", False
        t.right = Pass(passed_at=self.now, end=self.now + self.settings.passed_ttl * 10)

    def give_back(self, book: str) -> None:
        """Whatever counts on is given back (ENG-293)."""
        self.counting_on = [held for held in self.counting_on if held[2] != book]

    def change(self, name: str, value: object) -> None:
        """A field of the room; what was earned so far was earned by the old one (ENG-120)."""
        self.earn()
        self.credit = min(self.credit, Fraction(1))
        setattr(self.settings, name, value)
