"""What must hold in the journal of a room whatever the model says: numbers, order, times, pace, cap."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from app.domain.facts_of_passes import Promoted, PromotedBy
from app.domain.facts_of_tickets import Joined
from app.domain.layout import Flag
from tests.model.people import Ds


@dataclass
class Watch:
    """Fed with every fact in its order, and told how fast the room may be at any time."""

    last_at: int = 0
    last_joined: int = 0
    last_promoted: int = 0
    earned: list[tuple[Ds, Fraction]] = field(default_factory=lambda: [(0, Fraction(0))])
    """Moments, and the credit that was earned up to each since the room was made."""
    paid: list[Ds] = field(default_factory=list)
    """When a pass was paid at the head of the line or in the step of a join."""

    def pass_time(self, now: Ds, rate: int) -> None:
        """The room has been as fast as ``rate`` passes a minute since the moment before."""
        then, sum_ = self.earned[-1]
        self.earned.append((now, sum_ + Fraction(rate * (now - then), 600)))

    def fact(self, at: int, now: Ds, fact: Any) -> None:
        """ENG-013, ENG-069, ENG-070. ``at``: as recorded; ``now``: the same on the room's clock."""
        assert at >= self.last_at, "recorded times do not go back"
        self.last_at = at
        if isinstance(fact, Joined):
            assert fact.ticket > self.last_joined, "a number is given once, and numbers rise"
            self.last_joined = fact.ticket
        if not isinstance(fact, Promoted):
            return
        for run in fact.runs:
            assert run.first > self.last_promoted, "first in, first out"
            self.last_promoted = run.first + run.count - 1
            if fact.by != PromotedBy.FLUSH and run.flags & Flag.PAID:
                self.paid += [now] * run.count
                self.pace(now)

    def pace(self, now: Ds) -> None:
        """In every window that ends now no more passes were paid than credit was earned in it, in the last counted time
        before it, and one that may have been left (ENG-115 … ENG-118)."""
        for place, then in enumerate(self.paid):
            before = self.sum_at(then - 50)
            assert len(self.paid) - place <= self.sum_at(now) - before + 2, f"pace between {then} and {now}"

    def sum_at(self, moment: Ds) -> Fraction:
        """Credit earned up to a moment."""
        return max((sum_ for when, sum_ in self.earned if when <= moment), default=Fraction(0))
