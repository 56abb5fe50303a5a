"""``GET /events``: the live view of a place, as Server-Sent Events. Source: VIS-087, VIS-088, VIS-163 … VIS-174.

Belongs here: reading of the request, the response's head, the life of the connection. Not here: when a frame is sent
(services/streams.py), caps and first state (services/stream_open.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sanic import Blueprint, Request, Sanic

from app.core.errors import RateLimited
from app.domain.cookies import ticket_candidates
from app.services.stream_open import Opening, StreamOpener
from blueprints.sse import CONTENT_TYPE, HEADERS, ChunkSink
from blueprints.visitor.request_reading import room_in_query, ticket_cookies, visitor_of
from blueprints.visitor.stock_reading import as_hot

if TYPE_CHECKING:
    from app.context import AppContext

_READ_HEADERS: Final = ("user-agent", "cookie", "x-qm-door-key")

bp = Blueprint("visitor_events")


async def events(request: Request) -> None:
    """Open a stream for the holder of a place; anybody else gets one ``gone`` frame."""
    qm: AppContext = request.app.ctx.qm
    limit = qm.settings.status_limit_per_min
    request.ctx.budget = budget = qm.limiter.take("status", request.ctx.client.key, limit)
    if not budget.allowed:
        raise RateLimited
    if request.method == "HEAD":
        await _answer_head(request, await _open(qm, request))
        return
    opener = qm.visitor.stream_opener
    opener.enter(request.ctx.client)
    try:
        await _stream(qm, request, await _open(qm, request))
    finally:
        opener.leave(request.ctx.client)


async def _open(qm: AppContext, request: Request) -> Opening:
    """The first state. Raises ``missing_room``, NoRoom, StorageUnavailable."""
    asked = as_hot(request, _READ_HEADERS)
    query = asked.query
    token = query.get("token") or None
    room_id = room_in_query(query)
    if room_id is None:
        room_id = qm.visitor.status.room_named_by(token, ticket_candidates(ticket_cookies(asked.reading)))
    door = asked.header(b"x-qm-door-key")
    visitor = visitor_of(asked, room_id, token, (door,) if door else ())
    opener: StreamOpener = qm.visitor.stream_opener
    return await opener.open(room_id, visitor, query.get("return"), read_only=request.method == "HEAD")


async def _stream(qm: AppContext, request: Request, opening: Opening) -> None:
    response = await request.respond(content_type=CONTENT_TYPE, headers=dict(HEADERS))
    _set_cookies(response, opening)
    await response.send(opening.first)
    if opening.is_over:
        await response.eof()
        return
    sink = ChunkSink(request)
    opener = qm.visitor.stream_opener
    stream, room_id = opener.start(opening, sink), opening.room.id
    del opening  # a stream may be open for hours, and what it was opened with is of no more use
    try:
        await sink.finish(response)
    finally:
        opener.end(room_id, stream)


async def _answer_head(request: Request, opening: Opening) -> None:
    """The head of a stream without the stream (VIS-038, VIS-039)."""
    response = await request.respond(content_type=CONTENT_TYPE, headers=dict(HEADERS))
    _set_cookies(response, opening)
    await response.send(opening.first)
    await response.eof()


def _set_cookies(response: object, opening: Opening) -> None:
    for cookie in opening.cookies:
        response.headers.add("Set-Cookie", cookie.decode())  # type: ignore[attr-defined]


async def close_streams(app: Sanic[Any, Any]) -> None:
    """End every stream as soon as this process begins to stop, so that pages go elsewhere at once (VIS-173)."""
    await app.ctx.qm.visitor.streams.stop()


bp.listener(close_streams, "before_server_stop")
bp.add_route(events, "/events", methods=["GET", "HEAD"], name="events")
