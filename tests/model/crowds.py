"""Steps that are whole visits, and of many at once: by single steps at random nobody gets far enough.

Base of machine.py, which has what a visitor does and compares it.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.model.choices import LOSSES, PAUSES, WHO
from tests.model.people import Ds, Visitor


class Crowds:
    """Rules of a machine that has visitors."""

    visitors: list[Visitor]

    @precondition(lambda self: self.visitors)
    @rule(who=WHO, other=WHO, pause=PAUSES, lost=st.sampled_from(LOSSES))
    def stay(self, who: int, other: int, pause: Ds, lost: str) -> None:
        """Somebody asks, goes in if he may, and comes again after a while, with all that he has or not."""
        visitor = self.visitor(who)
        self._status(visitor, told=True, seen=True)
        self.tick(step=10, behind=0, pause=10)
        self._check(visitor, covered=True, vouched=False, may_bind=True)
        self._pass_time(pause)
        if lost:
            self.disguise(who=who, other=other, what=lost)
        self._check(visitor, covered=True, vouched=False, may_bind=True)

    @precondition(lambda self: self.visitors)
    @rule(what=st.sampled_from(("check", "check", "status", "join")), first=WHO, pause=PAUSES)
    def everybody(self, what: str, first: int, pause: Ds) -> None:
        """All of them come to the door, ask or join, one after the other."""
        for who in range(first, first + len(self.visitors)):
            self.visit(who=who, what=what, variant=0)
        self.tick(step=pause, behind=0, pause=50)

    @precondition(lambda self: len(self.visitors) > 3)
    @rule(cap=st.sampled_from((1, 2)), ttl=st.sampled_from((20, 150)))
    def crowd_the_door(self, cap: int, ttl: int) -> None:
        """All have passes and few get in; each who goes leaves his slot to whoever comes first, the last one first."""
        self._configure("passed_ttl", ttl)
        self._configure("max_concurrent", cap)
        for visitor in self.visitors:
            self._join(visitor)
        self._act("flush", 0)
        self.tick(step=10, behind=0, pause=10)
        for visitor in self.visitors:
            self._check(visitor, covered=True, vouched=False, may_bind=True)
        for gone in self.visitors[:2]:
            self._leave(gone)
            for visitor in reversed(self.visitors):
                self._check(visitor, covered=True, vouched=False, may_bind=True)
