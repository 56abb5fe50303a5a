"""How long a tick holds Valkey at a long line: calls of the tick function itself, timed by the server."""

from __future__ import annotations

import asyncio
from typing import Any

import redis.asyncio as redis

from bench.lab import Lab
from bench.line import Operator

TICKS = 10


async def tick_ms(lab: Lab, room: str) -> dict[str, Any]:
    """Longest function call of Valkey while ``room`` lets 1,000 people a second in, in ms, and how many were let in.

    Nobody else calls meanwhile, so the slow log (threshold 0.5 ms) holds ticks and reads of the console only.
    """
    client = redis.from_url(lab.stores.valkey_url)
    operator = Operator(lab)
    before = await operator.read(room)
    await client.config_set("slowlog-log-slower-than", 500)
    await client.config_set("slowlog-max-len", 1000)
    await client.slowlog_reset()
    try:
        await operator.save(room, ratePerMinute=60_000)
        await asyncio.sleep(TICKS)
        await operator.save(room, ratePerMinute=0)
        entries = [entry for entry in await client.slowlog_get(1000) if entry["command"].startswith(b"FCALL")]
    finally:
        await client.aclose()
    after = await operator.read(room)
    longest = max((entry["duration"] for entry in entries), default=0) / 1000
    return {"longest_ms": round(longest, 2), "let_in": before["waiting"] - after["waiting"], "over_ms": 0.5}
