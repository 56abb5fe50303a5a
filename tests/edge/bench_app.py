"""The app that ratio.py measures: ``python -m tests.edge.bench_app <port>``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from sanic import Request, Sanic
from sanic.response import HTTPResponse
from sanic.response import json as sanic_json

from app.domain.client_address import TrustPolicy
from app.domain.net_ranges import parse_ranges
from app.infrastructure.rate_limiter import RateLimiter
from blueprints.edge.hot import HotTable
from blueprints.edge.protocol import EdgeProtocol
from blueprints.edge.reply import HotReply
from blueprints.edge.request import HotRequest
from blueprints.edge.router import EdgeRouter
from blueprints.middleware import install

ANSWER = b'{"ok":true}'
app: Sanic[Any, Any] = Sanic("bench-edge", router=EdgeRouter(), configure_logging=False)
hot = HotTable()
table = RateLimiter.create(workers=2)
limiter = RateLimiter.attach(table.name, 0)


async def plain(request: HotRequest) -> HotReply:
    """Protocol-level cost alone."""
    return HotReply(body=ANSWER)


async def wait(request: HotRequest) -> HotReply:
    """What a real handler does around the engine: limit, body, cookies, one wait."""
    request.budget = limiter.take("check", request.client.key, 1_000_000)
    request.json()
    request.cookies("qm_shop")
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, None)
    await future
    return HotReply(body=ANSWER)


hot.extend({("POST", "/api/check"): plain, ("POST", "/api/wait"): wait})
install(app, hot=hot, policy=TrustPolicy.of(1, parse_ranges("127.0.0.1")))


@app.post("/stock")
async def stock(request: Request) -> HTTPResponse:
    """The same at a stock route."""
    return sanic_json({"ok": True})


if __name__ == "__main__":
    app.run("127.0.0.1", int(sys.argv[1]), protocol=EdgeProtocol, single_process=True, motd=False)
