"""Wires the edge into a Sanic app: one call before the server listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sanic import Sanic

from app.core.jsonbody import BODY_MAX_BYTES
from app.domain.client_address import NO_PROXY, ClientResolver, TrustPolicy
from app.domain.hosts import HostPolicy
from blueprints.edge.gate import Gate
from blueprints.edge.hot import HotTable
from blueprints.edge.protocol import EdgeProtocol
from blueprints.edge.router import EdgeRouter
from blueprints.edge.state import EdgeState
from blueprints.errors import EdgeErrorHandler, ErrorPageHook
from blueprints.ops import Health
from blueprints.replies import add_common_headers


def install(
    app: Sanic[Any, Any],
    *,
    hot: HotTable | None = None,
    policy: TrustPolicy = NO_PROXY,
    hosts: HostPolicy | None = None,
    health: Callable[[], Health] | None = None,
    error_page: ErrorPageHook | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> EdgeState:
    """Give ``app`` the edge's state, error answers and common headers.

    ``hot``: routes served at protocol level; more may be added until the server listens. ``health``: see ops.py.
    ``stopping`` tells whether a stop has begun; from then on no answer keeps its connection.
    Sets ``app.ctx.edge``, ``app.ctx.hot`` and ``app.ctx.health``. The app has to be made with ``router=EdgeRouter()``
    and run with ``protocol=EdgeProtocol``, which sets ``request.ctx.client``, ``.request_id`` and ``.budget``.
    """
    if not isinstance(app.router, EdgeRouter):
        raise TypeError("the app needs Sanic(router=EdgeRouter())")
    edge = EdgeState(
        hot=hot or HotTable(),
        resolver=ClientResolver(policy),
        gate=Gate(hosts or HostPolicy()),
        error_page=error_page,
        stopping=stopping,
    )
    app.ctx.edge = edge
    app.ctx.hot = edge.hot
    app.ctx.health = health
    app.error_handler = EdgeErrorHandler()
    app.config.REQUEST_MAX_SIZE = BODY_MAX_BYTES
    # sanic-ext mounts itself when it is merely installed, with pages from a CDN and with CORS of its own.
    app.config.AUTO_EXTEND = False
    app.config.ACCESS_LOG = False
    # Sanic gives a closing connection this long to deliver what is unsent, then cuts it with what looks like an end.
    app.config.GRACEFUL_TCP_CLOSE_TIMEOUT = EdgeProtocol.SEND_SEC
    app.register_middleware(add_common_headers, "response")
    return edge
