"""The task of a connection: reads requests in order, hands hot ones to their handler and all others to Sanic.

Replaces the loop, the head and the body reader of Sanic's ``Http``; its response side is used as it is.
"""

from __future__ import annotations

import asyncio
import math
import re
from asyncio import CancelledError
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import quote_from_bytes

from sanic.compat import Header
from sanic.exceptions import RequestCancelled
from sanic.http import Http, Stage

from app.core.clock import mono
from app.core.errors import BadRequest, BodyTooLarge
from app.core.log import REQUEST_ID
from blueprints.edge.crowd import Standing
from blueprints.edge.deadlines import Phase
from blueprints.edge.head import BLOCK_MAX_BYTES, Head, head_end, request_line
from blueprints.edge.inline.task_exchange import AnswerOver
from blueprints.edge.refusal import write_refusal
from blueprints.edge.reply import HotReply, render

if TYPE_CHECKING:
    from app.domain.client_address import Client
    from app.domain.inline.hosts import InlineHost
    from blueprints.edge.hot import HotHandler
    from blueprints.edge.protocol import EdgeProtocol
    from blueprints.edge.reading import Reading
    from blueprints.edge.request import HotRequest

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
_CHUNK_LINE_MAX_BYTES: Final = 256
_TRAILER: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")
DRAIN_MAX_BYTES: Final = 64 * 1024
"""Most of an unwanted body that is read so that the connection can go on."""


