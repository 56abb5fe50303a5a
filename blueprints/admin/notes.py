"""What was done: the audit trail and the timeline of rooms (05, sections 13 and 17)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.domain.roles import Role
from app.services import heavy_works
from app.services.notes import AUDIT_PARAMETERS, TIMELINE_PARAMETERS, audit_query, is_csv
from blueprints.admin.pieces import as_file, from_heavy
from blueprints.admin.routing import Call, Route, reply


async def audit(call: Call) -> HTTPResponse | None:
    """Entries of the audit trail, newest first; ``format=csv``: all of them as a file."""
    query = audit_query(call.query)
    if is_csv(call.query):
        return await as_file(call, heavy_works.audit_file(query), "qm-audit.csv")
    if (work := heavy_works.audit_page(query)) is not None:
        return await from_heavy(call, work)
    return reply(await call.qm.notes.audit(query))


async def timeline(call: Call) -> HTTPResponse | None:
    """Marks of what changed rooms in the last 24 h."""
    with_names = call.principal.role > Role.MONITOR
    narrow = await call.qm.notes.narrow_timeline(call.query, with_names=with_names)
    if narrow is not None:
        return reply(narrow)
    return await from_heavy(call, heavy_works.timeline(call.query, with_names=with_names))


ROUTES: Final = (
    Route("GET", "audit", audit, role=Role.VIEWER, query=AUDIT_PARAMETERS),
    Route("GET", "timeline", timeline, query=TIMELINE_PARAMETERS),
)
