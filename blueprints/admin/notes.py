"""What was done: the audit trail and the timeline of rooms (05, sections 13 and 17)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.domain.roles import Role
from app.services.notes import AUDIT_PARAMETERS, TIMELINE_PARAMETERS, audit_query, is_csv
from blueprints.admin.pieces import CSV_TYPE, csv_headers, in_pieces
from blueprints.admin.routing import Call, Route, reply


async def audit(call: Call) -> HTTPResponse | None:
    """Entries of the audit trail, newest first; ``format=csv``: all of them as a file."""
    query = audit_query(call.query)
    if not is_csv(call.query):
        return reply(await call.qm.notes.audit(query))
    return await in_pieces(call, call.qm.notes.audit_csv(query), CSV_TYPE, csv_headers("qm-audit.csv"))


async def timeline(call: Call) -> HTTPResponse:
    """Marks of what changed rooms in the last 24 h."""
    return reply(await call.qm.notes.timeline(call.query, with_names=call.principal.role > Role.MONITOR))


ROUTES: Final = (
    Route("GET", "audit", audit, role=Role.VIEWER, query=AUDIT_PARAMETERS),
    Route("GET", "timeline", timeline, query=TIMELINE_PARAMETERS),
)
