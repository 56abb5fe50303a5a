"""How full Valkey is: what it uses of its own limit, or of the memory that there is.

Sources: Valkey manual, INFO, section Memory; kernel documentation, "Control Group v2", memory.max.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Final, Protocol

from redis.exceptions import ResponseError

FILES: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class Commands(Protocol):
    """What is needed of ``valkey.Valkey``."""

    async def everywhere(self, *command: Any) -> list[Any]:
        """Replies of every node that serves; StorageUnavailable when one cannot be reached."""


async def part_in_use(valkey: Commands, container: int | None = None) -> float | None:
    """Part of ``maxmemory`` that Valkey uses; without one, of its container's or machine's memory. None = not told.

    Of a cluster it is the fullest node's.

    ``container``: bytes that the container may use which it runs in, where that is this one. Raises StorageUnavailable.
    """
    try:
        answers = await valkey.everywhere("INFO", "memory")
    except ResponseError:
        return None
    parts = [part for answer in answers if (part := judge(answer, container)) is not None]
    return max(parts, default=None)


def judge(answer: bytes, container: int | None) -> float | None:
    """``part_in_use`` by what INFO said."""
    said = dict(line.split(":", 1) for line in answer.decode().splitlines() if ":" in line)
    used, limit = int(said.get("used_memory", 0)), int(said.get("maxmemory", 0))
    if limit == 0:
        limits = (int(said.get("total_system_memory", 0)), container or 0)
        used, limit = int(said.get("used_memory_rss", 0)), min(filter(None, limits), default=0)
    return used / limit if limit > 0 else None


def container_limit(files: tuple[Path, ...] = FILES) -> int | None:
    """Bytes that this container may use; None without a limit, or where it cannot be known."""
    for path in files:
        with contextlib.suppress(OSError, ValueError):
            limit = int(path.read_text())
            return limit if limit < 1 << 60 else None  # "no limit" of version 1 is a number close to 2⁶³
    return None
