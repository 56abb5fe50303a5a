"""A forwarded request that the connection's task sends: uploads, upgrades, old clients, requests in pieces.

Belongs here: the body on its way to the origin, the one repetition, joined connections. Not here: the answer
(exchange.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sanic.http import Stage

from app.domain.inline.answers import AnswerHead, AnswerReader, Framing
from app.domain.inline.failures import Failure, OriginFailed
from app.domain.inline.forwarding import request_fields
from app.domain.inline.hosts import InlineHost
from app.services.inline_gate import Forward
from app.services.origin_choice import OriginLink
from blueprints.edge.inline.exchange import REPEATABLE, Exchange, Forwarder

if TYPE_CHECKING:
    from app.domain.client_address import Client
    from blueprints.edge.head import Head
    from blueprints.edge.http import EdgeHttp


class AnswerOver(Exception):
    """The answer has ended before the upload has: nothing more of it is needed (INL-146)."""


class TaskExchange(Exchange):
    """Forwards one request; ``run`` it once."""

    __slots__ = (
        "_can_write", "_done", "_ended_sides", "_head", "_host", "_http", "_request", "_upgrade",
        "is_old", "is_tunnel", "was_reset",
    )  # fmt: skip

    def __init__(
        self,
        forwarder: Forwarder,
        http: EdgeHttp,
        head: Head,
        client: Client,
        host: InlineHost,
        *,
        decision: Forward,
        upgrade: Sequence[bytes],
    ) -> None:
        """``upgrade``: protocols that are asked for."""
        super().__init__(forwarder, http.protocol, decision=decision, is_kept=bool(http.keep_alive))
        self._http = http
        self._head = head
        self._host = host
        self._upgrade = upgrade
        self.is_old = head.minor == 0
        line, _, block = head.block.partition(b"\r\n")
        self._request = b"%b HTTP/1.1\r\n%b" % (line.rpartition(b" ")[0], self._fields(block, client))
        self._done: asyncio.Future[None] = self.loop.create_future()
        self._can_write: asyncio.Future[None] | None = None
        self._ended_sides = 0
        self.is_tunnel = False
        self.was_reset = False
        """The origin has broken a joined connection off."""

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
        return not self.is_tunnel and not self.is_over

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
                is_stale = is_reused and error.failure is Failure.RESET and not self._has_heard
                if not (is_repeatable and is_stale):
                    raise
            finally:
                self._let_go()
            link, is_reused = None, False

    @property
    def _has_heard(self) -> bool:
        return self._reader is not None and self._reader.has_begun

    async def _talk(self, link: OriginLink) -> None:
        self._done = self.loop.create_future()
        reader = AnswerReader(self, self._head.method, asked=self._upgrade, wants_payload=self.is_old)
        self._begin(link, reader, self._request)
        self._is_sent = self._http.request_body is None or await self._upload(link)
        if not self.is_over:
            self._wait_for_origin()
        await self._done

    async def _upload(self, link: OriginLink) -> bool:
        """Pass the body on as it comes; the origin's slowness stops the visitor.

        False: the answer ended first. The origin may still take what comes next for the rest of this body.
        """
        http, is_chunked = self._http, self._head.chunked
        try:
            while (part := await http.read()) is not None:
                if link.is_tls and link.has_unread():
                    # An answer that was not read is lost over TLS when a write fails: the loop looks first.
                    await asyncio.sleep(0)
                if self.is_over:
                    return False
                link.transport.write(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
                if link.is_paused:
                    self._wait_for_origin()
                    self._can_write = self.loop.create_future()
                    await self._can_write
                self.deadline = 0.0
        except AnswerOver:
            return False
        if is_chunked and not link.is_lost:
            link.transport.write(b"0\r\n\r\n")
        return True

    def _let_go(self) -> None:
        if self.is_tunnel and self._link is not None and not self._protocol.was_reset:
            self._forwarder.sweeper.forget(self)
            self._forget_lasting()
            link, self._link = self._link, None
            link.owner = None
            link.transport.close()
        else:
            super()._let_go()

    # The origin's side

    def on_eof(self) -> bool:
        """As of Owner."""
        if self.is_tunnel:
            return self._end_side(self._protocol.transport)
        return super().on_eof()

    def on_lost(self, *, is_reset: bool) -> None:
        """As of Owner."""
        if self.is_tunnel:
            self.was_reset = is_reset
            self._settle(None)
        else:
            super().on_lost(is_reset=is_reset)

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

    def on_head(self, head: AnswerHead) -> None:
        """As of Sink."""
        self.is_kept = bool(self._http.keep_alive)
        super().on_head(head)
        self._http.keep_alive = self.is_kept
        self._http.stage = Stage.RESPONSE
        if head.framing is Framing.TUNNEL:
            self._begin_tunnel()

    def _settle(self, error: OriginFailed | None) -> None:
        """An upload that still runs is not waited for."""
        was_over = self.is_over
        super()._settle(error)
        if was_over:
            return
        if not self._done.done():
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
        """As of Exchange."""
        self._http.keep_alive = False
        self._settle(None)

    def _begin_tunnel(self) -> None:
        """From here on the two sockets are joined (INL-153)."""
        self.is_tunnel = True
        buffer = self._http.recv_buffer
        if buffer:
            self.on_client_data(bytes(buffer))
            buffer.clear()
        self._protocol.transport.resume_reading()
