"""What each living instance has counted, side by side in the live store, and the last decisions of bot protection.

Not here: the counts by room, which outlive their instance (engine_counts.py). Source: FLT-041, FLT-042, OBS-039.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import ujson

from app.core.clock import wall_ms
from app.infrastructure.keys import counters_key, counting_key, decisions_key
from app.infrastructure.valkey import Valkey

LIFE_MS: Final = 15_000
"""How long the counts of an instance that says nothing more stay in the sums."""
DECISIONS_MAX: Final = 50


class CounterBoard:
    """One web worker's hand on the board. Calls raise StorageUnavailable."""

    def __init__(self, valkey: Valkey, prefix: str, instance: str, worker: int) -> None:
        """``instance``: the name of this run of the instance; ``worker``: number of this web worker."""
        self._valkey = valkey
        self._prefix = prefix
        self._instance = instance
        self._worker = worker

    async def own(self) -> dict[str, Any]:
        """What a predecessor of this worker has left, so that its counts go on."""
        text = await self._valkey.execute("HGET", counters_key(self._prefix, self._instance), self._worker)
        return {} if text is None else dict(ujson.loads(text))

    async def put(self, counts: Mapping[str, Any]) -> None:
        """Write what this worker has counted since the instance started."""
        key = counters_key(self._prefix, self._instance)
        text = ujson.dumps(counts, ensure_ascii=False)
        await self._valkey.pipeline(
            [
                ("HSET", key, self._worker, text),
                ("PEXPIRE", key, LIFE_MS),
                ("ZADD", counting_key(self._prefix), wall_ms(), self._instance),
                ("ZREMRANGEBYSCORE", counting_key(self._prefix), "-inf", wall_ms() - 10 * LIFE_MS),
            ]
        )

    async def others(self) -> list[dict[str, Any]]:
        """The counts of every other web worker of every living instance."""
        names = [name.decode() for name in await self._valkey.execute("ZRANGE", counting_key(self._prefix), 0, -1)]
        commands = [("HGETALL", counters_key(self._prefix, name)) for name in names]
        replies = await self._valkey.pipeline(commands) if commands else []
        own = self._instance, str(self._worker).encode()
        return [
            dict(ujson.loads(text))
            for name, flat in zip(names, replies, strict=True)
            if isinstance(flat, list)
            for worker, text in zip(flat[::2], flat[1::2], strict=True)
            if worker.isdigit() and (name, worker) != own
        ]

    async def add_decisions(self, decisions: Sequence[Mapping[str, Any]]) -> None:
        """Put decisions of bot protection, oldest first, before those that are there; the last 50 stay."""
        key = decisions_key(self._prefix)
        texts = [ujson.dumps(one, ensure_ascii=False) for one in decisions]
        await self._valkey.pipeline([("LPUSH", key, *texts), ("LTRIM", key, 0, DECISIONS_MAX - 1)])

    async def decisions(self) -> list[dict[str, Any]]:
        """The last decisions of the fleet, latest first."""
        texts = await self._valkey.execute("LRANGE", decisions_key(self._prefix), 0, -1)
        found = [dict(ujson.loads(text)) for text in texts]
        return sorted(found, key=lambda one: -int(one["ts"]))
