"""Alerts: what is firing, and a test of the way to the receiver (08, section 5.1)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.domain.roles import Role
from blueprints.admin.routing import Call, Route, reply, tell


async def alerts(call: Call) -> HTTPResponse:
    """What fires and what may soon; to a monitor link only what fires."""
    if call.principal.role < Role.VIEWER:
        return reply(await call.qm.alerts.firing_only())
    return reply(await call.qm.alerts.overview())


async def test(call: Call) -> HTTPResponse:
    """Send event ``test`` from this instance; a receiver that fails is no failure of this server (ADM-275)."""
    call.no_body()
    answer = await call.qm.alerts.test(call.actor)
    tell(call, "alerts_tested", ok=answer["ok"])
    return reply(answer)


ROUTES: Final = (
    Route("GET", "alerts", alerts),
    Route("POST", "alerts", test, role=Role.OPERATOR),
)
