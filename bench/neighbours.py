"""What a check in a small room costs its visitor while a neighbour of a million is rebuilt or flushed.

Checks come at an even pace that leaves the worker mostly idle, so that what is measured is waiting, not queueing. Only
ratios count: figures of each act stand beside those of the same checks a moment before, with nothing going on.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from app.core.clock import mono
from bench import line, shapes
from bench.lab import Lab

CONNECTIONS: Final = 10
PER_SEC: Final = 200
UNDISTURBED_SEC: Final = 10.0
FLUSH_SEC: Final = 20.0
"""How long after a flush is watched: its passes are written within some seconds of it (ENG-187)."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Latencies of checks during one act, in ms."""

    act: str
    seconds: float
    checks: int
    p50_ms: float
    p99_ms: float
    longest_ms: float


async def measure(lab: Lab, small: str, big: str, more: int) -> list[Wait]:
    """Checks in ``small``: with nothing going on, while ``big`` is rebuilt with ``more`` tickets, while it is flushed.

    Both rooms exist; nobody is let into ``big``.
    """
    lab.spread()
    inside, _ = await line.fill(lab, small, inside=50, waiting=0)
    requests = itertools.cycle([shapes.check(lab.port, small, holder) for holder in inside])
    operator = line.Operator(lab)
    quiet = await beside("nothing", lab.port, requests, asyncio.sleep(UNDISTURBED_SEC))
    waiting = await line.write_ahead(lab, big, more)
    rebuilt = await beside("rebuild", lab.port, requests, line.await_rebuilt(operator, big, waiting))
    flushed = await beside("flush", lab.port, requests, _flush(operator, big))
    return [quiet, rebuilt, flushed]


async def _flush(operator: line.Operator, room: str) -> None:
    answer = await operator.client.post(f"/api/admin/rooms/{room}/flush")
    answer.raise_for_status()
    await asyncio.sleep(FLUSH_SEC)


async def beside(act: str, port: int, requests: Iterator[bytes], work: Awaitable[Any]) -> Wait:
    """Send checks until ``work`` is done."""
    ended = asyncio.Event()
    lasted: list[float] = []
    began = mono()
    visitors = [asyncio.create_task(_visit(port, requests, lasted, ended)) for _ in range(CONNECTIONS)]
    try:
        await work
    finally:
        ended.set()
        await asyncio.gather(*visitors)
    ordered = sorted(lasted)
    p50, p99, longest = (round(ordered[int(q * (len(ordered) - 1))] * 1000, 2) for q in (0.5, 0.99, 1.0))
    return Wait(act, round(mono() - began, 1), len(ordered), p50, p99, longest)


async def _visit(port: int, requests: Iterator[bytes], lasted: list[float], ended: asyncio.Event) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not ended.is_set():
        began = mono()
        writer.write(next(requests))
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        took = mono() - began
        lasted.append(took)
        await asyncio.sleep(max(0.0, CONNECTIONS / PER_SEC - took))
    writer.close()


def table(waits: list[Wait]) -> str:
    """For people."""
    quiet = waits[0]
    rows = [f"{'meanwhile':10} {'s':>6} {'checks':>7} {'p50 ms':>8} {'p99 ms':>8} {'x quiet':>8} {'longest':>8}"]
    rows += [
        f"{w.act:10} {w.seconds:6.1f} {w.checks:7d} {w.p50_ms:8.2f} {w.p99_ms:8.2f} {w.p99_ms / quiet.p99_ms:8.2f} "
        f"{w.longest_ms:8.1f}"
        for w in waits
    ]
    return "\n".join(rows)
