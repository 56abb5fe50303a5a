"""What function ``figures`` tells of a room beyond its numbers: things that change slowly or take reading.

Not here: the numbers (engine_results.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RoomDetail:
    """Slow facts of one room."""

    rules: Mapping[str, tuple[int, int]]
    """Rule field (visitor_counts.rule_field) → checks that the rule decided, time of the last one (epoch ms)."""


def read_detail(parts: Sequence[Any]) -> RoomDetail:
    """Detail from the last elements of the reply."""
    flat = parts[0]
    counts: dict[str, int] = {name.decode(): int(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}
    rules = {
        name[1:]: (hits, counts.get("m" + name[1:], 0))
        for name, hits in counts.items()
        if name[0] == "h" and "\n" in name
    }
    return RoomDetail(rules)
