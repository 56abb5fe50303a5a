"""The bench's own deployment: private throw-away stores, one web worker, the yardstick, each pinned to a core.

Web worker and yardstick run on core 0, everything else (load, stores, background processes) on core 1, so that the CPU
time of the worker is not spoilt by its neighbours. CPU is read from the kernel, per process.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil

from app.infrastructure.embedded import PrivateStores
from loadtests.demo import free_port
from tests.harness import Server

SERVER_CORE, REST_CORE = 0, 1
LIMITS = ("JOIN_LIMIT_PER_MIN", "CHECK_LIMIT_PER_MIN", "STATUS_LIMIT_PER_MIN", "WAITING_LIMIT_PER_MIN")
LIMITS_ON_BUT_HIGH = dict.fromkeys(LIMITS, "1000000")


@dataclass
class Lab:
    """Running processes and their roles: ``web``, ``drainer``, ``valkey``, ``postgres`` …; ``bare`` the yardstick."""

    server: Server
    stores: PrivateStores
    bare_port: int
    bare: psutil.Process
    roles: dict[str, list[psutil.Process]] = field(default_factory=dict)

    def spread(self) -> None:
        """Let every process run on any core from now on, as where it is deployed."""
        for process in itertools.chain([psutil.Process(), self.bare], *self.roles.values()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.cpu_affinity([])

    @property
    def port(self) -> int:
        """Port of the server under test."""
        return int(self.server.url.rpartition(":")[2])

    def cpu(self) -> dict[str, float]:
        """CPU seconds spent so far, by role; short-lived Postgres back ends are counted while they live."""
        used = {"bare": _cpu(self.bare)}
        for role, processes in self.roles.items():
            used[role] = sum(_cpu(process) for process in processes)
        used["postgres"] = sum(_cpu(p) for p in _family(self.stores.children["postgres"].process))
        return used


def _cpu(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def _family(process: subprocess.Popen[bytes] | None) -> list[psutil.Process]:
    assert process is not None
    head = psutil.Process(process.pid)
    return [head, *head.children(recursive=True)]


def _roles(server: Server, stores: PrivateStores) -> dict[str, list[psutil.Process]]:
    roles: dict[str, list[psutil.Process]] = {"valkey": _family(stores.children["valkey"].process)}
    for child in psutil.Process(server.pid).children(recursive=True):
        roles.setdefault(child.name().removeprefix("qm-").split(":")[0], []).append(child)
    return roles


def _await_http(url: str) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).read()
            return
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


@contextlib.contextmanager
def laboratory(**settings: str) -> Iterator[Lab]:
    """Start everything, with further ``settings`` of the server, pin it, and end it again."""
    os.sched_setaffinity(0, {REST_CORE})  # inherited by all that is started here
    stores = PrivateStores(None)
    stores.start()
    bare_port = free_port(0)
    bare = subprocess.Popen([sys.executable, "-m", "bench.bare", str(bare_port)], stdout=subprocess.DEVNULL)
    env = {
        "STORE": "valkey",
        "VALKEY_URL": stores.valkey_url,
        "DATABASE_URL": stores.database_url,
        "SECRET": "a-secret-of-the-bench-with-32-characters",
        "RESYNC_MS": "500",
        "TRUST_PROXY": "1",
        "TRUST_PROXY_IPS": "127.0.0.1",
        "LOG_LEVEL": "warning",
        **LIMITS_ON_BUT_HIGH,
        **settings,
    }
    try:
        with Server(env=env, workers=1) as server:
            _await_http(f"http://127.0.0.1:{bare_port}/")
            roles = _roles(server, stores)
            for process in [psutil.Process(bare.pid), *roles["web"]]:
                process.cpu_affinity([SERVER_CORE])
            yield Lab(server, stores, bare_port, psutil.Process(bare.pid), roles)
    finally:
        bare.terminate()
        bare.wait(timeout=10)
        stores.stop()


async def until(condition, *, seconds: float, what: str) -> None:  # type: ignore[no-untyped-def]
    """Wait until the async ``condition`` is true; TimeoutError names ``what``."""
    end = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s")
        await asyncio.sleep(0.1)
