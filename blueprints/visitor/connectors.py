"""``GET /connectors/<id>/<file>``: connectors to be installed elsewhere, without a key. Source: PAG-038 … PAG-048."""

from __future__ import annotations

from typing import Final

from sanic import Blueprint, HTTPResponse, Request

from app.context import AppContext
from app.core.errors import NotFound
from app.services.connector_files import ConnectorFiles
from blueprints.etags import is_known
from blueprints.small_replies import too_many_in_words

BUDGET: Final = "connectors"
PER_MINUTE: Final = 60
_FILES: Final = ConnectorFiles()

bp = Blueprint("visitor_connectors")


async def connector(request: Request, connector: str, file: str) -> HTTPResponse:
    """One file. Without PUBLIC_URL no cache keeps it: the host asked for may be anybody's word (PAG-219)."""
    qm: AppContext = request.app.ctx.qm
    budget = qm.limiter.take(BUDGET, request.ctx.client.key, PER_MINUTE)
    if not budget.allowed:
        limits = {name.decode(): value.decode() for name, value in budget.headers()}
        return too_many_in_words(limits, budget.retry_after_sec)
    found = _FILES.get(connector, file)
    if found is None:
        raise NotFound("Unknown connector")
    headers = {
        "Cache-Control": "no-cache" if qm.settings.public_url else "no-store",
        "ETag": found.etag,
        "Content-Disposition": f'attachment; filename="{found.name}"',
        "X-Content-Type-Options": "nosniff",
    }
    if is_known(request.headers.get("if-none-match", ""), found.etag):
        return HTTPResponse(status=304, headers=headers)
    return HTTPResponse(found.body, headers=headers, content_type=found.media_type)


bp.add_route(connector, "/connectors/<connector:str>/<file:str>", methods=["GET", "HEAD"], name="connector")
