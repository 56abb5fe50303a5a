"""States of a ticket, as numbers in its record, in facts and across the Lua border."""

from __future__ import annotations

from enum import IntEnum


class TicketState(IntEnum):
    """State byte of a ticket record."""

    NONE = 0
    WAITING = 1
    PASSED = 2
    ACTIVE = 3
    EXPIRED = 4
    EJECTED = 5
    WITHDRAWN = 6
    PREQUEUED = 7
    """What a place in the pre-queue is called where states are told; its record says WAITING."""


class Why(IntEnum):
    """Cause byte of a ticket record and of ``lapsed``."""

    NONE = 0
    PASS_OVER = 1
    SESSION_IDLE = 2
    SESSION_MAX = 3
    LEFT = 4
    EJECTED = 5
    PURGE = 6
