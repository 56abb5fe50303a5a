"""Server-Sent Events over a stock Sanic response: frames written straight to the socket.

Belongs here: framing of a stream whose head Sanic has sent. Not here: what the frames say. A task and a lock per frame
would double its cost, so writers hand bytes to the transport and look at its buffer instead of waiting (VIS-174).
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final, Protocol

from sanic import Request
from sanic.response import ResponseStream

CONTENT_TYPE: Final = "text/event-stream; charset=utf-8"
HEADERS: Final = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
"""``X-Accel-Buffering`` keeps nginx from holding frames back."""
MAX_UNSENT_BYTES: Final = 64 * 1024
UNANSWERED_MS: Final = 15_000
"""How long bytes may stay unacknowledged: with a heartbeat every 12 s a dead peer is noticed within 30 s (VIS-167)."""


class _Connection(Protocol):
    """The part of the edge's protocol that a stream touches."""

    transport: Any

    def handler_lives(self) -> None:
        """A handler that shows no life is ended after a while."""

    def cut(self) -> None:
        """Break the connection off."""


class ChunkSink:
    """The body of one streamed response, as HTTP/1.1 chunks."""

    __slots__ = ("_connection", "_ended", "_transport")

    def __init__(self, request: Request) -> None:
        """``request`` whose response head, with ``Transfer-Encoding: chunked``, was sent."""
        connection: _Connection = request.stream.protocol  # type: ignore[union-attr, assignment]
        self._connection = connection
        self._transport = connection.transport
        _give_up_dead_peers(self._transport)
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def write(self, frame: bytes) -> None:
        """Hand one frame to the socket; dropped when the reader has gone."""
        if not self.is_closed():
            self._transport.write(b"%x\r\n%b\r\n" % (len(frame), frame))
            self._connection.handler_lives()

    def unsent(self) -> int:
        """Bytes that the socket has not taken yet."""
        return 0 if self._transport.is_closing() else int(self._transport.get_write_buffer_size())

    def is_closed(self) -> bool:
        """The stream was ended, or the reader has gone."""
        return self._ended.done() or bool(self._transport.is_closing())

    def close(self) -> None:
        """Let ``finish`` end the response. May be called more than once."""
        if not self._ended.done():
            self._ended.set_result(None)

    async def finish(self, response: ResponseStream) -> None:
        """Wait for ``close`` and end the response. A reader that is far behind is cut off, not waited for."""
        await self._ended
        if self.unsent() > MAX_UNSENT_BYTES:
            self._connection.cut()
        else:
            await response.eof()


def _give_up_dead_peers(transport: Any) -> None:
    """Let the kernel end a connection whose peer answers nothing any more; without it that takes a quarter hour.

    A connection without TCP (a unix socket, a platform that lacks the option) is left as it is.
    """
    peer = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if peer is not None and option is not None:
        with suppress(OSError):
            peer.setsockopt(socket.IPPROTO_TCP, option, UNANSWERED_MS)
