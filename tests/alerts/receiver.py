"""A receiver of notices on loopback: keeps what it is sent, answers what the test wants."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from app.core.secret import Secret
from tests.journal.house import until


@dataclass
class Receiver:
    """What came, and how the next POST is answered. ``status`` None: it says nothing."""

    port: int = 0
    status: int | None = 200
    more: bytes = b"Content-Length: 0\r\n\r\n"
    """What follows the status line."""
    heads: list[dict[str, str]] = field(default_factory=list)
    """Of each request: header by lower-case name; the request line under ``""``."""
    bodies: list[bytes] = field(default_factory=list)
    taken: list[bytes] = field(default_factory=list)
    """Bodies of those that were answered with a success."""

    @property
    def url(self) -> Secret:
        return Secret(f"http://127.0.0.1:{self.port}/hooks/T0?team=shop")

    @property
    def notices(self) -> list[dict[str, Any]]:
        """The notices that were taken."""
        return [json.loads(body) for body in self.taken]

    async def came(self, count: int) -> list[dict[str, Any]]:
        """The notices taken so far, once there are ``count``."""

        async def is_there() -> bool:
            return len(self.taken) >= count

        await until(is_there)
        assert len(self.taken) == count, self.notices
        return self.notices

    async def asked(self, count: int) -> None:
        """Return once ``count`` requests came, taken or not."""

        async def is_there() -> bool:
            return len(self.bodies) >= count

        await until(is_there)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            head = {name.lower(): value for name, _, value in (one.partition(": ") for one in lines)}
            body = await reader.readexactly(int(head["content-length"]))
            status = self.status
            self.heads.append({"": line, **head})
            self.bodies.append(body)
            if status in (200, 201, 202, 204):
                self.taken.append(body)
            if status is None:
                await reader.read()
            else:
                writer.write(f"HTTP/1.1 {status} So\r\n".encode() + self.more)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver that listens."""
    made = Receiver()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made
