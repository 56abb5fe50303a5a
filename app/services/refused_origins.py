"""Checks that one process refused for the origin of their page, by room and origin, the latest of them (OBS-038).

An origin is easily made up: at the cap the pair seen least recently gives way to ``other``, so that a flood of invented
ones cannot keep the real one out. Not here: the sums by room, which outlive the process (tally.py).
"""

from __future__ import annotations

from typing import Final

from app.domain.origins import parse_origin

OTHER: Final = "other"
MAX_PAIRS: Final = 500
MAX_CHARS: Final = 256


def shown_origin(origin: str) -> str:
    """``origin`` as it is listed: ``other`` when it is too long or none at all."""
    if len(origin) > MAX_CHARS or (origin != "null" and parse_origin(origin) is None):
        return OTHER
    return origin


class RefusedOrigins:
    """The list."""

    def __init__(self, most: int = MAX_PAIRS) -> None:
        self._most = most
        self.pairs: dict[tuple[str, str], tuple[int, int]] = {}
        """(room, origin) → checks, time of the last (epoch ms); the least recent first."""

    def add(self, room_id: str, origin: str, now: int) -> None:
        """One more; ``origin`` as of ``shown_origin``."""
        pair = room_id, origin
        count, _ = self.pairs.pop(pair, (0, 0))
        while len(self.pairs) >= self._most:
            self._give_way()
        self.pairs[pair] = count + 1, now

    def _give_way(self) -> None:
        """Let the least recent pair go into ``other`` of its room; with nothing but those, the oldest is forgotten."""
        oldest = next((pair for pair in self.pairs if pair[1] != OTHER), next(iter(self.pairs)))
        count, at = self.pairs.pop(oldest)
        if oldest[1] != OTHER:
            known, last = self.pairs.get((oldest[0], OTHER), (0, 0))
            self.pairs[oldest[0], OTHER] = known + count, max(last, at)
