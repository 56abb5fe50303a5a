"""The admin API: every route of ``/api/admin`` and its alias ``/api/v1/admin`` in one table, served by one router."""

from __future__ import annotations

from typing import Final

from sanic import Blueprint, Request
from sanic.response import HTTPResponse

from blueprints.admin import events, line, me, rooms, session
from blueprints.admin.routing import ALL_METHODS, PREFIXES, Router

ROUTER: Final = Router((*me.ROUTES, *session.ROUTES, *events.ROUTES, *rooms.ROUTES, *line.ROUTES))

bp = Blueprint("admin")


async def _answer(request: Request, rest: str = "") -> HTTPResponse | None:
    """Hand over to the router, which reads the path itself."""
    return await ROUTER.answer(request)


for _number, _prefix in enumerate(PREFIXES):
    bp.add_route(_answer, _prefix, methods=ALL_METHODS, name=f"root_{_number}")
    bp.add_route(_answer, _prefix + "/<rest:path>", methods=ALL_METHODS, name=f"route_{_number}")
