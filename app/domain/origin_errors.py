"""How often an inline room's site gave its visitors an error page lately (ADM-119, ADM-120, INL-177, INL-179).

Not here: where the counts are kept (infrastructure/origin_failures.py), why an origin fails (inline/failures.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

WINDOW_SEC: Final = 300
"""Failures that are told: those of the last five minutes."""
CLEAR_SEC: Final = 60
"""A site counts as failing for this long after its last failure."""


@dataclass(frozen=True, slots=True)
class OriginErrors:
    """Failures of one room's origin within the window, fleet-wide."""

    classes: Mapping[str, int] = field(default_factory=dict)
    last_at: int | None = None
    """Epoch ms; None = there was none."""
    is_failing: bool = False
    """The last one is not long ago."""

    @property
    def error_pages(self) -> int:
        """Visitors who got an error page."""
        return sum(self.classes.values())


NO_ERRORS: Final = OriginErrors()
