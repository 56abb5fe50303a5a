"""How long a visitor may still have to wait. Source: ENG-234 … ENG-236."""

from __future__ import annotations

import math


def estimated_wait_sec(ahead: int, release_per_min: float) -> int | None:
    """Seconds until ``ahead`` tickets are released, rounded up; None = nobody is let in (ENG-235)."""
    if release_per_min <= 0:
        return None
    return math.ceil(ahead * 60 / release_per_min)
