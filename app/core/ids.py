"""Names of things: typed aliases and the forms that ids must have.

Belongs here: NewTypes and pure checks of identifiers. Not here: parsing of requests, signing.
"""

from __future__ import annotations

import re
from typing import Final, NewType

RoomId = NewType("RoomId", str)
Ticket = NewType("Ticket", int)
"""Number of a ticket, counted from 1 per room generation."""
Generation = NewType("Generation", int)
Seq = NewType("Seq", int)
"""Position of a fact in its room's journal, counted from 1 per generation; 0 = none."""
EpochMs = NewType("EpochMs", int)
"""Wall-clock milliseconds since 1970."""

ROOM_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
RESERVED_PREFIXES: Final = ("dk_", "meta_", "notify_", "email_")
RESERVED_IDS: Final = frozenset(
    {
        "console", "theme", "lang", "admin_key", "autotune", "autotune_cfg", "wait_samples",
        "hidden_series", "selected_room", "alerts", "offline_attempts", "origin_down_attempts",
    }
)  # fmt: skip


def is_room_id(text: object) -> bool:
    """Tell whether ``text`` has the form of a room id (ENG-014)."""
    return isinstance(text, str) and ROOM_ID.fullmatch(text) is not None


def reserved_reason(room_id: str) -> str | None:
    """Sentence that says why ``room_id`` cannot be created, or None (ENG-015, ENG-016, ENG-017)."""
    for prefix in RESERVED_PREFIXES:
        if room_id.startswith(prefix):
            return f'Room ids that start with "{prefix}" are reserved'
    if room_id in RESERVED_IDS:
        return f'The room id "{room_id}" is reserved'
    return None
