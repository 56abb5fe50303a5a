"""What a deployment was declared to need, beside what it has: instances, and CPUs of each. Pure.

Spare capacity is load-bearing: too little of it is told at once, with the reason why it is there. Not here: counting
(services/capacity_watch.py). Source: BUD-062 … BUD-069.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from app.core.settings import Settings


class Member(Protocol):
    """An instance as its record tells of it."""

    @property
    def is_stopping(self) -> bool: ...

    @property
    def role(self) -> str: ...


def counted(live: Iterable[Member]) -> int:
    """Instances that answer visitors: those that stop, and those that only work, do not count (BUD-068)."""
    return sum(counts(one) for one in live)


def counts(one: Member) -> bool:
    """It answers visitors."""
    return not one.is_stopping and one.role != "worker"


@dataclass(frozen=True, slots=True)
class Declared:
    """What was declared."""

    instances: int
    is_set: bool
    """False: the number is the default, of which nobody is told but by ``hardening`` (BUD-063)."""
    reason: str | None
    cpus: int | None

    @classmethod
    def of(cls, settings: Settings, given: frozenset[str]) -> Declared:
        """By the settings; ``given``: variables whose value came from the environment."""
        return cls(
            settings.fleet_min_instances,
            "FLEET_MIN_INSTANCES" in given,
            settings.fleet_min_reason,
            settings.instance_min_cpus,
        )

    def too_few(self, instances: int | None) -> str | None:
        """What is said of so many instances; None when they are enough, or not known."""
        if not self.is_set or instances is None or instances >= self.instances:
            return None
        why = f": {self.reason}" if self.reason else ""
        return f"{instances} of {self.instances} instances; do not lower this{why}"

    def too_small(self, instance: str, usable: float | None) -> str | None:
        """What is said of an instance that may use so many CPUs; None when they are enough, or not known."""
        if self.cpus is None or usable is None or usable >= self.cpus:
            return None
        return f"{instance} may use {usable:g} of the {self.cpus} CPUs that INSTANCE_MIN_CPUS declares"

    def refusal(self, *, others: int | None) -> str | None:
        """Why an instance must not be stopped that leaves ``others`` (None: nobody can count them) behind."""
        if not self.is_set or self.instances < 2:
            return None
        left = others or 0
        return self.too_few(left)

    def block(self, *, instances: int | None, usable: float | None) -> dict[str, Any]:
        """``capacity`` of health (BUD-067)."""
        return {
            "instancesDeclared": self.instances,
            "instances": instances,
            "cpusDeclared": self.cpus,
            "cpusUsable": usable,
            "reason": self.reason,
        }
