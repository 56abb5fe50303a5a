"""A room as whoever was sent a monitor link may see it: figures, and nothing of how the site is built (ADM-126).

Not here: the whole object (room_object.py), who reads which of the two (blueprints/admin, services/live.py).
"""

from __future__ import annotations

from typing import Any, Final

from app.domain.fold_marks import LastChange
from app.domain.roles import Role
from app.services.room_object import RoomView, room_object

HIDDEN: Final = frozenset(
    {
        "proxyOrigin", "proxyOrigins", "originHealthPath", "origins", "machinePaths", "ingressBudget", "returnOrigins",
        "tagOrigins",
    }
)  # fmt: skip
"""Members that are left out."""
HIDDEN_WITHIN: Final = (("site", "httpStatus"), ("origin", "classes"))
"""Members of members that are left out."""
RULE_HIDDEN: Final = "pattern"
A_PERSON: Final = "operator"
"""Stands for whichever person did something."""


def object_for(role: Role, view: RoomView) -> dict[str, Any]:
    """The object of a room for a caller of this role."""
    return room_object(view) if role > Role.MONITOR else reduced_object(view)


def reduced_object(view: RoomView) -> dict[str, Any]:
    """The object of a room for a monitor link."""
    shown = {name: value for name, value in room_object(view).items() if name not in HIDDEN}
    for name, member in HIDDEN_WITHIN:
        if shown[name] is not None:
            shown[name] = _without(shown[name], member)
    shown["rules"] = [_without(rule, RULE_HIDDEN) for rule in shown["rules"]]
    if shown["lastChange"] is not None and view.figures is not None and view.figures.last_change is not None:
        is_automatic = LastChange.read(view.figures.last_change).is_automatic
        shown["lastChange"]["by"] = "system" if is_automatic else A_PERSON
    return shown


def _without(members: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}
