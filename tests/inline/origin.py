"""An origin that keeps what it received byte for byte and answers as it is told, however oddly.

Each request is answered by ``script``: a coroutine with the connection (``Talk``); by default a plain 200.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Talk:
    """One request on one connection of the origin."""

    head: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int
    """Of the connection, from 1."""

    @property
    def target(self) -> bytes:
        return self.head.split(b" ", 2)[1]

    @property
    def method(self) -> bytes:
        return self.head.split(b" ", 1)[0]

    def values(self, name: bytes) -> list[bytes]:
        """Values of all lines of this name, whatever their case."""
        pairs = [line.partition(b":")[::2] for line in self.head.split(b"\r\n")[1:] if line]
        return [value.strip() for key, value in pairs if key.lower() == name.lower()]

    def value(self, name: bytes) -> bytes | None:
        found = self.values(name)
        return found[0] if found else None

    async def body(self) -> bytes:
        """The body, its framing taken off."""
        if self.value(b"transfer-encoding"):
            parts = []
            while size := int(await self.reader.readline(), 16):
                parts.append(await self.reader.readexactly(size))
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
            return b"".join(parts)
        return await self.reader.readexactly(int(self.value(b"content-length") or 0))

    async def say(self, *parts: bytes) -> None:
        """Send bytes."""
        for part in parts:
            self.writer.write(part)
        await self.writer.drain()


Script = Callable[[Talk], Awaitable[Any]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def plain(talk: Talk) -> None:
    """Read all, say ok."""
    await talk.body()
    await talk.say(OK[:-2] if talk.method == b"HEAD" else OK)


def saying(*parts: bytes, close: bool = False) -> Script:
    """A script that reads the request and answers these bytes."""

    async def script(talk: Talk) -> None:
        await talk.body()
        await talk.say(*parts)
        if close:
            talk.writer.close()

    return script


@dataclass
class Origin:
    """A server of its own thread and loop, on loopback."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    busy: int = 0
    """Requests that are being answered."""
    script: Script = plain
    tls: Any = None
    _loop: asyncio.AbstractEventLoop | None = None
    _stop: asyncio.Event | None = None
    _thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def reset(self) -> None:
        """Forget what came and answer plainly again."""
        self.heads.clear()
        self.bodies.clear()
        self.script = plain

    def __enter__(self) -> Origin:
        ready = threading.Event()

        def run() -> None:
            asyncio.run(self._serve(ready))

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, ssl=self.tls, limit=1 << 20)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        number = self.connections
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while not writer.is_closing():
                    head = await reader.readuntil(b"\r\n\r\n")
                    if b"QueueManager-Knock" in head:  # the leader asks how the site is
                        self.connections -= 1
                        writer.write(OK[:-2])
                        break
                    self.heads.append(head[:-4])
                    self.busy += 1
                    try:
                        await self.script(Talk(head[:-4], reader, writer, number))
                    finally:
                        self.busy -= 1
        finally:
            self.open -= 1
            writer.close()
