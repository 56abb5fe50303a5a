"""Marks of a room: what later decisions, and people, need to know of earlier changes, from the facts that made these.

The live store keeps them beside the configuration (``lua/lib/change.lua``, which writes the same texts). Source:
ENG-216, ENG-221, ENG-224, FLT-026, ADM-121.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import ujson

from app.domain.facts_of_rooms import RoomUpdated
from app.domain.room import RoomState

AUTOMATIC: Final = ("autotune", "threshold")
"""``why`` of changes that no person made."""


def marks_of_new_room(config: Mapping[str, Any]) -> dict[str, str]:
    """Marks of a room that was just made with this configuration."""
    return {"mark_rate": str(config.get("rate_per_minute", 60)), "mark_rate_at": "0"}


@dataclass(frozen=True, slots=True)
class LastChange:
    """The last change of state or rate (ADM-121); ``before`` and ``after``: number of a state, or a rate."""

    at: int
    """Wall ms."""
    by: str
    """Name of the person; ``system`` when ``is_automatic``."""
    is_automatic: bool
    kind: str
    """``state`` or ``rate``; of a change of both, the state."""
    before: int
    after: int

    @property
    def text(self) -> str:
        """``bypass → active``, ``60 → 90/min``."""
        if self.kind == "rate":
            return f"{self.before} → {self.after}/min"
        return f"{RoomState(self.before).word} → {RoomState(self.after).word}"

    @classmethod
    def read(cls, text: bytes | str) -> LastChange:
        """From the mark ``mark_last``."""
        raw = ujson.loads(text)
        return cls(raw["at"], raw["by"], raw["auto"], raw["kind"], raw["from"], raw["to"])


def marks_after(marks: Mapping[str, str], at: int, fact: RoomUpdated, before: Mapping[str, Any]) -> dict[str, str]:
    """Marks after a change of the room at wall ms ``at``. ``before``: its configuration until then."""
    after = dict(marks)
    by_hand = fact.why not in AUTOMATIC
    if by_hand and "rate_per_minute" in fact.changes:
        after |= {"mark_rate": str(fact.changes["rate_per_minute"]), "mark_rate_at": str(at)}
    if "state" in fact.changes:
        after.pop("mark_own", None)
        if not by_hand:
            is_opened = fact.changes["state"] == RoomState.ACTIVE
            after |= {"mark_switch": '"opened"' if is_opened else '"closed"', "mark_switch_at": str(at)}
            after |= {"mark_own": "true"} if is_opened else {}
    kind, key, least = ("state", "state", 0) if "state" in fact.changes else ("rate", "rate_per_minute", 60)
    if key in fact.changes:
        by = ujson.dumps(str(fact.actor), ensure_ascii=False, escape_forward_slashes=False)
        numbers = f'"from":{before.get(key, least)},"to":{fact.changes[key]}'
        auto = "false" if by_hand else "true"
        after["mark_last"] = f'{{"at":{at},"by":{by},"auto":{auto},"kind":"{kind}",{numbers}}}'
    if fact.figures is not None and "leader" in fact.figures:
        after["mark_leader"] = str(max(int(after.get("mark_leader", 0)), fact.figures["leader"]))
    return after
