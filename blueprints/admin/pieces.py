"""Answers of any length, sent as they are made: those of the process for heavy work, and small ones of this one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import structlog
from sanic.response import HTTPResponse

from app.core.clock import mono
from app.core.errors import QmError, Unavailable
from app.services.heavy_works import Work
from blueprints.admin.routing import JSON_TYPE, NO_STORE, Call

CSV_TYPE: Final = "text/csv; charset=utf-8"

GONE_SEC: Final = 5.0
"""A client that closed its side and waits for longer than this for its turn is taken for gone, and frees its place."""

log = structlog.get_logger(__name__)


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


async def as_file(call: Call, work: Work, name: str) -> HTTPResponse | None:
    """Send a file that another process makes, and that is called ``name``."""
    return await from_heavy(call, work, CSV_TYPE, csv_headers(name))


async def from_heavy(
    call: Call, work: Work, content_type: str = JSON_TYPE, headers: Mapping[str, str] = NO_STORE
) -> HTTPResponse | None:
    """Send the answer that another process makes to ``work``, piece by piece as it comes and as the client takes it.

    What breaks off behind the head ends the connection: nobody can take a half answer for a whole one.
    """
    request = call.request
    connection: Any = request.stream.protocol  # type: ignore[union-attr]
    response = None
    began = mono()

    def note_sign() -> None:
        if response is None and connection.is_half_closed and mono() - began > GONE_SEC:
            raise Unavailable
        connection.handler_lives()

    is_head, request_id = request.method == "HEAD", request.ctx.request_id
    asked = call.qm.heavy.ask(work, note_sign, by=call.principal.name, request_id=request_id, is_head=is_head)
    async with asked as answer:
        length = {} if answer.length is None else {"Content-Length": str(answer.length)}
        response = await request.respond(content_type=content_type, headers={**headers, **length})
        assert response is not None
        if is_head:
            await response.send(b" ")  # Sanic leaves it out; without it the head would speak of an empty body
        try:
            async for piece in answer.pieces:
                await response.send(piece)
        except QmError as error:
            log.warning("answer_broken_off", kind=work.kind, why=error.code, request_id=request_id)
            connection.cut()
            return None
        await response.eof()
    return None
