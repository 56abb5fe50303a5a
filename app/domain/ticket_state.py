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
