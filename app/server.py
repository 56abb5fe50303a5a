"""The Sanic application of a web worker: blueprints, edge, and the life of its context."""

from __future__ import annotations

import asyncio
import gc
from functools import partial
from typing import Any

from sanic import Sanic
from sanic.config import Config

from app.context import AppContext
from app.core.clock import wall_ms
from app.core.runtime import Runtime
from app.core.version import VERSION
from app.domain.client_address import TrustPolicy
from app.domain.hosts import HostPolicy
from app.domain.inline.hosts import HostIndex
from app.services.connection_errors import ConnectionErrors
from app.services.inline_pages import InlinePages
from app.services.small_pages import SmallPage, SmallPages
from blueprints import admin, docs, metrics, middleware, ops
from blueprints.admin import console
from blueprints.edge.crowd import Crowd
from blueprints.edge.inline.answers import InlineAnswers
from blueprints.edge.inline.exchange import Forwarder
from blueprints.edge.inline.front import InlineFront
from blueprints.edge.meter import Meters
from blueprints.edge.protocol import EdgeProtocol
from blueprints.edge.router import EdgeRouter
from blueprints.edge.state import EdgeState
from blueprints.errors import PAGE_HEADERS, ErrorFacts, ErrorPage
from blueprints.ops import Health
from blueprints.visitor import assets, connectors, events, hot, leave, notify, openapi, pages, plain, snippet, verify

BLUEPRINTS = (
    ops.bp, metrics.bp, openapi.bp, snippet.bp, connectors.bp, events.bp, pages.bp, plain.bp, assets.bp, console.bp,
    docs.bp, admin.bp,
)  # fmt: skip
HOT_ROUTES = (hot.routes, leave.routes, notify.routes, verify.routes)
"""Tables of the routes that are served at protocol level."""


def create_app(runtime: Runtime) -> Sanic[Any, Any]:
    """Build the application; connections are opened when a worker starts, never here.

    No variable of Sanic's changes it (CFG-011), and Sanic's own logging set-up is left out (app.core.log).
    """
    app: Sanic[Any, Any] = Sanic(
        "queue-manager",
        config=Config(env_prefix=""),
        router=EdgeRouter(),
        configure_logging=False,
    )
    settings = runtime.settings
    middleware.install(
        app,
        policy=TrustPolicy.of(
            settings.trust_proxy, settings.trust_proxy_ips, [value.reveal() for value in settings.edge_secret]
        ),
        hosts=HostPolicy(settings.admin_host, settings.public_url),
        health=lambda: _health(app),
        error_page=_error_page(SmallPages()),
        stopping=runtime.stopping.is_set,
    )
    app.ctx.protocol = EdgeProtocol
    app.ctx.runtime = runtime
    app.register_listener(_open_context, "before_server_start")
    app.register_listener(_settle_memory, "after_server_start")
    app.register_listener(_close_context, "after_server_stop")
    for blueprint in BLUEPRINTS:
        app.blueprint(blueprint)
    return app


async def _open_context(app: Sanic[Any, Any]) -> None:
    app.ctx.qm = qm = await AppContext.open(app.ctx.runtime)
    asyncio.get_running_loop().set_exception_handler(ConnectionErrors(qm.limiter.counters).handle)
    edge: EdgeState = app.ctx.edge
    edge.gate.watch, edge.gate.is_connector = qm.edge_watch, qm.visitor.keys.is_connector
    edge.crowd = Crowd(qm.connections)
    edge.meters = Meters(qm.metrics.meter)
    edge.front = InlineFront(
        gate=qm.inline.gate,
        forwarder=Forwarder(
            qm.inline.choice,
            qm.inline.hop,
            lasting=qm.inline.lasting,
            timeout_sec=qm.settings.proxy_timeout_ms / 1000,
        ),
        answers=InlineAnswers(
            pages=InlinePages(waiting=qm.waiting_page, assets=qm.assets), undeclared=qm.visitor.undeclared
        ),
        edge_gate=edge.gate,
    )
    qm.inline.gate.start(partial(_take_index, edge, qm))
    for routes in HOT_ROUTES:
        app.ctx.hot.extend(routes(qm))


def _take_index(edge: EdgeState, qm: AppContext, index: HostIndex | None) -> None:
    """Serve by this host index from now on; None: no room is inline."""
    edge.index = index
    qm.runtime.has_inline.put(index is not None)
    qm.inline.tell_of_index()


async def _settle_memory(_app: Sanic[Any, Any]) -> None:
    """Take what was made at the start out of the collector's sight, and let it look less often.

    Requests make few cycles; with the default threshold a collection falls on every few requests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _close_context(app: Sanic[Any, Any]) -> None:
    await app.ctx.qm.close()


def _health(app: Sanic[Any, Any]) -> Health:
    """State of the instance as strangers may see it, from memory (OBS-002)."""
    qm: AppContext = app.ctx.qm
    runtime, settings, stand = qm.runtime, qm.settings, qm.admin_health.stand()
    return Health(
        ready=stand.ready,
        status=stand.status,
        version=VERSION,
        build=VERSION,
        started_at=runtime.started_at,
        uptime_sec=max(0, wall_ms() - runtime.started_at) // 1000,
        store=settings.store,
        sidestore=settings.sidestore,
        storage_ok=stand.storage_ok,
        leader=runtime.is_leader,
        reasons=stand.reasons,
        degraded=stand.degraded,
        valkey=stand.valkey,
        valkey_ever_connected=stand.valkey_ever_connected,
        recovering_rooms=stand.recovering_rooms,
    )


def _error_page(small: SmallPages) -> Any:
    """The hook that turns an error of a navigation into a page in the visitor's language."""
    kinds = {
        "no_room": SmallPage.NO_ROOM,
        "not_found": SmallPage.NOT_FOUND,
        "not_inline_host": SmallPage.CONSOLE_UNTOLD,
        "overloaded": SmallPage.CROWD,
    }
    of_status = {
        403: SmallPage.CLOSED,
        414: SmallPage.TOO_LONG,
        429: SmallPage.RATE_LIMITED,
        431: SmallPage.TOO_LONG,
        503: SmallPage.RETRY,
    }

    def page(facts: ErrorFacts) -> ErrorPage | None:
        kind = kinds.get(facts.code) or of_status.get(facts.status)
        if kind is None:
            return None
        if facts.console:
            kind = SmallPage.CONSOLE_AT
        wait = facts.retry_after_sec or (5 if facts.status in (429, 503) else 0)
        document = small.page(kind, facts.accept_language, retry_after_sec=wait, link=facts.console)
        policy = (b"Content-Security-Policy", document.csp.encode())
        return ErrorPage(document.body, (*(pair for pair in PAGE_HEADERS if pair[0] != policy[0]), policy))

    return page
