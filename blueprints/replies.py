"""Answers of stock routes: JSON in the one form, and the headers that every answer of this server has (VIS-045)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from sanic import Request
from sanic.response import BaseHTTPResponse, HTTPResponse

from blueprints.edge.meter import OTHER
from blueprints.edge.reply import JSON_TYPE, dump

_TYPE: Final = re.compile(r":[^>]*>")


def json_answer(
    fields: dict[str, Any],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    cookies: Iterable[str] = (),
) -> HTTPResponse:
    """A JSON object; ``cookies`` are ready ``Set-Cookie`` values."""
    answer = HTTPResponse(dump(fields), status, dict(headers or {}), JSON_TYPE.decode())
    for cookie in cookies:
        answer.headers.add("Set-Cookie", cookie)
    return answer


def leads_to(location: str, status: int, headers: Mapping[str, str]) -> HTTPResponse:
    """A redirect that nobody keeps. It names a type because Sanic would write ``None``."""
    kept = {"Location": location, "Cache-Control": "no-store", **headers}
    return HTTPResponse(status=status, headers=kept, content_type="text/html; charset=utf-8")


async def add_common_headers(request: Request, response: BaseHTTPResponse) -> None:
    """Response middleware: request id, ``nosniff``, limits, and ``no-store`` unless the route says otherwise."""
    headers = response.headers
    headers["X-QM-Request-Id"] = getattr(request.ctx, "request_id", "")
    headers["X-Content-Type-Options"] = "nosniff"
    if "cache-control" not in headers:
        headers["Cache-Control"] = "no-store"
    meters = request.app.ctx.edge.meters
    if meters is not None:
        meters.of(_route_of(request)).note(response.status, request.ctx.began)
    budget = getattr(request.ctx, "budget", None)
    if budget is not None:
        for name, value in budget.headers():
            headers[name.decode("ascii")] = value.decode("ascii")


def _route_of(request: Request) -> str:
    """Pattern of the route that answers: as the admin router says, or Sanic."""
    named: str | None = getattr(request.ctx, "route", None)
    if named is not None:
        return named
    return OTHER if request.route is None else _pattern(str(request.route.path))


@lru_cache(256)
def _pattern(path: str) -> str:
    """Sanic's ``w/<room:str>`` as ``/w/<room>``."""
    return "/" + _TYPE.sub(">", path).strip("/")
