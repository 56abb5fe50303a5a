"""Who gives way when an instance holds as many connections as it may (CFG-172, CFG-234).

Belongs here: the connections of one worker by peer, and the choice of the one that is closed for a newcomer. Not here:
the numbers of the whole instance (services/edge_watch.py).
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final, Protocol

HEAVY_PARTS: Final = 10
"""A peer is crowding once it holds more than this part of all connections."""
LOOK_EVERY_SEC: Final = 0.1
"""How often the peers are gone through; in between the last result is used, however many knock."""


class Standing(Enum):
    """What a connection is to the cap."""

    OUTSIDE = 0
    """Not counted: gone, or never let in."""
    INSIDE = 1
    SURPLUS = 2
    """Above the cap; its request is refused."""


class Cap(Protocol):
    """The instance's numbers; see ``ConnectionCap``."""

    most: int

    def enter(self, key: bytes, /) -> bool: ...
    def leave(self, key: bytes, /) -> None: ...
    def enter_reserve(self, key: bytes, /) -> bool: ...
    def leave_reserve(self, key: bytes, /) -> None: ...
    def count_refused(self) -> None: ...
    def held_by(self, key: bytes, /) -> int: ...


class Held(Protocol):
    """A connection."""

    standing: Standing
    peer_key: bytes

    def quiet_since(self) -> float | None:
        """Since when it has brought no complete request; None while one is in progress or an answer is unsent."""

    def give_way(self) -> None:
        """Close it for somebody else."""


class Crowd:
    """The connections of this worker."""

    def __init__(self, cap: Cap) -> None:
        self._cap = cap
        self._by_peer: dict[bytes, dict[Held, None]] = {}
        self._heavy: bytes | None = None
        self._looked_at = -LOOK_EVERY_SEC
        self._quiet: deque[tuple[float, Held]] = deque()

    def admit(self, held: Held, now: float) -> None:
        """Give a new connection its standing; OUTSIDE = close it unanswered. ``now``: the loop's clock."""
        key = held.peer_key
        if self._cap.enter(key) or (self._make_room(key, now) and self._cap.enter(key)):
            held.standing = Standing.INSIDE
            self._by_peer.setdefault(key, {})[held] = None
            return
        self._cap.count_refused()
        if self._cap.enter_reserve(key):
            held.standing = Standing.SURPLUS

    def gone(self, held: Held) -> None:
        """A connection has ended; may be called twice."""
        standing, held.standing = held.standing, Standing.OUTSIDE
        if standing is Standing.SURPLUS:
            self._cap.leave_reserve(held.peer_key)
        elif standing is Standing.INSIDE:
            self._cap.leave(held.peer_key)
            mine = self._by_peer[held.peer_key]
            del mine[held]
            if not mine:
                del self._by_peer[held.peer_key]

    def _make_room(self, newcomer: bytes, now: float) -> bool:
        """Close the longest quiet connection of the peer that holds too many, unless that is the newcomer's."""
        if now - self._looked_at >= LOOK_EVERY_SEC:
            self._looked_at = now
            self._find_heavy()
        heavy = self._heavy
        if heavy is None or heavy == newcomer:
            return False
        held_by = self._cap.held_by(heavy)
        if held_by * HEAVY_PARTS <= self._cap.most or held_by <= self._cap.held_by(newcomer) + 1:
            return False  # let in, the newcomer's peer would hold as many
        while self._quiet:
            since, held = self._quiet.popleft()
            if held.standing is Standing.INSIDE and held.quiet_since() == since:
                self.gone(held)
                held.give_way()
                return True
        return False

    def _find_heavy(self) -> None:
        """The peer with the most connections, and its quiet ones, the longest quiet first."""
        heavy = max(self._by_peer, key=lambda key: len(self._by_peer[key]), default=None)
        self._heavy = heavy
        if heavy is None:
            self._quiet.clear()
            return
        quiet = [(since, held) for held in self._by_peer[heavy] if (since := held.quiet_since()) is not None]
        self._quiet = deque(sorted(quiet, key=lambda pair: pair[0]))
