"""What the connections of one worker process share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from app.domain.client_address import NO_PROXY, ClientResolver
from app.domain.hosts import HostPolicy
from app.domain.inline.hosts import HostIndex
from blueprints.edge.crowd import Crowd
from blueprints.edge.gate import Gate
from blueprints.edge.hot import HotTable
from blueprints.edge.meter import Meters
from blueprints.edge.reading import Readings
from blueprints.edge.recurring import Recurring, Repeat
from blueprints.edge.request_id import RequestIds
from blueprints.errors import ErrorPageHook

if TYPE_CHECKING:
    from blueprints.edge.inline.front import InlineFront

LOOK_EVERY_SEC: Final = 0.1


@dataclass(slots=True)
class EdgeState:
    """``app.ctx.edge``; made by ``middleware.install`` before the server listens."""

    hot: HotTable = field(default_factory=HotTable)
    resolver: ClientResolver = field(default_factory=lambda: ClientResolver(NO_PROXY))
    readings: Readings = field(init=False)
    ids: RequestIds = field(default_factory=RequestIds)
    gate: Gate = field(default_factory=lambda: Gate(HostPolicy()))
    crowd: Crowd | None = None
    """Connections counted against the cap; None until the worker's context is open."""
    meters: Meters | None = None
    """Counts answers by route; None until the worker's context is open."""
    error_page: ErrorPageHook | None = None
    stopping: Callable[[], bool] = lambda: False
    """Tells whether a stop has begun: every answer from then on says ``Connection: close`` (CFG-193)."""
    index: HostIndex | None = None
    """The inline hosts; None while no room is inline, so that nothing is compared then."""
    front: InlineFront | None = None
    """What answers on them; None until the worker's context is open."""
    repeats: Recurring[bytes, Repeat] = field(default_factory=Recurring)
    """Requests of hot routes that came twice."""
    requests: int = 0
    """Hot requests answered since the start."""
    refused: int = 0
    """Requests refused for their head, framing or slowness."""
    running: set[asyncio.Task[Any]] = field(default_factory=set)
    """Hot handlers that run as tasks; kept here so that a lost connection does not end them."""
    _is_stopping: bool = False
    _looked_at: float = -1.0

    def __post_init__(self) -> None:
        """Readings rest on the resolver."""
        self.readings = Readings(self.resolver)

    def is_stopping(self, now: float) -> bool:
        """What ``stopping`` says, asked ten times a second at most: behind it may be a lock of several processes."""
        if now - self._looked_at >= LOOK_EVERY_SEC:
            self._looked_at = now
            self._is_stopping = self.stopping()
        return self._is_stopping
