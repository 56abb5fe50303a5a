"""One forwarded request: the visitor's connection on one side, the origin's on the other (04, sections 10 to 13).

The request is sent by the visitor's connection task; the answer is written straight from the origin's callbacks, so
nothing is held back and nobody is woken in between. Back-pressure: whoever is slow stops the reading of the other side.
Belongs here: bytes, their order, their end. Not here: who may be forwarded (front.py), answers in the origin's place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from sanic.http import Stage

from app.domain.inline.answers import AnswerHead, AnswerReader, Framing
from app.domain.inline.failures import Failure, OriginFailed
from app.domain.inline.forwarding import Added, Hop, answer_head, request_fields
from app.domain.inline.hosts import InlineHost
from app.services.origin_choice import OriginChoice, OriginLink
from blueprints.edge.inline.sweeper import Sweeper

if TYPE_CHECKING:
    from app.domain.client_address import Client
    from blueprints.edge.head import Head
    from blueprints.edge.http import EdgeHttp

REPEATABLE: Final = frozenset({"GET", "HEAD"})


class AnswerOver(Exception):
    """The answer has ended before the upload has: nothing more of it is needed (INL-146)."""


class Forwarder:
    """What all exchanges of a process share."""

    __slots__ = ("choice", "hop", "sweeper", "timeout")

    def __init__(self, choice: OriginChoice, hop: Hop, *, timeout_sec: float) -> None:
        """``timeout_sec``: PROXY_TIMEOUT_MS."""
        self.choice = choice
        self.hop = hop
        self.timeout = timeout_sec
        self.sweeper = Sweeper()


class Exchange:
    """Forwards one request; ``run`` it once."""

    __slots__ = (
        "_added", "_can_write", "_done", "_ended_sides", "_forwarder", "_head", "_host", "_http", "_is_reusable",
        "_is_sent", "_link", "_loop", "_on_tunnel", "_out", "_protocol", "_reader", "_request", "_upgrade",
        "deadline", "is_tunnel", "tunnel_number", "was_reset",
    )  # fmt: skip

    def __init__(
        self,
        forwarder: Forwarder,
        http: EdgeHttp,
        head: Head,
        client: Client,
        host: InlineHost,
        *,
        added: Added,
        upgrade: Sequence[bytes],
        on_tunnel: Callable[[Callable[[], None]], int],
    ) -> None:
        """``added``: what the queue adds to the answer; ``upgrade``: protocols that are asked for.

        ``on_tunnel``: is given what ends a joined connection, when one begins, and says by which number it is known.
        """
        self._on_tunnel = on_tunnel
        self.tunnel_number = 0
        self._forwarder = forwarder
        self._http = http
        self._protocol = http.protocol
        self._loop = http.protocol.loop
        self._head = head
        self._host = host
        self._added = added
        self._upgrade = upgrade
        line, _, block = head.block.partition(b"\r\n")
        self._request = b"%b HTTP/1.1\r\n%b" % (line.rpartition(b" ")[0], self._fields(block, client))
        self._link: OriginLink | None = None
        self._reader = AnswerReader(self, head.method)
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._can_write: asyncio.Future[None] | None = None
        self._out: list[bytes] = []
        self._is_sent = False
        self._is_reusable = False
        self._ended_sides = 0
        self.is_tunnel = False
        self.was_reset = False
        """The origin has broken a joined connection off."""
        self.deadline = 0.0
        """Loop's clock; 0 = nothing is waited for."""

    @property
    def status(self) -> int:
        """Status of the app's answer, 0 before its head has come."""
        head = self._reader.head
        return 0 if head is None else head.status

    def _fields(self, block: bytes, client: Client) -> bytes:
        """The header lines for the origin, kept with the visitor's, which come again with every file of a page."""
        reading = self._http.reading
        fields: bytes | None = reading.memo.get(request_fields)
        if fields is None:
            hop = self._forwarder.hop
            fields = request_fields(block, self._head.headers, client, hop, upgrade=self._upgrade)
            reading.conclude(request_fields, fields)
        return fields

    @property
    def was_left(self) -> bool:
        """Whether the exchange was given up before its answer was complete or had failed."""
        return not self.is_tunnel and (not self._done.done() or self._done.cancelled())

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete, or will not come."""
        return self._done.done()

    async def run(self) -> None:
        """Send the request, pass the answer on. Raises OriginFailed; what was passed on by then stands."""
        head, choice = self._head, self._forwarder.choice
        await self._protocol.caught_up()  # an answer is written without waiting: it must begin with room for it
        is_repeatable = head.method in REPEATABLE and not head.length and not head.chunked and not self._upgrade
        link = choice.idle(self._host, is_repeatable=is_repeatable)
        is_reused = link is not None
        while True:
            if link is None:
                link = await choice.fresh(self._host)
            try:
                return await self._talk(link)
            except OriginFailed as error:
                is_stale = is_reused and error.failure is Failure.RESET and not self._reader.has_begun
                if not (is_repeatable and is_stale):
                    raise
            finally:
                self._let_go()
            link, is_reused = None, False

    async def _talk(self, link: OriginLink) -> None:
        self._link, link.owner = link, self
        self._done = self._loop.create_future()
        self._reader = AnswerReader(self, self._head.method, asked=self._upgrade, wants_payload=self._head.minor == 0)
        self._forwarder.sweeper.watch(self)
        link.transport.write(self._request)
        self._is_sent = self._http.request_body is None or await self._upload(link)
        self._wait_for_origin()
        await self._done

    async def _upload(self, link: OriginLink) -> bool:
        """Pass the body on as it comes; the origin's slowness stops the visitor.

        False: the answer ended first. The origin may still take what comes next for the rest of this body.
        """
        http, is_chunked = self._http, self._head.chunked
        try:
            while (part := await http.read()) is not None:
                if self.is_over:
                    return False
                link.transport.write(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
                if link.is_paused:
                    self._wait_for_origin()
                    self._can_write = self._loop.create_future()
                    await self._can_write
                self.deadline = 0.0
        except AnswerOver:
            return False
        if is_chunked and not link.is_lost:
            link.transport.write(b"0\r\n\r\n")
        return True

    def _wait_for_origin(self) -> None:
        if not self.is_tunnel and not self._is_unending():
            self.deadline = self._loop.time() + self._forwarder.timeout

    def _is_unending(self) -> bool:
        head = self._reader.head
        return head is not None and head.is_event_stream

    def _let_go(self) -> None:
        """End with the connection: back to the pool when both directions are complete, else broken off."""
        self._forwarder.sweeper.forget(self)
        link, self._link = self._link, None
        self.deadline = 0.0
        if link is None:
            return
        is_clean = self._done.done() and not self._done.cancelled() and self._done.exception() is None
        if is_clean and self._is_reusable and self._is_sent and link.owner is self:
            self._forwarder.choice.give_back(link)
        elif self.is_tunnel and not self._protocol.was_reset:
            link.owner = None
            link.transport.close()
        else:
            link.abort()

    def expire(self, now: float) -> None:
        """Called a few times a second: end what the origin has kept waiting for too long."""
        if not self.deadline or now < self.deadline or self.is_over:
            return
        if self._protocol.is_choked:
            self._wait_for_origin()  # it is not asked for more at present
            return
        self._fail(OriginFailed(Failure.RESET if self._reader.head is not None else Failure.TIMEOUT))

    # The origin's side

    def on_data(self, data: bytes) -> None:
        """As of Owner."""
        if self.deadline:
            self._wait_for_origin()
        try:
            self._reader.feed(data)
        except OriginFailed as error:
            self._flush()
            self._fail(error)
        else:
            self._flush()

    def on_eof(self) -> bool:
        """As of Owner."""
        if self.is_tunnel:
            return self._end_side(self._protocol.transport)
        self._close_reader()
        return False

    def on_lost(self, *, is_reset: bool) -> None:
        """As of Owner."""
        if self.is_tunnel:
            self.was_reset = is_reset
            self._settle(None)
        elif not self.is_over:
            self._close_reader()

    def on_writable(self, is_writable: bool) -> None:
        """As of Owner."""
        if self.is_tunnel:
            if is_writable:
                self._protocol.transport.resume_reading()
            else:
                self._protocol.transport.pause_reading()
        elif is_writable and self._can_write is not None:
            waiting, self._can_write = self._can_write, None
            if not waiting.done():
                waiting.set_result(None)

    def _close_reader(self) -> None:
        try:
            self._reader.eof()
        except OriginFailed as error:
            self._fail(error)
        else:
            self._flush()

    # The answer

    def on_head(self, head: AnswerHead) -> None:
        """As of Sink."""
        http, protocol = self._http, self._protocol
        is_old = self._head.minor == 0
        is_kept = http.keep_alive and not protocol.is_stopping and self._is_sent
        if is_old and head.framing in (Framing.CHUNKED, Framing.CLOSE):
            is_kept = False
        connection = b"" if is_kept and not is_old else b"keep-alive" if is_kept else b"close"
        if head.framing is Framing.TUNNEL:
            connection, is_kept = b"Upgrade", False
        http.keep_alive = is_kept
        http.stage = Stage.RESPONSE
        is_chunked = head.framing in (Framing.CHUNKED, Framing.CLOSE) and not is_old
        self._out.append(answer_head(head, self._added, is_chunked=is_chunked, connection=connection))
        if head.framing is Framing.TUNNEL:
            self._begin_tunnel()
        elif self._is_unending():
            self.deadline = 0.0

    def on_body(self, data: bytes) -> None:
        """As of Sink."""
        self._out.append(data)

    def on_end(self, *, is_reusable: bool) -> None:
        """As of Sink."""
        self._is_reusable = is_reusable
        self._settle(None)

    def _flush(self) -> None:
        out = self._out
        if out:
            self._out = []
            transport = self._protocol.transport
            if transport is not None and not transport.is_closing():
                transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _fail(self, error: OriginFailed) -> None:
        link = self._link
        if link is not None:
            link.abort()
        self._settle(error)

    def _settle(self, error: OriginFailed | None) -> None:
        """The answer has ended; an upload that still runs is not waited for."""
        if self._done.done():
            self._is_reusable = self._is_reusable and error is None
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)
            self._done.exception()  # whoever waits has it; one who was cancelled leaves no complaint behind
        if self._can_write is not None and not self._can_write.done():
            self._can_write.set_result(None)
        if not self._is_sent:
            self._protocol.wake()

    # The visitor's side

    def client_is_full(self, is_full: bool) -> None:
        """The visitor reads more slowly than the origin sends, or has caught up."""
        link = self._link
        if link is None or link.is_lost:
            return
        if is_full:
            link.transport.pause_reading()
        else:
            link.transport.resume_reading()

    def on_client_data(self, data: bytes) -> None:
        """Bytes of a joined connection."""
        if self._link is not None and not self._link.is_lost:
            self._link.transport.write(data)

    def on_client_eof(self) -> bool:
        """The visitor sends no more. Of a joined connection that is passed on; any other visitor is gone (INL-167)."""
        link = self._link
        if not self.is_tunnel or link is None or link.is_lost:
            return False
        return self._end_side(link.transport)

    def _end_side(self, other: Any) -> bool:
        """One side of a joined connection has ended: the other is told. True: it may still send."""
        self._ended_sides += 1
        if self._ended_sides == 1 and other.can_write_eof() and not other.is_closing():
            other.write_eof()
            return True
        self._settle(None)
        return False

    def hang_up(self) -> None:
        """End a joined connection."""
        self._settle(None)

    def _begin_tunnel(self) -> None:
        """From here on the two sockets are joined (INL-153)."""
        self.tunnel_number = self._on_tunnel(self.hang_up)
        self.is_tunnel = True
        self.deadline = 0.0
        buffer = self._http.recv_buffer
        if buffer:
            self.on_client_data(bytes(buffer))
            buffer.clear()
        self._protocol.transport.resume_reading()
