"""What a monitor link sees of health: a link is meant to leave the team (05, section 16).

Health is built from a list of what may be seen, so that a new block is hidden until somebody decides otherwise.
Not here: rooms (room_reduced.py), the timeline (notes.py). Source: ADM-238, ADM-240.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from app.domain.incidents import GENERAL

HEALTH_SHOWN: Final = ("ready", "status", "version", "startedAt", "uptimeSec", "leader", "rooms")
_BACKEND_SHOWN: Final = ("store", "valkey", "recoveringRooms", "ok", "valkeyEverConnected")


def reduced_health(report: Mapping[str, Any]) -> dict[str, Any]:
    """The health report as far as anybody may see it."""
    shown = {name: report[name] for name in HEALTH_SHOWN if name in report}
    shown["backend"] = {name: report["backend"][name] for name in _BACKEND_SHOWN if name in report["backend"]}
    shown["incidents"] = [_incident(one) for one in report["incidents"]]
    return shown


def _incident(one: Mapping[str, Any]) -> dict[str, Any]:
    code = str(one["code"])
    return {
        "code": code,
        "severity": one["severity"],
        "roomId": None,
        "since": one["since"],
        "text": GENERAL.get(code, code.replace("_", " ")),
    }
