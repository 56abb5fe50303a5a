"""What this instance counts at its edge, before any route is known: refused and odd requests, open connections.

Belongs here: the numbers, over all workers, and the caps on connections (CFG-129, CFG-132, CFG-172, CFG-176). Not here:
which connection gives way to another (blueprints/edge/crowd.py), proxies that are not set up (undeclared.py).
"""

from __future__ import annotations

from typing import Any

from app.core.settings import Settings
from app.domain.client_address import Client, Note
from app.infrastructure import origin_pool
from app.infrastructure.rate_limiter import RateLimiter
from app.services.undeclared import UndeclaredPeers


class EdgeWatch:
    """The numbers of the edge."""

    def __init__(self, limiter: RateLimiter, settings: Settings, undeclared: UndeclaredPeers) -> None:
        self._counters = limiter.counters
        self._refused = limiter.lists["edge_refused"]
        self._undeclared = undeclared
        self._values = len(settings.edge_secret)

    def saw(self, client: Client) -> None:
        """Count one request whose client has a note."""
        note = client.note
        if note & Note.NOT_BY_EDGE:
            self._counters.add("edge_refused")
            self._refused.note(client.packed)
        elif note & Note.NO_EDGE_ADDRESS:
            self._counters.add("edge_no_address")
        else:
            self._undeclared.saw(client)

    def edge_block(self) -> dict[str, Any]:
        """``edge`` of ``GET /api/admin/health``."""
        return {
            "enabled": bool(self._values),
            "values": self._values,
            "refusedTotal": self._counters.total("edge_refused"),
            "clientIpFallbackTotal": self._counters.total("edge_no_address"),
        }


class ConnectionCap:
    """How many connections the instance holds, and whether one more may come in (MAX_CONNECTIONS)."""

    def __init__(self, limiter: RateLimiter, settings: Settings) -> None:
        self._limiter = limiter
        self.most = settings.max_connections
        """0 = no cap."""
        self.reserve = settings.connection_reserve

    def enter(self, key: bytes) -> bool:
        """Count a connection of this peer if there is room; ``leave`` has to follow."""
        return self._limiter.gauge_enter("connections", key, per_key=0, in_all=self.most).entered

    def leave(self, key: bytes) -> None:
        """A connection counted by ``enter`` is gone."""
        self._limiter.gauge_leave("connections", key)

    def enter_reserve(self, key: bytes) -> bool:
        """Count a connection above the cap, whose request is refused; ``leave_reserve`` has to follow."""
        if not self.reserve:
            return False
        return self._limiter.gauge_enter("surplus", key, per_key=0, in_all=self.reserve).entered

    def leave_reserve(self, key: bytes) -> None:
        """A connection counted by ``enter_reserve`` is gone."""
        self._limiter.gauge_leave("surplus", key)

    def count_refused(self) -> None:
        """One more connection was refused: answered 503, or closed unanswered."""
        self._limiter.counters.add("connections_refused")

    def held_by(self, key: bytes) -> int:
        """Connections of a peer inside the cap."""
        return self._limiter.gauge_count("connections", key)

    @property
    def is_full(self) -> bool:
        """True while the instance is at its cap (CFG-175)."""
        return 0 < self.most <= self._limiter.gauge_total("connections")

    def connections_block(self) -> dict[str, Any]:
        """``connections`` of ``GET /api/admin/health``."""
        surplus = self._limiter.gauge_total("surplus")
        return {
            "open": self._limiter.gauge_total("connections") + surplus,
            "max": self.most,
            "reserve": self.reserve,
            "surplus": surplus,
            "upstream": self._limiter.gauge_total(origin_pool.GAUGE),
            "refusedTotal": self._limiter.counters.total("connections_refused"),
        }
