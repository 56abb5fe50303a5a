"""What is remembered because it came a second time: bounded, and what was made up only empties it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from app.domain.inline.hosts import HostIndex
    from blueprints.edge.hot import HotRoute
    from blueprints.edge.reading import Reading

KEPT_MAX: Final = 4096
SEEN_MAX: Final = 16_384
"""Keys seen once whose hash is kept: only what comes a second time is worth its memory."""
REPEAT_MAX_BYTES: Final = 2048

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recurring(dict[K, V]):
    """Values by key; to be looked up as a dictionary, and filled by ``keep`` alone."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[int] = set()

    def keep(self, key: K, value: V) -> bool:
        """Keep ``value`` if ``key`` came before; tells whether it is kept."""
        seen, number = self._seen, hash(key)
        if number not in seen:
            if len(seen) >= SEEN_MAX:
                seen.clear()
            seen.add(number)
            return False
        if len(self) >= KEPT_MAX:
            self.clear()
        self[key] = value
        return True


class Repeat:
    """A request of a hot route that comes again, byte for byte: a page that polls, a tag that checks.

    What its bytes say is read once, and its handler leaves there what it concluded from them.
    """

    __slots__ = ("body", "index", "left", "peer", "reading", "route", "tls")

    def __init__(
        self, route: HotRoute, reading: Reading, body: bytes, peer: str, tls: bool, index: HostIndex | None
    ) -> None:
        """``index``: the inline hosts of which the request names none."""
        self.route = route
        self.reading = reading
        self.body = body
        self.peer = peer
        self.tls = tls
        self.index = index
        self.left: Any = None
        """Of the route's handler alone."""
