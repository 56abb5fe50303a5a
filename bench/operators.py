"""What operators' reads cost visitors, with hundreds of rooms. ``python -m bench.operators``.

Checks in a room of its own come at an even pace meanwhile; their 99th percentile stands beside that of the same checks
with nothing going on, and beside ``rooms`` that are just there. The operators are another process, so that what they
read is not taken in by the one that measures. How late a console's frame is, is seen from outside: an act must have
reached all consoles one tick and half a second after it (ADM-110). A scrape of 500 rooms shall take under a second
(OBS-055).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import uvloop

from app.core.clock import mono
from app.services.live import TICK_SEC
from bench import line, neighbours, shapes
from bench.lab import Lab, laboratory
from bench.neighbours import Wait, beside

SCRAPED, WATCHED = 500, 1000
CONSOLES: Final = 50
AT_ONCE: Final = 10
READS: Final = 20
ACTS: Final = 10
LATE_SEC: Final = 30.0


@dataclass(frozen=True, slots=True)
class Times:
    """How long one kind of read took, s."""

    what: str
    p50: float
    longest: float
    goal: float

    @classmethod
    def of(cls, what: str, lasted: list[float], goal: float) -> Times:
        """The median and the longest of ``lasted``."""
        return cls(what, round(statistics.median(lasted), 3), round(max(lasted), 3), goal)


class Consoles:
    """Open streams of the operators' API; nothing is parsed but the text that is looked for."""

    def __init__(self, client: aiohttp.ClientSession) -> None:
        self._client = client
        self._sought = b""
        self._found: list[asyncio.Event] = []

    @contextlib.asynccontextmanager
    async def open(self, count: int) -> AsyncIterator[None]:
        """Hold ``count`` of them open."""
        self._found = [asyncio.Event() for _ in range(count)]
        reading = [asyncio.create_task(self._read(found)) for found in self._found]
        try:
            await self.all_show(b'"rooms":[', lambda: asyncio.sleep(0))
            yield
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    async def all_show(self, text: bytes, act: Callable[[], Awaitable[Any]]) -> float:
        """Seconds from the answer to ``act`` until every console has received ``text``."""
        for found in self._found:
            found.clear()
        self._sought = text
        await act()
        began = mono()
        async with asyncio.timeout(LATE_SEC):
            for found in self._found:
                await found.wait()
        return mono() - began

    async def _read(self, found: asyncio.Event) -> None:
        async with self._client.get("/api/admin/events") as answer:
            tail = b""
            async for piece in answer.content.iter_any():
                tail = tail[-100:] + piece
                if self._sought in tail:
                    found.set()


async def run(lab: Lab, elsewhere: Executor) -> tuple[list[Wait], list[Times]]:
    """Make the rooms and measure the reads, with visitors beside them. ``elsewhere``: another process."""
    lab.spread()
    inside, _ = await line.fill(lab, "small", inside=50, waiting=0)
    requests = itertools.cycle([shapes.check(lab.port, "small", holder) for holder in inside])
    operator = line.Operator(lab)
    waits: list[Wait] = []

    async def timed(act: str, work: Callable[..., list[float]], *args: Any) -> list[float]:
        """What ``work`` measured in the other process."""
        server = lab.server.url, lab.server.admin_key
        lasted = asyncio.get_running_loop().run_in_executor(elsewhere, work, *server, *args)
        waits.append(await beside(act, lab.port, requests, lasted))
        return await lasted

    waits.append(await beside("nothing", lab.port, requests, asyncio.sleep(neighbours.UNDISTURBED_SEC)))
    await _make(operator, 1, SCRAPED)
    scrapes = await timed("scrapes", read_often, "/metrics")
    await _make(operator, SCRAPED, WATCHED)
    waits.append(await beside("rooms", lab.port, requests, asyncio.sleep(neighbours.UNDISTURBED_SEC)))
    lists = await timed("lists", read_often, "/api/admin/rooms")
    frames = await timed("consoles", watch)
    return waits, [
        Times.of(f"a scrape, {SCRAPED} rooms", scrapes, 1.0),
        Times.of(f"the list of {WATCHED} rooms", lists, 1.0),
        Times.of(f"an act until {CONSOLES} consoles of {WATCHED} rooms show it", frames, TICK_SEC + 0.5),
    ]


async def _make(operator: line.Operator, first: int, last: int) -> None:
    """Rooms ``first`` to ``last`` - 1."""
    for start in range(first, last, AT_ONCE):
        await asyncio.gather(*(operator.save(f"room-{n}") for n in range(start, min(last, start + AT_ONCE))))


def read_often(url: str, admin_key: str, path: str) -> list[float]:
    """Read ``path`` some times; how long each took."""

    async def read() -> list[float]:
        lasted = []
        async with _client(url, admin_key) as client:
            for _ in range(READS):
                began = mono()
                async with client.get(path) as answer:
                    await answer.read()
                lasted.append(mono() - began)
                await asyncio.sleep(0.5)
        return lasted

    return asyncio.run(read())


def watch(url: str, admin_key: str) -> list[float]:
    """Hold the consoles open and change a rate some times; how long each change took to be shown by all."""

    async def follow() -> list[float]:
        async with _client(url, admin_key) as client:
            consoles = Consoles(client)

            async def change(rate: int) -> None:
                async with client.post("/api/admin/rooms", json={"id": "room-1", "rate": rate}):
                    pass

            async with consoles.open(CONSOLES):
                rates = range(1001, 1001 + ACTS)
                return [await consoles.all_show(b'"rate":%d' % rate, lambda r=rate: change(r)) for rate in rates]  # type: ignore[misc]

    return asyncio.run(follow())


def _client(url: str, admin_key: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        url,
        headers={"Authorization": f"Bearer {admin_key}"},
        connector=aiohttp.TCPConnector(limit=CONSOLES + 1),
        timeout=aiohttp.ClientTimeout(total=None, sock_read=LATE_SEC),
        raise_for_status=True,
    )


def table(times: list[Times]) -> str:
    """For people."""
    rows = [f"{'s':48} {'p50':>7} {'longest':>8} {'goal':>6}"]
    return "\n".join([*rows, *(f"{t.what:48} {t.p50:7.3f} {t.longest:8.3f} {t.goal:6.2f}" for t in times)])


def main() -> int:
    """Run it and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    args = parser.parse_args()
    others = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    with laboratory() as lab, others as elsewhere:
        waits, times = uvloop.run(run(lab, elsewhere))
    print(table(times) + "\n\nChecks of another room meanwhile\n" + neighbours.table(waits), flush=True)
    if args.json:
        figures = {"times": [asdict(one) for one in times], "checks": [asdict(one) for one in waits]}
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
