"""Keys that somebody put into an address: each is refused, and the log says so from time to time, never the key."""

from __future__ import annotations

from typing import Final, Protocol

import structlog

_GROUP: Final = "auth"

log = structlog.get_logger(__name__)


class Budget(Protocol):
    """What is asked of one."""

    @property
    def allowed(self) -> bool:
        """There is room in it."""


class Limiter(Protocol):
    """Budgets that the workers of an instance share."""

    def peek(self, group: str, key: bytes, limit: int) -> Budget:
        """Look at a budget."""

    def take(self, group: str, key: bytes, limit: int) -> Budget:
        """Count against a budget."""


def tell_of_query_credential(limiter: Limiter, route: str, parameter: str) -> None:
    """One line a minute and route that somebody puts keys into addresses; never the value (ADM-045, VIS-138)."""
    key = b"key in an address of " + route.encode()
    if limiter.peek(_GROUP, key, 1).allowed and limiter.take(_GROUP, key, 1).allowed:
        log.warning("credential_in_query_refused", route=route, parameter=parameter.lower())
