"""What is wrong now, in the order of its weight and in words for operators and for strangers. Pure.

Not here: finding it (services/instance_watch.py, services/standing.py). Source: OBS-005, OBS-041, OBS-044, OBS-045.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

ORDER: Final = (
    "origin_down", "storage_degraded", "valkey_down", "connector_locked", "joins_refused", "valkey_policy",
    "room_recovering", "fleet_below_min", "mesh", "target_down", "webhook_key_lost", "cpu_contention",
    "cpus_below_min", "clock_jump", "room_rebuilt",
)  # fmt: skip
"""Codes, the weightiest first (OBS-045)."""
_CRITICAL: Final = frozenset(
    {
        "origin_down", "storage_degraded", "valkey_down", "connector_locked", "joins_refused", "valkey_policy",
        "fleet_below_min", "cpus_below_min",
    }
)  # fmt: skip
GENERAL: Final = {
    "origin_down": "The site behind a room does not answer",
    "target_down": "The site behind a room does not answer",
    "storage_degraded": "storage is degraded",
    "valkey_down": "Valkey cannot be reached",
    "connector_locked": "A connector is locked out",
    "joins_refused": "A room takes nobody new",
    "valkey_policy": "Valkey is not set up as it must be",
    "room_recovering": "A room is being rebuilt from the journal",
    "room_rebuilt": "A room was rebuilt from the journal",
    "clock_jump": "The clock of a server jumped",
    "cpu_contention": "A server does not get the CPU that it needs",
    "fleet_below_min": "Fewer servers run than this deployment needs",
    "cpus_below_min": "A server is smaller than this deployment needs",
}
"""Sentences for whom details are no business of (OBS-041)."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that is wrong now (OBS-044). ``since``: epoch ms; None for one that was only just found."""

    code: str
    text: str
    room_id: str | None = None
    since: int | None = None

    @property
    def severity(self) -> str:
        """``critical`` or ``warning``."""
        return "critical" if self.code in _CRITICAL else "warning"

    def to_json(self) -> dict[str, Any]:
        """The object of ``incidents``."""
        return {
            "code": self.code,
            "severity": self.severity,
            "roomId": self.room_id,
            "since": self.since,
            "text": self.text,
        }


class Onsets:
    """Remembers since when each incident has been there."""

    def __init__(self, known: Iterable[Incident] = ()) -> None:
        """``known``: those that were dated before."""
        self._since: dict[tuple[str, str | None], int] = {
            (one.code, one.room_id): one.since for one in known if one.since is not None
        }

    def dated(self, found: Iterable[Incident], now: int) -> list[Incident]:
        """``found`` in order of weight, each with the time it was first found, unless it has its own."""
        dated = [
            one if one.since is not None else replace(one, since=self._since.get((one.code, one.room_id), now))
            for one in found
        ]
        self._since = {(one.code, one.room_id): one.since or now for one in dated}
        return in_order(dated)


def in_order(incidents: Iterable[Incident]) -> list[Incident]:
    """The weightiest first; of one code in the order given."""
    return sorted(incidents, key=lambda one: ORDER.index(one.code) if one.code in ORDER else len(ORDER))


def codes(incidents: Iterable[Incident]) -> list[str]:
    """``degraded``: the codes, each once."""
    return list(dict.fromkeys(one.code for one in incidents))
