"""The table of hot routes: requests that are answered at protocol level, past Sanic's router and middleware.

``app.ctx.hot`` holds the one table of a worker process; it is filled before the server listens and only read after.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, Protocol

from app.core.errors import MethodNotAllowed
from blueprints.edge.head import request_line
from blueprints.edge.reply import HotReply
from blueprints.edge.request import HotRequest

LINES_KEPT: Final = 2048
SHORT_LINE_BYTES: Final = 128
"""Longer lines have a token or an address in them, and do not come again."""

HotHandler = Callable[[HotRequest], Coroutine[Any, Any, HotReply]]
"""Answers one request. A QmError it raises becomes the error answer, anything else ``500 internal_error``.

It is run to its end even when the client has gone away: what it began (a commit, an undo) is not left half done.
"""


class Answering(Protocol):
    """A request that was begun without a coroutine. One of both is called, once, and neither raises."""

    def told(self, reply: HotReply | None, error: BaseException | None, /) -> None:
        """Answer it, or say what was raised."""

    def again(self) -> None:
        """Have it answered by its handler after all."""


HotBeginning = Callable[[HotRequest, Answering], bool]
"""Begins to answer one request without a coroutine, which costs a tenth; the ``Answering`` hears of the end, later.

False: it is not one of those that can be answered so, and its handler has to run. A budget that was taken for it stands
in the request then, and is not taken once more. What it raises is answered like what a handler raises.
"""


class Ways(NamedTuple):
    """Both ways to answer a hot route; each gives the same answer."""

    handler: HotHandler
    begin: HotBeginning
    recurs: bool = False
    """The very same request comes again and again, so that what its handler leaves in ``request.repeat`` is of use."""


class HotRoute(NamedTuple):
    """A request line that asks for a hot route."""

    handler: HotHandler
    method: str
    path: str
    query: bytes
    minor: int
    """0 or 1, of HTTP/1.x."""
    begin: HotBeginning | None
    recurs: bool


class HotTable:
    """Handlers by method and exact path. A path that is here with other methods answers ``405``."""

    __slots__ = ("_allow", "_lines", "_ways", "routes")

    def __init__(self) -> None:
        """An empty table: every request goes to Sanic."""
        self.routes: dict[tuple[str, bytes], HotHandler] = {}
        """By (method, path)."""
        self._ways: dict[HotHandler, Ways] = {}
        self._allow: dict[bytes, set[str]] = {}
        self._lines: dict[bytes, HotRoute] = {}

    def add(self, method: str, path: str, handler: HotHandler) -> None:
        """Register a handler; ``/api/…`` also as ``/api/v1/…`` (VIS-002), GET also as HEAD unless that is taken.

        Raises ValueError when the pair is registered already.
        """
        paths = [path]
        if path.startswith("/api/") and not path.startswith("/api/v1/"):
            paths.append("/api/v1/" + path.removeprefix("/api/"))
        for each in paths:
            self._put(method, each, handler)

    def extend(self, routes: Mapping[tuple[str, str], HotHandler | Ways]) -> None:
        """Register all of a blueprint's ``routes(ctx)``; explicit HEAD handlers win over those of GET."""
        for (method, path), served in sorted(routes.items(), key=lambda item: item[0][0] != "HEAD"):
            if isinstance(served, Ways):
                self._ways[served.handler] = served
                served = served.handler
            self.add(method, path, served)

    def find(self, method: str, path: bytes) -> HotHandler | None:
        """The handler of a request; for a path that is here with other methods one that refuses; else None."""
        handler = self.routes.get((method, path))
        if handler is not None or path not in self._allow:
            return handler
        return self._refuse

    def route(self, line: bytes) -> HotRoute | None:
        """The route that a request line asks for, None for anything else. Raises like ``head.request_line``.

        Short lines are remembered: the same few come again and again.
        """
        known = self._lines.get(line)
        if known is not None:
            return known
        method, target, minor = request_line(line)
        path, _, query = target.partition(b"?")
        handler = self.routes.get((method, path))
        if handler is None:
            return None
        ways = self._ways.get(handler) if method != "HEAD" else None
        begin, recurs = (None, False) if ways is None else (ways.begin, ways.recurs)
        route = HotRoute(handler, method, path.decode("latin-1"), query, minor, begin, recurs)
        if len(line) <= SHORT_LINE_BYTES:
            if len(self._lines) >= LINES_KEPT:
                self._lines.clear()
            self._lines[line] = route
        return route

    async def _refuse(self, request: HotRequest) -> HotReply:
        allow = ", ".join(sorted(self._allow[request.path.encode("latin-1")]))
        raise MethodNotAllowed(headers={"Allow": allow})

    def _put(self, method: str, path: str, handler: HotHandler) -> None:
        key = (method, path.encode("ascii"))
        if key in self.routes:
            raise ValueError(f"{method} {path} is registered twice")
        self.routes[key] = handler
        self._allow.setdefault(key[1], set()).add(key[0])
        if method == "GET" and ("HEAD", key[1]) not in self.routes:
            self._put("HEAD", path, handler)
