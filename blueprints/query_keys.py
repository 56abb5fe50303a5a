"""Keys that somebody put into an address: each is refused, and the log says so from time to time, never the key."""

from __future__ import annotations

from typing import Final

import structlog

from app.core.clock import mono

QUIET_SEC: Final = 60.0

log = structlog.get_logger(__name__)

_told: dict[str, float] = {}
"""When each route's line was last written; bounded by the table of routes."""


def tell_of_query_credential(route: str, parameter: str) -> None:
    """One line a minute and route that somebody puts keys into addresses; never the value (ADM-045, VIS-138)."""
    if mono() - _told.get(route, -QUIET_SEC) >= QUIET_SEC:
        _told[route] = mono()
        log.warning("credential_in_query_refused", route=route, parameter=parameter.lower())
