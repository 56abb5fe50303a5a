"""``GET /api/openapi.json``: the description of the routes that anyone or a connector may call (BEY-175)."""

from __future__ import annotations

from functools import cache
from typing import Any

from sanic import Blueprint, HTTPResponse, Request

from blueprints.edge.reply import JSON_TYPE, dump
from blueprints.openapi.document import document
from blueprints.visitor.described import OPERATIONS, SCHEMAS

bp = Blueprint("visitor_openapi")


def public_document() -> dict[str, Any]:
    """The document without ``/api/admin``."""
    return document("Queue Manager: visitors and connectors", OPERATIONS, SCHEMAS)


@cache
def _body() -> bytes:
    return dump(public_document())


async def openapi(_request: Request) -> HTTPResponse:
    """The same for everybody, made once."""
    return HTTPResponse(_body(), content_type=JSON_TYPE.decode())


for _name, _path in (("openapi", "/api/openapi.json"), ("openapi_v1", "/api/v1/openapi.json")):
    bp.add_route(openapi, _path, methods=["GET", "HEAD"], name=_name)
