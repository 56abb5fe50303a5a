"""Who may do what: the rising roles, the groups of acts, and the role that each group needs.

Belongs here: the table alone. Not here: credentials (services/access.py), the need of one route (blueprints/admin).
Source: ADM-083, ADM-285, ADM-286.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Role(IntEnum):
    """Roles in rising order; each may do everything of those below it."""

    MONITOR = 0
    VIEWER = 1
    OPERATOR = 2
    OWNER = 3

    @property
    def word(self) -> str:
        """The word used in JSON."""
        return self.name.lower()

    @classmethod
    def of(cls, word: str) -> Role:
        """The role of a word; KeyError when there is none."""
        return cls[word.upper()]


GROUPS: Final[dict[str, Role | None]] = {
    "write": Role.OPERATOR,
    "inline": Role.OWNER,
    "deleteRoom": Role.OWNER,
    "operators": Role.OWNER,
    "links": Role.OPERATOR,
    "visitors": Role.VIEWER,
    "audit": Role.VIEWER,
    "diagnostics": Role.VIEWER,
    "alerts": Role.VIEWER,
    "reports": Role.MONITOR,
    "security": Role.MONITOR,
    "shutdown": Role.OWNER,
    "webhooks": None,
    "webhooksOwner": None,
    "mesh": None,
    "meshOwner": None,
    "ingress": None,
}
"""Groups of ``can`` in ``GET /api/admin/me`` and the least role of each; None = no route of it in this build, so
that no page offers a control whose every use would be refused."""


def can(role: Role) -> dict[str, bool]:
    """What a holder of ``role`` may do, by group (ADM-083)."""
    return {group: needs is not None and role >= needs for group, needs in GROUPS.items()}
