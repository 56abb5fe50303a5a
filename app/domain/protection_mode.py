"""Whether automated clients are kept out of a line: the modes, and a room's own setting (ENG-046).

Not here: what gives a client away (bot_signals.py), the server's default (PROTECTION_MODE).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ProtectionMode(StrEnum):
    """What a score leads to (VIS-192)."""

    OFF = "off"
    MONITOR = "monitor"
    ENFORCE = "enforce"


@dataclass(frozen=True, slots=True)
class Protection:
    """A room's own mode."""

    mode: ProtectionMode


def protection(value: Any) -> Protection | None:
    """``protection`` of a body whose unknown members were refused before."""
    if value is None:
        return None
    if not isinstance(value, dict) or value.get("mode") not in tuple(ProtectionMode):
        raise ValueError('must be null or {"mode": "off", "monitor" or "enforce"}')
    return Protection(ProtectionMode(value["mode"]))
