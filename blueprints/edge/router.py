"""Sanic's router with what every route here promises: HEAD wherever there is GET, 405 for any other method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sanic.exceptions import MethodNotAllowed, NotFound
from sanic.router import Router

_KNOWN: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class EdgeRouter(Router):
    """To be passed to ``Sanic(router=…)``."""

    def get(  # type: ignore[override]  # the parent wraps the same method in a cache, which ours calls
        self, path: str, method: str, host: str | None
    ) -> tuple[Any, Callable[..., Any], dict[str, Any]]:
        """Route of a request. HEAD takes the handler of GET, whose ``request.method`` stays ``HEAD`` (VIS-038).

        Raises Sanic's NotFound and MethodNotAllowed, the latter with all methods in ``Allow`` (VIS-040).
        """
        try:
            return super().get(path, method, host)
        except NotFound:
            if method in _KNOWN:  # of other methods the router says "not found" for every path
                raise
        except MethodNotAllowed:
            pass
        if method == "HEAD" and self._takes(path, "GET", host):
            return super().get(path, "GET", host)
        allowed = [known for known in _KNOWN if self._takes(path, known, host)]
        if not allowed:
            raise NotFound("no such path")
        if "GET" in allowed:
            allowed.append("HEAD")
        raise MethodNotAllowed("wrong method", method=method, allowed_methods=sorted(allowed))

    def _takes(self, path: str, method: str, host: str | None) -> bool:
        try:
            super().get(path, method, host)
        except (MethodNotAllowed, NotFound):
            return False
        return True
