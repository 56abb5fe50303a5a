"""What function ``figures`` tells of a room beyond its numbers: things that change slowly or take reading.

Not here: the numbers (engine_results.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.domain.hour_record import HourRecord, read_hour

_HOURLY: Final = ("warned", "blocked")
_PROTECTION: Final = "protection."
"""As in services/visitor_counts.py."""


@dataclass(frozen=True, slots=True)
class RoomDetail:
    """Slow facts of one room."""

    rules: Mapping[str, tuple[int, int]]
    """Rule field (visitor_counts.rule_field) → checks that the rule decided, time of the last one (epoch ms)."""
    hours: tuple[HourRecord, ...]
    """Records of the running hour and of the one before it, those that there are."""
    protection: Mapping[str, int] = field(default_factory=dict)
    """What bot protection made of joins: ``scored`` and the outcomes, and ``signal.…`` for each sign."""


def read_detail(parts: Sequence[Any]) -> RoomDetail:
    """Detail from the last elements of the reply."""
    flat, *hours = parts
    counts: dict[str, int] = {name.decode(): int(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}
    rules = {
        name[1:]: (hits, counts.get("m" + name[1:], 0))
        for name, hits in counts.items()
        if name[0] == "h" and "\n" in name
    }
    records = tuple(record for record in map(read_hour, hours) if record is not None)
    protection = {name.removeprefix(_PROTECTION): n for name, n in counts.items() if name.startswith(_PROTECTION)}
    protection.update((name, counts[name]) for name in _HOURLY if name in counts)
    return RoomDetail(rules, records, protection)
