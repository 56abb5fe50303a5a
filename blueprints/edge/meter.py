"""Counting answers by route: how many, of which class of status, how long until their first byte (OBS-101, OBS-102).

Belongs here: one worker's meters. Not here: the memory they write to (infrastructure/metric_book.py). A route is a
pattern of ours, never what a visitor sent.
"""

from __future__ import annotations

from typing import Final, Protocol

from app.core.clock import mono

OTHER: Final = "other"
"""Stands for every path that is no route, and for requests that were refused before one was looked for."""
CLASSES: Final = ("1xx", "2xx", "3xx", "4xx", "5xx")


class Counter(Protocol):
    """See metric_book.Tally."""

    def add(self, number: int = 1) -> None: ...


class Durations(Protocol):
    """See metric_book.Spread."""

    def note(self, seconds: float) -> None: ...


class Series(Protocol):
    """Makes the series of a route; see services/metrics.py."""

    def requests(self, route: str, status: str, /) -> Counter: ...
    def seconds(self, route: str, /) -> Durations: ...


class RouteMeter:
    """The meter of one route."""

    __slots__ = ("_classes", "_seconds", "_series", "route")

    def __init__(self, route: str, series: Series) -> None:
        self.route = route
        self._series = series
        self._classes: dict[int, Counter] = {}
        self._seconds = series.seconds(route)

    def note(self, status: int, began: float) -> None:
        """An answer begins now; ``began``: when its request was whole (``clock.mono``)."""
        counter = self._classes.get(status // 100)
        if counter is None:
            word = CLASSES[min(max(status // 100, 1), 5) - 1]
            counter = self._classes[status // 100] = self._series.requests(self.route, word)
        counter.add()
        self._seconds.note(mono() - began)


class Meters:
    """All meters of a worker, by route. Routes are those of this build, so that their number is bounded."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._routes: dict[str, RouteMeter] = {}

    def of(self, route: str) -> RouteMeter:
        """The meter of a route; aliases under ``/api/v1`` are one with what they stand for."""
        meter = self._routes.get(route)
        if meter is None:
            name = route.replace("/api/v1/", "/api/", 1)
            meter = self._routes[route] = RouteMeter(name, self._series) if name == route else self.of(name)
        return meter
