"""Entry of every background process: adapters opened, one loop run, stopped when main says so.

A background process ignores SIGTERM and SIGINT: a signal to the whole group must not end the drainer while the web
workers still wait for its commits. Main sends STOP_SIGNAL in its order, and the kernel SIGKILL should main die.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import socket
import sys
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
import uvloop
from setproctitle import setproctitle

from app.core import log as logging_setup
from app.core.parent_death import die_with
from app.core.runtime import Runtime
from app.core.settings import Settings
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.postgres import Postgres
from app.infrastructure.valkey import Valkey
from app.infrastructure.valkey_cluster import connect_valkey
from app.services.loop_meter import LoopMeter
from app.services.rebuild_lanes import LANES

BACKGROUND: Final = ("ticker", "drainer", "jobs", "heavy")
"""Modules of ``workers``, each with ``async def run(background: Background) -> None``."""
ON_DEMAND: Final = "heavy"
"""The one that runs only while somebody needs it."""
LAST: Final = "drainer"
"""The one that ends after all others."""
STOP_SIGNAL: Final = signal.SIGUSR1
NICE: Final = {"jobs": 10, "heavy": 10}
"""A rebuild, a draw or an export may take a core for seconds: whoever answers visitors gets nine tenths of it meanwhile
(BUD-074)."""
PG_CONNECTIONS: Final = {"drainer": 1, "jobs": 2, "heavy": 1}
"""Connections of the pools of those that use Postgres."""
PG_BESIDE: Final = LANES
"""The connections of rebuilds, which are none of a pool: one for each lane."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Background:
    """What a background process works with."""

    runtime: Runtime
    valkey: Valkey
    postgres: Postgres
    stop: asyncio.Event
    """Set when main asks for the end; ``run`` then finishes what it holds and returns."""
    ready: Callable[[], None]
    """To be called once the process does its work; ``listening`` waits for it."""
    book: MetricBook = field(default_factory=MetricBook.alone)
    """Where this process counts."""
    inbox: socket.socket | None = None
    """Of process ``heavy``: the socket on which questions come."""

    @property
    def settings(self) -> Settings:
        """The settings in use."""
        return self.runtime.settings

    async def pause(self, seconds: float) -> bool:
        """Sleep, or less when a stop is asked for; True then."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)
        return self.stop.is_set()


def run_process(
    name: str, runtime: Runtime, states: MutableMapping[str, Any], inbox: socket.socket | None = None
) -> None:
    """Run background process ``name`` until it is stopped; the exit code is 1 when its ``run`` failed or says so."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(runtime.main_pid)
    setproctitle(f"qm-{name}")
    os.nice(NICE.get(name, 0))
    logging_setup.configure_for(runtime)
    entry = f"Sanic-{name}-0"

    def ready() -> None:
        states[entry] = {**states.get(entry, {}), "serving": True}

    try:
        is_done = uvloop.run(_run(name, runtime, ready, inbox))
    except Exception:
        log.exception("background_process_failed", process=name)
        is_done = False
    if not is_done:
        sys.exit(1)


async def _run(name: str, runtime: Runtime, ready: Callable[[], None], inbox: socket.socket | None) -> bool:
    """False when the process left something undone that it should have done."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(STOP_SIGNAL, stop.set)
    settings = runtime.settings
    valkey = await connect_valkey(
        runtime.valkey_url, timeout_ms=settings.valkey_timeout_ms, is_cluster=settings.valkey_cluster
    )
    postgres = Postgres(
        runtime.database_url,
        max_size=PG_CONNECTIONS.get(name, 1),
        statement_timeout_ms=settings.pg_statement_timeout_ms,
    )
    module, book = importlib.import_module(f"workers.{name}"), _book(name, runtime)
    meter = LoopMeter(book, name)
    meter.start()
    try:
        background = Background(runtime, valkey, postgres, stop, ready, book, inbox)
        return await module.run(background) is not False
    finally:
        meter.stop()
        await postgres.close()
        await valkey.close()


def _book(name: str, runtime: Runtime) -> MetricBook:
    """The areas of the background processes follow those of the web workers."""
    if not runtime.metrics_name:
        return MetricBook.alone()
    return MetricBook.attach(runtime.metrics_name, runtime.settings.workers + BACKGROUND.index(name))
