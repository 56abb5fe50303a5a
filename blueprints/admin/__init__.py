"""The admin API: every route of ``/api/admin`` and its alias ``/api/v1/admin`` in one table, served by one router."""

from __future__ import annotations

from typing import Any, Final

from sanic import Blueprint, Request, Sanic
from sanic.response import HTTPResponse

from app.services.people import HINT
from blueprints.admin import (
    alerts,
    events,
    history,
    line,
    lookup,
    me,
    monitor,
    notes,
    openapi,
    operators,
    protection,
    reports,
    rooms,
    server,
    session,
)  # fmt: skip
from blueprints.admin.routing import ALL_METHODS, BODY_MAX, PREFIXES, Router

_DESCRIBED: Final = (
    *me.ROUTES, *session.ROUTES, *events.ROUTES, *rooms.ROUTES, *line.ROUTES, *lookup.ROUTES, *notes.ROUTES,
    *protection.ROUTES, *history.ROUTES, *operators.ROUTES, *monitor.ROUTES, *server.ROUTES,
    *alerts.ROUTES, *reports.ROUTES,
)  # fmt: skip
ROUTER: Final = Router(openapi.routes(_DESCRIBED))

bp = Blueprint("admin")


async def _answer(request: Request, rest: str = "") -> HTTPResponse | None:
    """Hand over to the router, which reads the path itself."""
    return await ROUTER.answer(request)


for _number, _prefix in enumerate(PREFIXES):
    bp.add_route(_answer, _prefix, methods=ALL_METHODS, name=f"root_{_number}")
    bp.add_route(_answer, _prefix + "/<rest:path>", methods=ALL_METHODS, name=f"route_{_number}")


@bp.before_server_start
async def _let_bodies_in(app: Sanic[Any, Any]) -> None:
    """Admin bodies may be longer than any other (ADM-015); every route judges the length of its own body."""
    app.config.REQUEST_MAX_SIZE = max(app.config.REQUEST_MAX_SIZE, BODY_MAX)


@bp.after_server_start
async def _hear_sign_outs(app: Sanic[Any, Any]) -> None:
    """What is signed out or revoked through any process ends its streams here too, at once (ADM-104)."""
    app.ctx.qm.rooms.on_hint("signout", app.ctx.qm.live.hear_signed_out)
    app.ctx.qm.rooms.on_hint(HINT, app.ctx.qm.live.hear_changed)


@bp.before_server_stop
async def _end_streams(app: Sanic[Any, Any]) -> None:
    """Streams end before the server waits for its open connections, or it would wait for them (ADM-109)."""
    await app.ctx.qm.live.stop()
