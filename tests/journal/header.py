"""Changing a room's header while its drainer is at work on the same room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from app.domain.layout import pack_header, unpack_header
from app.infrastructure.valkey import Valkey

_SWAP: Final = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return 1 end return 0"


async def change_header(valkey: Valkey, key: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the header in one step: what the drainer acknowledges meanwhile must not be taken back."""
    while True:
        raw = await valkey.execute("GET", key)
        header = unpack_header(raw)
        change(header)
        if await valkey.execute("EVAL", _SWAP, 1, key, raw, pack_header(header)):
            return