class EdgeHttp(Http):
    """The requests of one connection."""

    __slots__ = ("head", "inline", "is_page", "is_refused", "owes_continue", "reading")

    protocol: EdgeProtocol
    head: Head | None
    reading: Reading
    """What the header lines of ``head`` say; other requests share it."""
    request_body: Any
    """True, ``"chunked"``, or None once all of it was read."""
    is_refused: bool
    """The last request was answered without being read to its end."""
    inline: InlineHost | None
    """The inline host that the request names."""
    is_page: bool | None
    """Whether a refusal is shown as a page; None = by the rule of QM's own hosts."""
    owes_continue: bool
    """The client waits to be asked for its body. Sanic's own flag stays off: it would ask after the answer as well."""
    request_bytes: Any
    request_bytes_left: Any

    async def http1(self) -> None:
        """Serve requests until the connection ends."""
        protocol = self.protocol
        while self.keep_alive and self.stage is Stage.IDLE and (self.recv_buffer or not protocol.is_half_closed):
            self.init_for_request()  # type: ignore[no-untyped-call]
            self.head = self.inline = self.is_page = None
            self.owes_continue = self.is_refused = False
            try:
                if not self.recv_buffer:
                    await protocol.park()
                self.stage = Stage.REQUEST
                self.response_func = self.http1_response_header
                self.head = await self._read_head()
                await self._serve(self.head)
                await self._drop_body()
            except CancelledError:
                # Lost connections and timeouts both cancel the task; only the latter leave a word for the client.
                if self.exception is None or protocol.conn_info.lost:
                    return
                self._refuse(self.exception)
            except RequestCancelled:
                return
            except Exception as error:
                self._refuse(error)
            finally:
                self._let_go()
        if self.stage is Stage.RESPONSE:
            # A handler broke off in the middle of its answer, which Sanic has logged.
            protocol.cut()
        elif self.stage is Stage.IDLE:
            protocol.end_after_answer(is_input_left=self.is_refused or bool(self.request_body or self.recv_buffer))

    async def head_response_ignored(self, data: bytes, end_stream: bool) -> None:  # type: ignore[override]
        """Sanic's own is no coroutine, while whoever answers HEAD in pieces awaits each of them."""
        super().head_response_ignored(data, end_stream)

    async def _read_head(self) -> Head:
        buffer = self.recv_buffer
        protocol = self.protocol
        is_timed = False
        while True:
            while buffer[:2] == b"\r\n":  # some clients send a line end too many after a body
                del buffer[:2]
            end = head_end(buffer)
            if end >= 0:
                break
            if not is_timed:
                is_timed = True
                protocol.expect_head()
            await self._receive_more()
        block = bytes(buffer[:end])
        first, _, rest = block.partition(b"\r\n")
        line = request_line(first)
        self.reading = protocol.read_fields(rest, line[2])
        head = Head(block, line, self.reading.fields)
        del buffer[: end + 4]
        protocol.expect_handler()
        return head

    async def _serve(self, head: Head) -> None:
        protocol = self.protocol
        edge = protocol.edge
        self.keep_alive = head.keep_alive and not protocol.is_stopping
        self.head_only = head.method == "HEAD"
        client = self.reading.client
        if edge.index is not None and (host := edge.index.find(head.headers.get(b"host"))) is not None:
            assert edge.front is not None
            self.inline = host
            await edge.front.serve(self, head, client, host)
            return
        if client.note:
            edge.gate.let_in(client, head)
        if protocol.standing is Standing.SURPLUS:
            self.keep_alive = False
            await edge.gate.let_into_reserve(client, head)
        await self.serve_own(head, client)

    async def serve_own(self, head: Head, client: Client) -> None:
        """Serve a request with QM's own routes."""
        protocol = self.protocol
        self._open_body(head)
        handler = protocol.edge.hot.find(head.method, head.path)
        if handler is not None:
            await self._serve_hot(head, handler)
        else:
            edge = protocol.edge
            edge.gate.let_to_route(client, head, self.inline, is_any_inline=edge.index is not None)
            await self._serve_stock(head, client)

    def open_upload(self, head: Head) -> None:
        """Make the body ready to be read on and on: of what is forwarded there is no limit (INL-131)."""
        self.request_max_size = math.inf
        self._open_body(head)

    async def answer(self, reply: HotReply) -> None:
        """Send an answer of the edge's own; of a body that is too long to be read the connection ends (INL-087)."""
        protocol, head = self.protocol, self.head
        assert head is not None
        self.is_refused = head.expects or head.chunked or head.length > DRAIN_MAX_BYTES
        self.keep_alive = self.keep_alive and not self.is_refused and not protocol.is_stopping
        if not self.is_refused:
            self._open_body(head)
        await self._send_reply(reply)
        self.stage = Stage.IDLE

    async def answer_late(self, reply: HotReply) -> None:
        """``answer`` for a request whose body was opened, and perhaps read in part."""
        protocol = self.protocol
        self.is_refused = self.request_body is not None
        self.keep_alive = self.keep_alive and not self.is_refused and not protocol.is_stopping
        self.stage = Stage.IDLE
        await self._send_reply(reply)

    async def _send_reply(self, reply: HotReply) -> None:
        request_id = self.protocol.edge.ids.next()
        is_bare = bool(self.head_only)
        answer = render(reply, request_id=request_id, keep_alive=self.keep_alive, head_only=is_bare, budget=None)
        await self.protocol.send(answer)

    async def _serve_hot(self, head: Head, handler: HotHandler) -> None:
        protocol = self.protocol
        body = b"".join([part async for part in self])
        request = protocol.hot_request(head, self.reading, body, self.inline)
        self.stage = Stage.HANDLER
        running = protocol.loop.create_task(self._answer_hot(request, handler))
        protocol.edge.running.add(running)
        running.add_done_callback(protocol.edge.running.discard)
        await asyncio.wait((running,))  # not awaited itself: when the client goes the handler ends what it began
        answer, self.keep_alive = running.result()
        await protocol.send(answer)
        self.stage = Stage.IDLE

    async def _answer_hot(self, request: HotRequest, handler: HotHandler) -> tuple[bytes, bool]:
        reply, failure = None, None
        try:
            reply = await handler(request)
        except (Exception, CancelledError) as error:
            failure = error
        return self.protocol.hot_answer(request, reply, failure, self.keep_alive)

    async def _serve_stock(self, head: Head, client: Client) -> None:
        protocol = self.protocol
        request = self._stock_request(head)
        self.request, request.stream = request, self
        request.conn_info = protocol.conn_info
        request.ctx.client = client
        request.ctx.inline = self.inline
        request.ctx.request_id = protocol.edge.ids.next()
        request.ctx.budget = None
        request.ctx.began = mono()
        REQUEST_ID.set(request.ctx.request_id)
        protocol.request_class._current.set(request)
        self.stage = Stage.HANDLER
        await protocol.request_handler(request)
        if self.stage is Stage.HANDLER:
            raise RuntimeError(f"no response from the handler of {request.path}")

    def _stock_request(self, head: Head) -> Any:
        target = head.target
        if not target.isascii():
            target = quote_from_bytes(target, safe=bytes(range(0x21, 0x7F))).encode("ascii")
        # Latin-1 maps each byte to one character and back: no value can raise when it is written again.
        pairs = [(name.decode("ascii"), value.decode("latin-1")) for name, value in head.pairs()]
        return self.protocol.request_class(
            url_bytes=target,
            headers=Header(pairs),
            head=head.block,
            version=f"1.{head.minor}",
            method=head.method,
            transport=self.protocol.transport,
            app=self.protocol.app,
        )

    # The body

    def _open_body(self, head: Head) -> None:
        self.request_bytes_left = self.request_bytes = 0
        if head.length > self.request_max_size:
            raise BodyTooLarge
        if head.expects:
            # Until the body was asked for nobody knows whether it will come: an answer before that ends all.
            self.owes_continue = True
            self.keep_alive = False
        if head.chunked:
            self.request_body = "chunked"
        elif head.length:
            self.request_body = True
            self.request_bytes_left = self.request_bytes = head.length

    async def read(self) -> bytes | None:
        """The next part of the body, None at its end. Raises BadRequest or BodyTooLarge."""
        if self.owes_continue:
            self.owes_continue = False
            is_alone = self.protocol.is_stopping or self.protocol.standing is Standing.SURPLUS
            self.keep_alive = self.head is not None and self.head.keep_alive and not is_alone
            await self._send(_CONTINUE)
        if self.request_body == "chunked" and not self.request_bytes_left and not await self._next_chunk():
            return None
        if not self.request_bytes_left:
            self.request_body = None
            return None
        if not self.recv_buffer:
            await self._more_body()
        data = bytes(self.recv_buffer[: self.request_bytes_left])
        del self.recv_buffer[: len(data)]
        self.request_bytes_left -= len(data)
        if not self.request_bytes_left:
            await self._end_of_part()
        return data

    async def _next_chunk(self) -> bool:
        """Read the line before a chunk; False when it was the last one."""
        buffer = self.recv_buffer
        while (end := buffer.find(b"\r\n")) < 0 and len(buffer) <= _CHUNK_LINE_MAX_BYTES:
            if b"\n" in buffer:
                self._bad_body()
            await self._more_body()
        match = _CHUNK_LINE.fullmatch(bytes(buffer[:end])) if 0 <= end <= _CHUNK_LINE_MAX_BYTES else None
        if match is None:
            self._bad_body()
        size = int(match[1], 16)
        del buffer[: end + 2]
        if size:
            self.request_bytes_left = size
            self.request_bytes += size
            if self.request_bytes > self.request_max_size:
                self.keep_alive = False
                raise BodyTooLarge
            return True
        if self.protocol.exchange is None:
            await self._take_line_end()  # no trailers: nobody reads them, and they could be taken for a request
        else:
            await self._take_trailers()
        self._body_is_in()
        return False

    async def _take_trailers(self) -> None:
        """Read trailers up to the empty line and leave them out: the body is framed anew (INL-127, INL-129)."""
        buffer, read = self.recv_buffer, 0
        while True:
            while (end := buffer.find(b"\r\n")) < 0:
                if b"\n" in buffer or len(buffer) + read > BLOCK_MAX_BYTES:
                    self._bad_body()
                await self._more_body()
            line = bytes(buffer[:end])
            del buffer[: end + 2]
            read += end
            if not line:
                return
            if read > BLOCK_MAX_BYTES or _TRAILER.fullmatch(line) is None:
                self._bad_body()

    async def _end_of_part(self) -> None:
        if self.request_body == "chunked":
            await self._take_line_end()
        else:
            self._body_is_in()

    async def _take_line_end(self) -> None:
        while len(self.recv_buffer) < 2:
            await self._more_body()
        if self.recv_buffer[:2] != b"\r\n":
            self._bad_body()
        del self.recv_buffer[:2]

    async def _more_body(self) -> None:
        exchange = self.protocol.exchange
        if exchange is None:
            self.protocol.expect_body()
        else:
            self.protocol.expect_upload()
        await self._receive_more()
        if exchange is not None and exchange.is_over:
            raise AnswerOver

    def _body_is_in(self) -> None:
        self.request_body = None
        if self.protocol.exchange is None:
            self.protocol.expect_handler()
        else:
            self.protocol.expect(Phase.FORWARD, 0)

    def _bad_body(self) -> NoReturn:
        self.keep_alive = False
        raise BadRequest("The chunks of this body cannot be read.")

    async def _drop_body(self) -> None:
        """Read what the handler left of the body; the next request comes behind it."""
        if self.keep_alive and self.stage is Stage.IDLE:
            async for _ in self:
                pass

    # Ends

    def _refuse(self, error: BaseException) -> None:
        """Answer ``error`` past Sanic, unless an answer has begun; the connection ends with it."""
        self.keep_alive = False
        self.is_refused = True
        if self.stage not in (Stage.REQUEST, Stage.HANDLER):
            return
        request_id = self.request.ctx.request_id if self.request is not None else self.protocol.edge.ids.next()
        self.stage = Stage.IDLE
        write_refusal(self.protocol, self.head, error, request_id=request_id, is_page=self.is_page)

    def _let_go(self) -> None:
        if self.request is not None:
            self.request.stream = None
            if self.response is not None:
                self.response.stream = None
