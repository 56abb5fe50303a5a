"""A drainer in a process of its own, to be killed: ``python -m tests.journal.drainer_process URL DSN PREFIX``."""

from __future__ import annotations

import asyncio
import sys

from tests.journal.house import House


async def main(valkey_url: str, database_url: str, prefix: str) -> None:
    """Drain until killed."""
    async with House(valkey_url, database_url, prefix) as house:
        await house.start_drainer()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
