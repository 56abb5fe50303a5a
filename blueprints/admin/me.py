"""Who the caller is, and how the server is: ``GET /me``, ``GET /health``."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.domain.roles import Role
from app.services.reduced import reduced_health
from blueprints.admin.routing import Call, Route, reply


async def me(call: Call) -> HTTPResponse:
    """What the credential is and may do (ADM-082)."""
    return reply(call.principal.me())


async def health(call: Call) -> HTTPResponse:
    """States, incidents and the values in use; 200 whatever is down (ADM-267, ADM-272)."""
    report = await call.qm.admin_health.report()
    return reply(report if call.principal.role >= Role.VIEWER else reduced_health(report))


ROUTES: Final = (
    Route("GET", "me", me),
    Route("GET", "health", health),
)
