"""A small waiting room in plain Python, written from docs/spec/02-engine.md: the second opinion on the engine.

One room of one generation, everything in lists and plain objects, no care for speed. It shares no code with the
engine. Times are tenths of a second since the room was made; ``now`` is moved by whoever plays. This module has what
operators do and what goes wrong; pace.py, line.py and doors.py have the rest. Not here: comparing with the engine
(machine.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tests.model.doors import Doors
from tests.model.people import Holder


@dataclass
class Model(Doors):
    """The whole room."""

    # -------------------------------------------------------------- operators

    def eject(self, number: int) -> str:
        """State before, or "" for a number that was never issued (ENG-191, ENG-192)."""
        t = self.find(number)
        if t is None:
            return ""
        was = t.state
        if was != "ejected":
            self.finish(t, "ejected")
            t.joined, t.right.passed_at = 0, 0
        return was

    def flush(self) -> int | str:
        """How many got a pass, or the state that forbids it (ENG-187, ENG-188)."""
        if self.effective in ("bypass", "scheduled"):
            return self.effective
        line = self.waiting()
        if line:
            self.serve_door()
            self.give_back("line")
            self.is_flushing = True
        for t in line:
            self.promote(t)
            t.right.paid = True
            if self.settings.session_ip_cap is not None:
                t.right.at_door = True  # slots come in the next tick, address by address
            elif self.has_room():
                self.give_slot(t)
        return len(line)

    def purge(self) -> tuple[int, int]:
        """People dropped in line and in the pre-queue (ENG-189, ENG-190)."""
        line, places = self.waiting(), self.held()
        for book, dropped in (("line", line), ("pre", places)):
            for t in dropped:
                self.finish(t, "ejected")
                t.by_purge = True
            if dropped:
                self.give_back(book)
        return len(line), len(places)

    # ------------------------------------------------------- what goes wrong

    def withdraw_join(self, t: Holder) -> None:
        """ENG-075."""
        if t.state in ("waiting", "passed", "active"):
            self.finish(t, "withdrawn")

    def withdraw_admission(self, t: Holder) -> None:
        """ENG-146."""
        assert t.before is not None
        right, first = t.before
        if not right.paid:
            self.credit += 1
        t.state, t.right, t.first_admitted, t.key = "passed", right, first, ""

    def rebuilt(self, credit: Fraction) -> None:
        """After a loss of the live state (ENG-142, ENG-272)."""
        self.credit, self.last_tick, self.judged, self.is_flushing = credit, self.now, [], False
        for t in self.holders():
            t.seen, t.told, t.bound = self.now, False, (0, 0)
            if t.state == "active":
                t.used = self.now
            if t.state == "passed" and not t.right.slot:  # who was not at the door has lapsed
                t.right.at_door = self.now >= t.right.end and not t.right.wasted
