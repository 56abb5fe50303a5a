"""A server whose application and background processes do next to nothing: for tests of the process life alone.

Run as ``python -m tests.process.standin``; every spawned process imports this module again as its main module, and so
finds the same stand-ins.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import types
from typing import Any

from sanic import Request, Sanic
from sanic.config import Config
from sanic.response import HTTPResponse, json

from app.core.runtime import Runtime, web_worker_index
from workers.runner import Background


def create_app(runtime: Runtime) -> Sanic[Any, Any]:
    """One route that says who answered, one that takes its time, one that ends its process."""
    app: Sanic[Any, Any] = Sanic("standin", config=Config(env_prefix=""), configure_logging=False)
    app.ctx.runtime = runtime  # a stop asks it how long it may take

    @app.get("/who")
    async def who(request: Request) -> HTTPResponse:
        return json({"pid": os.getpid(), "index": web_worker_index(), "ready": not runtime.stopping.is_set()})

    @app.get("/slow")
    async def slow(request: Request) -> HTTPResponse:
        with open(os.environ["STANDIN_TRACE"] + ".slow", "w"):
            pass  # whoever waits for this file knows that the request is under way
        await asyncio.sleep(0.8)
        return json({"pid": os.getpid()})

    return app


async def run(background: Background) -> None:
    """Be ready, wait for the stop, leave a trace of when it came."""
    if os.environ.get("STANDIN_FAILS") == multiprocessing.current_process().name:
        raise RuntimeError("as asked")
    background.ready()
    await background.stop.wait()
    with open(os.environ["STANDIN_TRACE"], "a") as trace:
        trace.write(multiprocessing.current_process().name + "\n")


for _name, _members in {
    "app.server": {"create_app": create_app},
    "workers.ticker": {"run": run},
    "workers.drainer": {"run": run},
    "workers.jobs": {"run": run},
}.items():
    _module = types.ModuleType(_name)
    _module.__dict__.update(_members)
    sys.modules[_name] = _module

if __name__ == "__main__":
    from app.__main__ import main

    sys.exit(main(["serve"]))
