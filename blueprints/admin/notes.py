"""What was done: the audit trail and the timeline of rooms (05, sections 13 and 17)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.domain.roles import Role
from app.services.notes import AUDIT_PARAMETERS, TIMELINE_PARAMETERS, audit_query, is_csv
from blueprints.admin.routing import NO_STORE, Call, Route, reply

CSV_TYPE: Final = "text/csv; charset=utf-8"
CSV_HEADERS: Final = {**NO_STORE, "Content-Disposition": 'attachment; filename="qm-audit.csv"'}


async def audit(call: Call) -> HTTPResponse | None:
    """Entries of the audit trail, newest first; ``format=csv``: all of them as a file."""
    query = audit_query(call.query)
    if not is_csv(call.query):
        return reply(await call.qm.notes.audit(query))
    pieces = call.qm.notes.audit_csv(query)
    first = await anext(pieces)
    second = await anext(pieces, "")  # read before the head is sent: a store that is away is a 503, not half a file
    if call.request.method == "HEAD":
        return HTTPResponse("", 200, CSV_HEADERS, CSV_TYPE)
    response = await call.request.respond(content_type=CSV_TYPE, headers=CSV_HEADERS)
    assert response is not None
    await response.send(first + second)
    async for piece in pieces:
        await response.send(piece)
    await response.eof()
    return None


async def timeline(call: Call) -> HTTPResponse:
    """Marks of what changed rooms in the last 24 h."""
    return reply(await call.qm.notes.timeline(call.query))


ROUTES: Final = (
    Route("GET", "audit", audit, role=Role.VIEWER, query=AUDIT_PARAMETERS),
    Route("GET", "timeline", timeline, query=TIMELINE_PARAMETERS),
)
