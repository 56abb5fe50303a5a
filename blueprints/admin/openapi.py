"""``GET /openapi.json``: the description of every route of this server, for callers who may read (BEY-175)."""

from __future__ import annotations

from functools import cache
from typing import Any

from sanic.response import HTTPResponse

from app.domain.roles import Role
from blueprints.admin import described, shapes
from blueprints.admin.routing import Call, Route, reply
from blueprints.openapi.document import document
from blueprints.visitor import described as visitor


def routes(table: tuple[Route, ...]) -> tuple[Route, ...]:
    """``table`` and the route that describes it."""

    async def openapi(_call: Call) -> HTTPResponse:
        return reply(whole())

    whole_table = (*table, Route("GET", "openapi.json", openapi, role=Role.VIEWER))

    @cache
    def whole() -> dict[str, Any]:
        return whole_document(whole_table)

    return whole_table


def whole_document(table: tuple[Route, ...]) -> dict[str, Any]:
    """The document of the visitor routes and of ``table``."""
    operations = {**visitor.OPERATIONS, **described.operations(table)}
    return document("Queue Manager", operations, {**visitor.SCHEMAS, **shapes.SCHEMAS})
