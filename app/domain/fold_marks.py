"""Marks of a room: what later automatic decisions need of earlier changes, from the facts that made these.

The live store keeps them beside the configuration (``lua/lib/change.lua``, which writes the same texts). Source:
ENG-216, ENG-221, ENG-224, FLT-026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from app.domain.facts_of_rooms import RoomUpdated
from app.domain.room import RoomState

AUTOMATIC: Final = ("autotune", "threshold")
"""``why`` of changes that no person made."""


def marks_of_new_room(config: Mapping[str, Any]) -> dict[str, str]:
    """Marks of a room that was just made with this configuration."""
    return {"mark_rate": str(config.get("rate_per_minute", 60)), "mark_rate_at": "0"}


def marks_after(marks: Mapping[str, str], at: int, fact: RoomUpdated) -> dict[str, str]:
    """Marks after a change of the room at wall ms ``at``."""
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
    if fact.figures is not None and "leader" in fact.figures:
        after["mark_leader"] = str(max(int(after.get("mark_leader", 0)), fact.figures["leader"]))
    return after
