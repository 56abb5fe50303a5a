"""What a room is: its configuration, and the copy of it that a process keeps.

Belongs here: the values of a room and what follows from them alone. Not here: validation of requests
(room_fields.py), live figures (engine_results.py), storage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from app.core.ids import EpochMs, Generation, RoomId
from app.domain.automation import AutoActivate, Autotune
from app.domain.protection_mode import Protection


class RoomState(IntEnum):
    """Configured state; SCHEDULED exists as an effective state only."""

    ACTIVE = 0
    PAUSED = 1
    BYPASS = 2
    SCHEDULED = 3

    @property
    def word(self) -> str:
        """The word used in JSON: ``active``, ``paused``, ``bypass``, ``scheduled``."""
        return self.name.lower()


CLAIM_WINDOW_SEC: Final = 120
"""Longest claim window (ENG-127)."""


@dataclass(frozen=True, slots=True)
class UrlRule:
    """One URL-targeting rule (ENG-197)."""

    id: str
    action: str
    """``protect`` or ``skip``."""
    pattern: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class RoomConfig:
    """Every field of a room that an operator sets (ENG-024 … ENG-048). Units stand in the names.

    JSON names are the camelCase forms; ``rate`` is reported for ``rate_per_minute``. ``None`` caps mean no cap.
    """

    id: RoomId
    name: str
    target_url: str
    state: RoomState = RoomState.ACTIVE
    rate_per_minute: int = 60
    max_concurrent: int | None = None
    passed_ttl_sec: int = 600
    session_ttl_sec: int = 1800
    session_max_sec: int = 14400
    presence_sec: int = 30
    queue_max_per_ip: int | None = 16
    pre_queue_max_per_ip: int | None = 16
    return_origins: tuple[str, ...] = ()
    tag_origins: tuple[str, ...] | None = None
    rules: tuple[UrlRule, ...] = ()
    on_backend_down: str = "closed"
    auto_activate: AutoActivate | None = None
    autotune: Autotune | None = None
    """None = the server's default (AUTOTUNE)."""
    opens_at: int | None = None
    """When the doors open, epoch ms; stays after the opening (ENG-184)."""
    session_max_per_ip: int | None = None
    protection: Protection | None = None
    """None = the server's default (PROTECTION_MODE)."""
    proxy_origin: str | None = None
    """Origin of the site behind an inline room; None = snippet mode (INL-001)."""

    @property
    def is_inline(self) -> bool:
        """Tell whether this server stands in front of the room's site."""
        return self.proxy_origin is not None

    @property
    def claim_sec(self) -> int:
        """Claim window of a pass (ENG-127)."""
        return min(CLAIM_WINDOW_SEC, self.passed_ttl_sec)


@dataclass(frozen=True, slots=True)
class Room:
    """A process's copy of one room: configuration plus what callers of the engine must know.

    ``cfg_ver`` is the version of this copy; the engine answers STALE when it is not the current one.
    A change of only state and/or rate does not raise it: both are decided by the engine's own header.
    """

    config: RoomConfig
    generation: Generation
    salt: bytes
    """16 random bytes made with the room; mixed into every digest of it."""
    cfg_ver: int
    created_at: EpochMs
    updated_at: EpochMs
    compiled: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Per-process memo of things compiled from the config (origin policy, rules, rendered text)."""

    @property
    def id(self) -> RoomId:
        """Id of the room."""
        return self.config.id
