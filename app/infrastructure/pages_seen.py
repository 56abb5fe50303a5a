"""From which pages checks have come: room, origin and version of the tag, with the time of the last one.

One sorted set of all rooms; those that were heard of longest ago make room for others, so made-up origins under a
wildcard push nothing out for long. Not here: refused origins (engine_counts.py). Source: ADM-189, PAG-210.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.infrastructure.keys import pages_key
from app.infrastructure.valkey import Valkey

KEPT: Final = 500
_TAG: Final = re.compile(r"[0-9A-Za-z.+-]{1,32}").fullmatch
_UNKNOWN: Final = "?"


@dataclass(frozen=True, slots=True)
class PageSeen:
    """Pages of one origin. ``tag``: version of the browser tag, None when it did not say."""

    origin: str
    tag: str | None
    at: int
    """Epoch ms of the last check."""


class PagesSeen:
    """Writes and reads. Raises StorageUnavailable."""

    def __init__(self, valkey: Valkey, prefix: str) -> None:
        self._valkey = valkey
        self._key = pages_key(prefix)

    async def add(self, pages: Iterable[tuple[str, bytes, str | None]], at: int) -> None:
        """Checks of these rooms came from pages of these origins until ``at`` (epoch ms)."""
        pairs: list[str | int | bytes] = []
        for room_id, origin, tag in pages:
            said = tag if tag is not None and _TAG(tag) else _UNKNOWN
            pairs += [at, f"{room_id} {origin.decode('latin-1')} {said}"]
        await self._valkey.pipeline([("ZADD", self._key, "GT", *pairs), ("ZREMRANGEBYRANK", self._key, 0, -KEPT - 1)])

    async def of(self, room_id: str) -> list[PageSeen]:
        """What is known of a room's pages, the latest first."""
        found: list[PageSeen] = []
        pairs = await self._valkey.execute("ZRANGE", self._key, 0, -1, "REV", "WITHSCORES")
        for name, at in _pairs(pairs):
            room, origin, tag = name.decode().split(" ")
            if room == room_id:
                found.append(PageSeen(origin, None if tag == _UNKNOWN else tag, int(float(at))))
        return found


def _pairs(reply: list[object]) -> Iterable[tuple[bytes, bytes]]:
    """Member and score, whether the client has paired them or not."""
    if reply and not isinstance(reply[0], bytes):
        return [(pair[0], pair[1]) for pair in reply]  # type: ignore[index]
    return zip(reply[::2], reply[1::2], strict=True)  # type: ignore[arg-type]
