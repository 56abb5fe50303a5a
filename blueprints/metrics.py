"""``GET /metrics`` for Prometheus: counters of this instance, gauges of all rooms (OBS-050 … OBS-056, ADM-288)."""

from __future__ import annotations

from sanic import Blueprint, Request
from sanic.response import HTTPResponse

from app.domain.roles import Role
from app.services.access import CredentialInQuery, needs
from app.services.metrics import TYPE
from blueprints.auth import brought_by, credential_in, query_of
from blueprints.query_keys import tell_of_query_credential

bp = Blueprint("metrics")


@bp.get("/metrics")
async def metrics(request: Request) -> HTTPResponse:
    """The series, for ADMIN_KEY and operators' keys; room ids and line lengths are business data."""
    qm, query = request.app.ctx.qm, query_of(request)
    try:
        principal = await qm.access.authenticate(brought_by(request, query))
    except CredentialInQuery:
        tell_of_query_credential(qm.limiter, "/metrics", credential_in(query))
        raise
    if principal.role < Role.VIEWER:
        raise needs(Role.VIEWER, has=principal.role.word)
    return HTTPResponse(await qm.metrics.text(request.app.ctx.health()), 200, content_type=TYPE)
