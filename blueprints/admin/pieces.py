"""Answers of any length, sent as they are made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final

from sanic.response import HTTPResponse

from blueprints.admin.routing import NO_STORE, Call

CSV_TYPE: Final = "text/csv; charset=utf-8"


def csv_headers(name: str) -> dict[str, str]:
    """Headers of a file; ``name`` has no character that needs quoting."""
    return {**NO_STORE, "Content-Disposition": f'attachment; filename="{name}"'}


async def in_pieces(
    call: Call, pieces: AsyncIterator[str], content_type: str, headers: Mapping[str, str]
) -> HTTPResponse | None:
    """Send ``pieces``. The first two are made before the head is sent: a store that is away is a 503, not half a file.

    None: it was sent; HEAD has the same head and nothing behind.
    """
    first = await anext(pieces)
    second = await anext(pieces, "")
    response = await call.request.respond(content_type=content_type, headers=dict(headers))
    assert response is not None
    await response.send(first + second)  # Sanic leaves it out of an answer to HEAD, whose head it decides all the same
    if call.request.method != "HEAD":
        async for piece in pieces:
            await response.send(piece)
    await response.eof()
    return None
