"""What inline mode adds to the time of a request at an even pace (INL-229), beside the origin asked directly.

At 500 requests/s while waiting pages, metrics, health, exports and the audit trail are asked for all the time, and at
half of what the gate can take. The best window of all rounds counts, of the origin and nginx as of the gate: what
others do on the machine is not the gate's. Windows are short, since a virtual machine that is itself stopped for 10 ms
each second (seen in the times of all ways alike) would put that into the 99th percentile of every longer one.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx

from bench import shapes
from bench.client import drive
from bench.lab import Lab

PER_SEC: Final = 500.0
CONNECTIONS: Final = 25
SECONDS: Final = 0.75
WINDOWS: Final = 4
"""Of each way in one round."""
_OTHERS: Final = ("/w/beside", "/metrics", "/api/admin/health", "/api/admin/audit?format=csv", "/api/admin/rooms")
_PAUSE_SEC: Final = 0.25
GIVES_WAY: Final = 10
"""Niceness of the load: where it runs on the core of the stores and the origin they would wait for it, and those times
are not the gate's."""


@dataclass(frozen=True, slots=True)
class Paced:
    """Where the requests go, and what they are."""

    name: str
    port: int
    requests: list[bytes]


async def measure(lab: Lab, ways: Sequence[Paced], busy_per_sec: float, rounds: int) -> list[dict[str, Any]]:
    """``ways``: the origin first. ``busy_per_sec``: what the gate answers when it is never idle. Times are in ms."""
    os.nice(max(0, GIVES_WAY - os.nice(0)))
    found = []
    over = asyncio.Event()
    others = asyncio.ensure_future(_others(lab, over))
    try:
        found.append(await _at("500/s, others busy", ways, PER_SEC, rounds))
    finally:
        over.set()
        await others
    found.append(await _at(f"half load, {busy_per_sec / 2:.0f}/s", ways, busy_per_sec / 2, rounds))
    return found


async def _at(pace: str, ways: Sequence[Paced], per_sec: float, rounds: int) -> dict[str, Any]:
    best: dict[str, Any] = {way.name: {"p50_ms": math.inf, "p99_ms": math.inf} for way in ways}
    for _ in range(rounds):
        for way in [way for way in ways for _ in range(WINDOWS)]:
            streams = shapes.cycles(way.requests, CONNECTIONS)
            result = await drive("127.0.0.1", way.port, streams, SECONDS, per_sec=per_sec)
            if set(result.statuses) != {200}:
                raise RuntimeError(f"{way.name}: {dict(result.statuses)} {result.bodies}")
            for name, q in (("p50_ms", 0.5), ("p99_ms", 0.99)):
                best[way.name][name] = min(best[way.name][name], round(result.quantile_ms(q), 2))
    return {"pace": pace, **best}


async def _others(lab: Lab, over: asyncio.Event) -> None:
    """Everything that takes long, again and again."""
    headers = {"Authorization": f"Bearer {lab.server.admin_key}"}
    async with httpx.AsyncClient(base_url=lab.server.url, headers=headers, timeout=30, trust_env=False) as client:
        turn = 0
        while not over.is_set():
            turn += 1
            room = {"id": "beside", "name": f"Beside {turn}", "targetUrl": "https://beside.example/"}
            (await client.post("/api/admin/rooms", json=room)).raise_for_status()
            for path in _OTHERS:
                (await client.get(path)).raise_for_status()
            await asyncio.sleep(_PAUSE_SEC)


def table(found: Sequence[dict[str, Any]]) -> str:
    """For people: ms of the origin itself, and what each way adds to them."""
    lines = [f"{'pace':20} {'way':8} {'p50 ms':>8} {'p99 ms':>8} {'added p50':>10} {'added p99':>10}"]
    for row in found:
        ways = {name: times for name, times in row.items() if name != "pace"}
        plain = ways["origin"]
        for name, times in ways.items():
            seen = " ".join(f"{times[each]:8.2f}" for each in ("p50_ms", "p99_ms"))
            more = " ".join(f"{times[each] - plain[each]:10.2f}" for each in ("p50_ms", "p99_ms"))
            lines.append(f"{row['pace']:20} {name:8} {seen} {more}")
    return "\n".join([*lines, "goals: page ≤ 10 and ≤ 40, asset ≤ 5 added at 500/s; p99 ≤ 2 added at half load"])
