"""The last refused visitor tokens of each room, over all processes of the fleet: enough to tell that they are many.

A list of at most twenty times per room in Valkey, which is gone a minute after the last one. Not here: what is said
about it (services/refused_tokens.py).
"""

from __future__ import annotations

from typing import Final

from app.infrastructure.keys import refused_key, refused_told_key
from app.infrastructure.valkey import Valkey

MANY: Final = 20
"""Refused tokens of a room within WITHIN_MS that are many (ENG-094)."""
WITHIN_MS: Final = 60_000
QUIET_MS: Final = 600_000
"""Time between two log lines about one room."""


class RefusedTokens:
    """Times of refusals per room."""

    def __init__(self, valkey: Valkey, prefix: str) -> None:
        self._valkey = valkey
        self._prefix = prefix

    async def add(self, room_id: str, times_ms: list[int]) -> bool:
        """Note refusals. True: they are many, and nobody has said so within the last ten minutes; now the caller has.

        StorageUnavailable passes.
        """
        key = refused_key(self._prefix, room_id)
        *_, first = await self._valkey.pipeline(
            [
                ("LPUSH", key, *times_ms[-MANY:]),
                ("LTRIM", key, 0, MANY - 1),
                ("PEXPIRE", key, WITHIN_MS),
                ("LINDEX", key, MANY - 1),
            ]
        )
        if not isinstance(first, bytes) or times_ms[-1] - int(first) > WITHIN_MS:
            return False
        told = await self._valkey.execute("SET", refused_told_key(self._prefix, room_id), 1, "NX", "PX", QUIET_MS)
        return told is not None
