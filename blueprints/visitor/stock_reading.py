"""A stock request in the form that the hot routes read, so that a token or cookie is read in one way."""

from __future__ import annotations

from collections.abc import Iterable

from sanic import Request

from blueprints.edge.head import Fields
from blueprints.edge.reading import Reading
from blueprints.edge.request import HotRequest


def as_hot(request: Request, names: Iterable[str]) -> HotRequest:
    """``request`` with the headers ``names`` (lower case) alone."""
    headers = {
        name.encode(): ("; " if name == "cookie" else ", ").join(request.headers.getall(name)).encode("latin-1")
        for name in names
        if name in request.headers
    }
    query = request.raw_url.partition(b"?")[2].partition(b"#")[0]
    ctx = request.ctx
    hot = HotRequest(
        request.method, request.path, query, Reading(Fields(headers, None, 1), ctx.client), b"", ctx.request_id
    )
    hot.inline = ctx.inline
    return hot
