"""``GET /reports``: what rooms did by the hour or the day, as JSON or as a file (08, section 6)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.core.clock import wall_ms
from app.services.heavy_works import report
from app.services.reports import PARAMETERS, report_query
from blueprints.admin.pieces import as_file, from_heavy
from blueprints.admin.routing import Call, Route, reply
from blueprints.auth import query_of


async def reports(call: Call) -> HTTPResponse | None:
    """Rows of rooms and hours or days; ``roomId`` may be repeated."""
    query = report_query(query_of(call.request), int(wall_ms()))
    work = report(query)
    if work is None:
        return reply(await call.qm.reports.json(query))
    return await (as_file(call, work, query.file_name) if query.is_csv else from_heavy(call, work))


ROUTES: Final = (Route("GET", "reports", reports, query=PARAMETERS),)
