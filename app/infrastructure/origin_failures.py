"""Failures of origins as visitors met them, summed over all instances for five minutes.

A hash for each half minute: ``<room> <class>`` → failures, ``<room>`` → ms of the last one; gone by itself when nobody
asks about it any more. Not here: what is made of it (domain/origin_errors.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from app.domain.origin_errors import CLEAR_SEC, WINDOW_SEC, OriginErrors
from app.infrastructure.keys import origin_failures_key
from app.infrastructure.valkey import Valkey

BUCKET_MS: Final = 30_000
BUCKETS: Final = WINDOW_SEC * 1000 // BUCKET_MS
AHEAD: Final = 1
"""Buckets beyond the present one that are looked at: another instance's clock may be a little ahead."""
LIFE_MS: Final = WINDOW_SEC * 1000 + 4 * BUCKET_MS


class OriginFailures:
    """Writes and reads. Raises StorageUnavailable."""

    def __init__(self, valkey: Valkey, prefix: str) -> None:
        self._valkey = valkey
        self._prefix = prefix

    async def add(self, failures: Mapping[tuple[str, str], int], now_ms: int) -> None:
        """Failures by (room id, class) that came since the last call."""
        key = origin_failures_key(self._prefix, now_ms // BUCKET_MS)
        commands: list[tuple[str | int | bytes, ...]] = []
        for (room_id, kind), number in failures.items():
            commands.append(("HINCRBY", key, f"{room_id} {kind}", number))
            commands.append(("HSET", key, room_id, now_ms))
        for reply in await self._valkey.pipeline([*commands, ("PEXPIRE", key, LIFE_MS)]):
            if isinstance(reply, Exception):
                raise reply

    async def recent(self, now_ms: int) -> dict[str, OriginErrors]:
        """Rooms whose origin failed within the last five minutes."""
        last = now_ms // BUCKET_MS + AHEAD
        keys = [origin_failures_key(self._prefix, bucket) for bucket in range(last - BUCKETS - AHEAD, last + 1)]
        classes: dict[str, dict[str, int]] = {}
        times: dict[str, int] = {}
        for reply in await self._valkey.pipeline([("HGETALL", key) for key in keys]):
            if isinstance(reply, Exception):
                raise reply
            for name, value in _pairs(reply):
                room_id, _, kind = name.partition(" ")
                if kind:
                    found = classes.setdefault(room_id, {})
                    found[kind] = found.get(kind, 0) + value
                else:
                    times[room_id] = max(times.get(room_id, 0), value)
        return {room_id: _errors(found, times.get(room_id), now_ms) for room_id, found in classes.items()}


def _errors(classes: Mapping[str, int], last_at: int | None, now_ms: int) -> OriginErrors:
    is_failing = last_at is not None and now_ms - last_at < CLEAR_SEC * 1000
    return OriginErrors(dict(sorted(classes.items())), last_at, is_failing)


def _pairs(reply: Any) -> list[tuple[str, int]]:
    flat = [part for pair in reply.items() for part in pair] if isinstance(reply, dict) else reply
    return [(name.decode(), int(value)) for name, value in zip(flat[::2], flat[1::2], strict=True)]
