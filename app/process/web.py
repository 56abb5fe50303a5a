"""The web worker: the application, and the signals of its process.

Only main's STOP_SIGNAL stops a worker. A SIGTERM to the whole group (``timeout``, systemd, a terminal) reaches the
workers too; they ignore it, so that the instance is not ready before any of them closes anything (CFG-192).
"""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from typing import Any

from sanic import Sanic
from setproctitle import setproctitle

from app.core import log as logging_setup
from app.core.parent_death import die_with
from app.core.runtime import Runtime
from workers.runner import STOP_SIGNAL


def build_app(runtime: Runtime) -> Sanic[Any, Any]:
    """The application with what the process manager needs of it; opens nothing."""
    from app.server import create_app

    app = create_app(runtime)
    app.config.GRACEFUL_SHUTDOWN_TIMEOUT = runtime.drain_sec
    app.register_listener(_take_signals, "after_server_start")
    app.register_listener(_ignore_signals, "before_server_stop")
    return app


def worker_app(runtime: Runtime) -> Sanic[Any, Any]:
    """``build_app`` in a worker process: the first code of ours that runs there."""
    die_with(runtime.main_pid)
    setproctitle("qm-web")
    logging_setup.configure_for(runtime)
    _silence()
    app = build_app(runtime)
    app.ctx.grace_sec = runtime.settings.shutdown_grace_ms / 1000
    return app


async def _take_signals(app: Sanic[Any, Any]) -> None:
    """Replace the handlers that Sanic has just installed."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
    _silence()
    stop = partial(app.stop, terminate=False)

    def begin() -> None:
        app.config.GRACEFUL_SHUTDOWN_TIMEOUT = app.ctx.runtime.drain_sec
        loop.call_later(app.ctx.grace_sec, stop)

    # Not add_signal_handler: Sanic runs the loop several times, and what comes between two runs would be lost.
    signal.signal(STOP_SIGNAL, lambda _number, _frame: loop.call_soon_threadsafe(begin))


async def _ignore_signals(app: Sanic[Any, Any]) -> None:
    _silence()  # Sanic has put the default action back


def _silence() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
