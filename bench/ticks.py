"""How long a tick holds Valkey at a long line: calls of the tick function itself, timed by the server."""

from __future__ import annotations

import asyncio
from typing import Any

import redis.asyncio as redis

from bench.lab import Lab
from bench.line import Operator

SECONDS = 10
SHORTEST_US = 100
"""Ticks that did nothing are shorter, and left out."""


async def tick_ms(lab: Lab, room: str) -> dict[str, Any]:
    """Durations of ticks in ms, once letting 1,000 present holders a second in, once passing over absent ones.

    A duration is wall time on a core that Valkey shares with the rest of the bench; the longest shows that too.
    """
    return {
        "present": await _ticks(lab, room, presence_sec=3600),
        "absent": await _ticks(lab, room, presence_sec=1),
    }


async def _ticks(lab: Lab, room: str, *, presence_sec: int) -> dict[str, Any]:
    client = redis.from_url(lab.stores.valkey_url)
    operator = Operator(lab)
    before = await operator.read(room)
    await client.config_set("slowlog-log-slower-than", SHORTEST_US)
    await client.config_set("slowlog-max-len", 10_000)
    await client.slowlog_reset()
    try:
        await operator.save(room, ratePerMinute=60_000, presenceSec=presence_sec)
        await asyncio.sleep(SECONDS)
        await operator.save(room, ratePerMinute=0)
        entries = await client.slowlog_get(10_000)
    finally:
        await client.aclose()
    after = await operator.read(room)
    lasted = sorted(entry["duration"] / 1000 for entry in entries if b"_tick " in entry["command"]) or [0.0]
    return {
        "ticks": len(lasted),
        "p50_ms": round(lasted[len(lasted) // 2], 2),
        "longest_ms": round(lasted[-1], 2),
        "given_a_pass": before["waiting"] - after["waiting"],
    }
