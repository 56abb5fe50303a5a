"""The meters of answers by route, of one worker (OBS-101, OBS-102). A route is never a visitor's text.

Not here: the memory they write to (infrastructure/metric_book.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

OTHER: Final = "other"
"""Stands for every path that is no route, and for requests that were refused before one was looked for."""


class Meter(Protocol):
    """The meter of one route; see metric_book.AnswerMeter."""

    def note(self, status: int, began: float, /) -> None: ...


class Meters:
    """All meters of a worker, by route. Routes are those of this build, so that their number is bounded."""

    __slots__ = ("_make", "_routes")

    def __init__(self, make: Callable[[str], Meter]) -> None:
        """``make`` gives the meter of a route."""
        self._make = make
        self._routes: dict[str, Meter] = {}

    def of(self, route: str) -> Meter:
        """The meter of a route; aliases under ``/api/v1`` are one with what they stand for."""
        meter = self._routes.get(route)
        if meter is None:
            name = route.replace("/api/v1/", "/api/", 1)
            meter = self._routes[route] = self._make(route) if name == route else self.of(name)
        return meter
