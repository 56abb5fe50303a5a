"""Writing to a stream whose peer may have gone a moment ago."""

from __future__ import annotations

import asyncio


def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write ``data``. Raises ConnectionResetError when the connection has ended.

    uvloop answers such a write with a RuntimeError, which nobody expects of a network; asyncio's own loop with nothing.
    """
    if writer.transport.is_closing():
        raise ConnectionResetError("the connection has ended")
    writer.write(data)
