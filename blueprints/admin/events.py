"""The console's event stream, ``GET /events`` (05, section 7). Frames are made in services/live.py."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import structlog
from sanic.response import HTTPResponse

from blueprints.admin.routing import NO_STORE, Call, Route

STREAM_TYPE: Final = "text/event-stream; charset=utf-8"
HEADERS: Final = {**NO_STORE, "X-Accel-Buffering": "no"}
STALLED_SEC: Final = 30.0
"""A reader that takes in nothing for this long is disconnected (ADM-108)."""

log = structlog.get_logger(__name__)


async def events(call: Call) -> HTTPResponse | None:
    """Frames every 2 s until the reader goes, stalls, or loses its right; HEAD answers the headers and ends."""
    if call.request.method == "HEAD":
        return HTTPResponse(b"", 200, dict(HEADERS), STREAM_TYPE)
    stream = await call.qm.live.open(call.principal)
    try:
        response = await call.request.respond(status=200, headers=dict(HEADERS), content_type=STREAM_TYPE)
        assert response is not None
        while (data := await stream.next()) is not None:
            await asyncio.wait_for(response.send(data), STALLED_SEC)
        await response.eof()
    except TimeoutError:
        log.info("admin_stream_stalled", address=call.request.ctx.client.address)
        _cut(call.request.transport)
    finally:
        call.qm.live.close(stream)
    return None


def _cut(transport: Any) -> None:
    """End a connection without waiting for what its reader does not take (asyncio's WriteTransport.abort)."""
    transport.abort()


ROUTES: Final = (Route("GET", "events", events, query=frozenset({"ticket"}), takes_ticket=True),)
