"""What operators' reads cost visitors: scrapes of 500 rooms, 50 consoles on 1,000. ``python -m bench.operators``.

Checks in a room of its own come at an even pace meanwhile; their 99th percentile stands beside that of the same checks
with nothing going on. How late a console's frame is, is seen from outside: an act must have reached all consoles one
tick and half a second after it (ADM-110). A scrape shall take under a second (OBS-055).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import httpx
import uvloop

from app.core.clock import mono
from app.services.live import TICK_SEC
from bench import line, neighbours, shapes
from bench.lab import Lab, laboratory
from bench.neighbours import Wait, beside

SCRAPED, WATCHED = 500, 1000
CONSOLES: Final = 50
AT_ONCE: Final = 10
SCRAPES: Final = 20
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

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._headers = {"Authorization": f"Bearer {lab.server.admin_key}"}
        self._sought = b""
        self._found: list[asyncio.Event] = []

    @contextlib.asynccontextmanager
    async def open(self, count: int) -> AsyncIterator[Consoles]:
        """Hold ``count`` of them open."""
        self._found = [asyncio.Event() for _ in range(count)]
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(limit=count + 1)
        async with aiohttp.ClientSession(self._lab.server.url, connector=connector, timeout=timeout) as client:
            reading = [asyncio.create_task(self._read(client, found)) for found in self._found]
            try:
                await self.all_show(b'"rooms":[', lambda: asyncio.sleep(0))
                yield self
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

    async def _read(self, client: aiohttp.ClientSession, found: asyncio.Event) -> None:
        async with client.get("/api/admin/events", headers=self._headers) as answer:
            answer.raise_for_status()
            tail = b""
            async for piece in answer.content.iter_any():
                tail = tail[-100:] + piece
                if self._sought in tail:
                    found.set()


async def run(lab: Lab) -> tuple[list[Wait], list[Times]]:
    """Make the rooms and measure both reads, with visitors beside them."""
    lab.spread()
    inside, _ = await line.fill(lab, "small", inside=50, waiting=0)
    requests = itertools.cycle([shapes.check(lab.port, "small", holder) for holder in inside])
    operator = line.Operator(lab)
    waits = [await beside("nothing", lab.port, requests, asyncio.sleep(neighbours.UNDISTURBED_SEC))]
    await _make(operator, 1, SCRAPED)
    scrapes: list[float] = []
    waits.append(await beside("scrapes", lab.port, requests, _scrape(operator, scrapes)))
    await _make(operator, SCRAPED, WATCHED)
    frames: list[float] = []
    waits.append(await beside("consoles", lab.port, requests, _watch(lab, operator, frames)))
    return waits, [
        Times.of(f"a scrape, {SCRAPED} rooms", scrapes, 1.0),
        Times.of(f"an act until {CONSOLES} consoles of {WATCHED} rooms show it", frames, TICK_SEC + 0.5),
    ]


async def _make(operator: line.Operator, first: int, last: int) -> None:
    """Rooms ``first`` to ``last`` - 1."""
    for start in range(first, last, AT_ONCE):
        await asyncio.gather(*(operator.save(f"room-{n}") for n in range(start, min(last, start + AT_ONCE))))


async def _scrape(operator: line.Operator, lasted: list[float]) -> None:
    for _ in range(SCRAPES):
        began = mono()
        answer: httpx.Response = await operator.client.get("/metrics")
        answer.raise_for_status()
        lasted.append(mono() - began)
        await asyncio.sleep(0.5)


async def _watch(lab: Lab, operator: line.Operator, lasted: list[float]) -> None:
    async with Consoles(lab).open(CONSOLES) as consoles:
        for rate in range(1001, 1001 + ACTS):

            async def act(rate: int = rate) -> None:
                await operator.save("room-1", rate=rate)

            lasted.append(await consoles.all_show(b'"rate":%d' % rate, act))


def table(times: list[Times]) -> str:
    """For people."""
    rows = [f"{'s':48} {'p50':>7} {'longest':>8} {'goal':>6}"]
    return "\n".join([*rows, *(f"{t.what:48} {t.p50:7.3f} {t.longest:8.3f} {t.goal:6.2f}" for t in times)])


def main() -> int:
    """Run it and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    args = parser.parse_args()
    with laboratory() as lab:
        waits, times = uvloop.run(run(lab))
    print(table(times) + "\n\nChecks of another room meanwhile\n" + neighbours.table(waits), flush=True)
    if args.json:
        figures = {"times": [asdict(one) for one in times], "checks": [asdict(one) for one in waits]}
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
