"""A small app on the edge, for tests and measurements.

``python -m tests.edge.devapp <port> <workers> [options as JSON]``; options: ``deadlines`` (class attributes of
EdgeProtocol), ``hops``, ``proxies`` and ``edge`` (trust), ``limit`` (of /api/limited), ``rate_table`` (made by main),
``settings`` (fields of Settings; with it connections, odd requests and hosts are judged), ``connector`` (a good key).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from functools import partial
from typing import Any

from sanic import Request, Sanic
from sanic.response import HTTPResponse, text
from sanic.response import json as sanic_json

from app.core.errors import NoRoom, RateLimited
from app.core.secret import Secret
from app.core.settings import Settings
from app.domain.client_address import Client, TrustPolicy
from app.domain.hosts import HostPolicy
from app.domain.net_ranges import parse_ranges
from app.infrastructure.rate_limiter import RateLimiter
from app.services.edge_watch import ConnectionCap, EdgeWatch
from app.services.undeclared import UndeclaredPeers
from blueprints.edge.crowd import Crowd
from blueprints.edge.hot import HotTable
from blueprints.edge.protocol import EdgeProtocol
from blueprints.edge.reply import HotReply, json_reply
from blueprints.edge.request import HotRequest
from blueprints.edge.router import EdgeRouter
from blueprints.errors import ErrorFacts, ErrorPage
from blueprints.middleware import install
from blueprints.ops import Health, bp

FINISHED: list[str] = []
"""Names of slow handlers that ran to their end."""

STOPPING: list[bool] = []
"""Not empty once a stop has begun."""


class Handlers:
    """Hot handlers of the app."""

    def __init__(self, app: Sanic[Any, Any], options: dict[str, Any]) -> None:
        self.app = app
        self.limit = int(options.get("limit", 0))
        self.limiter: RateLimiter | None = None

    async def echo(self, request: HotRequest) -> HotReply:
        return json_reply(
            {
                "method": request.method,
                "path": request.path,
                "query": request.query,
                "body": request.body.decode("latin-1"),
                "address": request.client.address,
                "scheme": request.scheme,
                "host": request.host,
                "cookies": request.cookies("qm_shop"),
                "pid": os.getpid(),
            },
            cookies=[b"qm_shop=abc; Path=/"] if request.query.get("cookie") else None,
        )

    async def body_fields(self, request: HotRequest) -> HotReply:
        return json_reply({"fields": request.json()})

    async def slow(self, request: HotRequest) -> HotReply:
        async with asyncio.timeout(30):
            await asyncio.sleep(float(request.query.get("sec", "0.2")))
        FINISHED.append(request.query.get("name", ""))
        return json_reply({"slow": request.query.get("name", "")})

    async def timed_out(self, request: HotRequest) -> HotReply:
        try:
            async with asyncio.timeout(0.05):
                await asyncio.sleep(30)
        except TimeoutError:
            return json_reply({"timeout": True})
        return json_reply({"timeout": False})

    async def grouped(self, request: HotRequest) -> HotReply:
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(asyncio.sleep(0.01, number)) for number in range(3)]
        return json_reply({"parts": [part.result() for part in parts]})

    async def refused(self, request: HotRequest) -> HotReply:
        await asyncio.sleep(0)
        raise NoRoom

    async def broken(self, request: HotRequest) -> HotReply:
        raise ZeroDivisionError("a secret of the inside")

    async def limited(self, request: HotRequest) -> HotReply:
        assert self.limiter is not None
        request.budget = self.limiter.take("check", request.client.key, self.limit)
        if not request.budget.allowed:
            raise RateLimited
        return json_reply({"ok": True})

    async def no_reply(self, request: HotRequest) -> HotReply:
        return None  # type: ignore[return-value]

    async def odd_reply(self, request: HotRequest) -> HotReply:
        return HotReply(headers=[("not", "bytes")])  # type: ignore[list-item]

    async def nothing(self, request: HotRequest) -> HotReply:
        return HotReply(204)


def make_app(options: dict[str, Any]) -> Sanic[Any, Any]:
    """The app; called again in each worker process."""
    for name, seconds in options.get("deadlines", {}).items():
        setattr(EdgeProtocol, name, seconds)
    app: Sanic[Any, Any] = Sanic("edge-dev", router=EdgeRouter(), configure_logging=False)
    handlers = Handlers(app, options)
    hot = HotTable()
    hot.extend(
        {
            ("GET", "/api/check"): handlers.echo,
            ("POST", "/api/check"): handlers.echo,
            ("OPTIONS", "/api/check"): handlers.nothing,
            ("POST", "/api/join"): handlers.body_fields,
            ("GET", "/api/status"): handlers.slow,
            ("GET", "/api/timeout"): handlers.timed_out,
            ("GET", "/api/group"): handlers.grouped,
            ("GET", "/api/refused"): handlers.refused,
            ("GET", "/api/broken"): handlers.broken,
            ("GET", "/api/limited"): handlers.limited,
            ("GET", "/api/no-reply"): handlers.no_reply,
            ("GET", "/api/odd-reply"): handlers.odd_reply,
        }
    )
    given = {"edge_secret": tuple(map(Secret, options.get("edge", []))), **options.get("settings", {})}
    settings = Settings(**given)
    policy = TrustPolicy.of(
        int(options.get("hops", 0)), parse_ranges(options.get("proxies", "")), options.get("edge", [])
    )
    hosts = HostPolicy(settings.admin_host, settings.public_url)
    edge = install(
        app, hot=hot, policy=policy, hosts=hosts, health=_health, error_page=_page, stopping=lambda: bool(STOPPING)
    )
    app.blueprint(bp)

    @app.before_server_start
    async def attach(app: Sanic[Any, Any]) -> None:
        if name := options.get("rate_table"):
            worker = int(app.m.name.split("-")[2]) if hasattr(app, "multiplexer") else 0
            handlers.limiter = limiter = RateLimiter.attach(name, worker)
        if "settings" in options:
            undeclared = UndeclaredPeers(limiter, settings)
            edge.gate.watch = watch = EdgeWatch(limiter, settings, undeclared)
            cap = ConnectionCap(limiter, settings)
            edge.crowd = Crowd(cap)
            edge.gate.is_connector = partial(_is_connector, options.get("connector"))
            app.ctx.blocks = lambda: {
                "edge": watch.edge_block(),
                "connections": cap.connections_block(),
                "proxy": undeclared.proxy_block(),
                "full": cap.is_full,
            }

    @app.get("/api/admin/blocks")
    @app.get("/blocks", name="blocks_of_all")
    async def blocks(request: Request) -> HTTPResponse:
        return sanic_json(app.ctx.blocks())

    async def console(request: Request) -> HTTPResponse:
        return text("console")

    if settings.admin_host:
        app.add_route(console, "/", name="console")
        app.add_route(console, "/progress", name="progress")

    @app.get("/stock")
    async def stock(request: Request) -> HTTPResponse:
        return sanic_json({"stock": request.args.get("n"), "method": request.method, "id": request.ctx.request_id})

    @app.post("/stock")
    async def stock_post(request: Request) -> HTTPResponse:
        return sanic_json({"length": len(request.body), "address": request.ctx.client.address})

    @app.post("/ignores", ignore_body=True)
    async def ignores(request: Request) -> HTTPResponse:
        return text("ignored")

    @app.get("/stream")
    async def stream(request: Request) -> None:
        response = await request.respond(content_type="text/plain")
        for number in range(int(request.args.get("n", 3))):
            await response.send(f"{number}\n")
            await asyncio.sleep(0.02)
        if request.args.get("break"):
            raise ZeroDivisionError("broken stream")
        await response.eof()

    @app.get("/stock-broken")
    async def stock_broken(request: Request) -> HTTPResponse:
        raise ZeroDivisionError("a secret of the inside")

    @app.get("/finished")
    async def finished(request: Request) -> HTTPResponse:
        return sanic_json({"finished": FINISHED, "running": len(app.ctx.edge.running)})

    @app.post("/stop")
    async def stop(request: Request) -> HTTPResponse:
        STOPPING.append(True)
        return text("stopping")

    @app.get("/connections")
    async def connections(request: Request) -> HTTPResponse:
        return sanic_json({"open": len(request.transport.get_protocol().connections)})

    return app


async def _is_connector(key: str | None, client: Client, authorization: str | None) -> bool:
    return key is not None and authorization == f"Bearer {key}"


def _health() -> Health:
    return Health(True, "ok", "1.0.0", "dev", 1, 1, "memory", "memory", storage_ok=True)


def _page(facts: ErrorFacts) -> ErrorPage | None:
    return ErrorPage(b"<p>hooked") if facts.code == "no_room" else None


def main() -> None:
    """Run it."""
    port, workers = int(sys.argv[1]), int(sys.argv[2])
    options = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    table = RateLimiter.create(workers=workers)
    options.setdefault("rate_table", table.name)
    where = {"host": "127.0.0.1", "port": port, "protocol": EdgeProtocol, "motd": False, "backlog": 2048}
    if workers == 1:
        make_app(options).run(single_process=True, **where)
        return
    from sanic.worker.loader import AppLoader

    loader = AppLoader(factory=partial(make_app, options))
    app = loader.load()
    app.prepare(workers=workers, **where)
    Sanic.serve(primary=app, app_loader=loader)


if __name__ == "__main__":
    main()
