"""The connection of one client: deadlines, the hot fast path, and the hand-over to Sanic's own machinery.

A connection begins without a task. While it brings nothing but hot requests that arrive whole, each is served in the
callback that brought it (``_serve_fast``). Everything else, a request in pieces, several at once, any other route, goes
through ``recv_buffer`` to the connection's task (http.py), which reads hot and stock requests in the order sent. Only
one of the two is at work at a time: ``_parked`` is true while the fast path may take what comes.

Sanic internals used here and in http.py are listed, and asserted, in tests/edge/test_sanic_internals.py.
Source: CFG-233 for the deadlines, design note on the inline proxy for the rest.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sanic.http import Stage
from sanic.models.server_types import ConnInfo

from app.core.errors import QmError
from app.domain.client_address import Note
from app.domain.inline.hosts import InlineHost
from blueprints.edge.crowd import Standing
from blueprints.edge.deadlines import Deadlines, Phase
from blueprints.edge.head import LINE_MAX_BYTES, Head
from blueprints.edge.hot import HotRoute
from blueprints.edge.hot_answer import answer_bytes
from blueprints.edge.http import DRAIN_MAX_BYTES, EdgeHttp
from blueprints.edge.inline.exchange import Exchange
from blueprints.edge.inline.fast_exchange import FastExchange
from blueprints.edge.reading import Reading
from blueprints.edge.recurring import REPEAT_MAX_BYTES, Repeat
from blueprints.edge.reply import HotReply
from blueprints.edge.request import HotRequest
from blueprints.edge.run import HotRun, QuickRun
from blueprints.edge.state import EdgeState

FAST_HEAD_MAX_BYTES: Final = 8192
# Asking an enum for a member costs as much as a call.
_HANDLER, _IDLE = Phase.HANDLER, Phase.IDLE


class EdgeProtocol(Deadlines):
    """One client connection."""

    HTTP_CLASS = EdgeHttp

    BUFFER_MAX_BYTES: ClassVar[int] = 65536

    __slots__ = (
        "_is_declared",
        "_is_half_closed",
        "_is_task_parked",
        "_peer",
        "_tls",
        "_unwanted",
        "edge",
        "exchange",
        "peer_key",
        "was_reset",
    )

    def __init__(self, **kw: Any) -> None:
        """Made by Sanic's server for each connection."""
        super().__init__(**kw)
        self.edge: EdgeState = self.app.ctx.edge
        self._is_task_parked = False
        self._is_half_closed = False
        self._is_declared = False
        self._tls = False
        self._peer = ""
        self.peer_key = b""
        self.exchange: Exchange | None = None
        """The request of this connection that is being forwarded."""
        self.was_reset = False
        self._unwanted = 0

    # asyncio.Protocol

    def connection_made(self, transport: Any) -> None:
        """A client connected; no task yet."""
        transport.set_write_buffer_limits(low=16384, high=65536)
        self.connections.add(self)
        self.transport = transport
        self.recv_buffer = bytearray()
        self.conn_info = ConnInfo(transport, unix=self._unix)
        self._peer = self.conn_info.client_ip
        self._tls = self.conn_info.ssl
        edge = self.edge
        self._is_declared = edge.resolver.is_declared(self._peer)
        self.peer_key = edge.resolver.peer_key(self._peer)
        if edge.crowd is not None:
            edge.crowd.admit(self, self.loop.time())
            if self.standing is not Standing.INSIDE:
                self._begin_outside()
                return
        self._parked = True
        self.expect(Phase.FIRST, self.FIRST_BYTE_SEC)

    def _begin_outside(self) -> None:
        """Above the cap: the connection's task answers one request, or nothing is answered at all."""
        if self.standing is Standing.SURPLUS:
            self.expect(Phase.FIRST, self.RESERVE_SEC)
        else:
            self._phase = Phase.CLOSED
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Serve a whole hot request at once, or leave the bytes to the connection's task."""
        if self._parked and self._serve_fast(data):
            return
        if self._phase >= Phase.LINGER:
            self._unwanted += len(data)
            if self._unwanted > DRAIN_MAX_BYTES and self._phase is Phase.LINGER:
                self.transport.pause_reading()
            return
        if self.exchange is not None and self.exchange.is_tunnel:
            self.exchange.on_client_data(data)
            return
        self._parked = False
        self.recv_buffer += data
        if len(self.recv_buffer) >= self.BUFFER_MAX_BYTES:
            self.transport.pause_reading()
        if self._run is None:
            self._wake_task()

    def eof_received(self) -> bool:
        """The client sends no more: a request whose answer has not begun is still answered, anything else ends."""
        self._is_half_closed = True
        if self.exchange is not None:
            return self.exchange.on_client_eof()
        return self._run is not None or (self._http is not None and self._http.stage is Stage.HANDLER)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is gone. A hot handler goes on to its end; its answer is dropped."""
        self.was_reset = exc is not None
        self._phase = Phase.CLOSED
        self._parked = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.connections.discard(self)
        if self.edge.crowd is not None:
            self.edge.crowd.gone(self)
        self.conn_info.lost = True
        self._can_write.set()
        if self._task is not None:
            self._task.cancel()
        if self.exchange is not None:
            self.exchange.client_lost()

    def pause_writing(self) -> None:
        """The client reads more slowly than answers are written."""
        self._is_choked = True
        self._parked = False
        self._unsent = -1
        self._arm(self.SEND_SEC / 4)
        self._can_write.clear()
        if self.exchange is not None:
            self.exchange.client_is_full(True)

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_choked = False
        self._repark()
        self._can_write.set()
        if self.exchange is not None:
            self.exchange.client_is_full(False)

    @property
    def is_choked(self) -> bool:
        """Whether the client takes in less than was written."""
        return self._is_choked

    async def caught_up(self) -> None:
        """Wait until the client has taken in what was written."""
        await self._can_write.wait()

    def wake(self) -> None:
        """Let the task look again, though no byte has come."""
        self._data_received.set()

    # The fast path

    def _serve_fast(self, data: bytes) -> bool:
        """Begin to serve ``data`` if it is one whole request that needs no task; False leaves everything untouched."""
        edge, reading = self.edge, None
        repeat = edge.repeats.get(data)
        if repeat is not None and repeat.peer == self._peer and repeat.index is edge.index and repeat.tls is self._tls:
            self._run_hot(repeat.route, repeat.reading, repeat.body, repeat)
            return True
        line_end = data.find(b"\r\n", 0, LINE_MAX_BYTES)
        if line_end < 0:
            return False
        try:
            if edge.index is not None:
                end = data.find(b"\r\n\r\n", line_end, FAST_HEAD_MAX_BYTES)
                if end < 0:
                    return False
                block = data[line_end + 2 : end]
                reading = self.read_fields(block, 1)
                fast = edge.front.fast  # type: ignore[union-attr]  # it is there before any index is
                facts = fast.facts_of(edge.index, reading, block)
                if facts.host is not None:
                    return fast.serve(self, facts, reading, data, (line_end, end))
            route = edge.hot.route(data[:line_end])
            if route is None:
                return False
            end = data.find(b"\r\n\r\n", line_end, FAST_HEAD_MAX_BYTES)
            if end < 0:
                return False
            if reading is None or not route.minor:
                reading = self.read_fields(data[line_end + 2 : end], route.minor)
        except QmError:
            return False  # the task reads it again, and refuses it
        return self._serve_hot(route, reading, data, end)

    def _serve_hot(self, route: HotRoute, reading: Reading, data: bytes, end: int) -> bool:
        """``_serve_fast`` of a hot route; ``end``: of the head."""
        edge = self.edge
        note = reading.client.note
        if note and note & Note.NOT_BY_EDGE:  # most have none, and an enum's operator is a call
            return False  # the task refuses it
        fields = reading.fields
        length = fields.length
        if len(data) != end + 4 + length or length > self.request_max_size or fields.chunked or fields.expects:
            return False
        if note and edge.gate.watch is not None:
            edge.gate.watch.saw(reading.client)
        body, repeat = data[end + 4 :], None
        if route.recurs and not note and len(data) <= REPEAT_MAX_BYTES:
            made = Repeat(route, reading, body, self._peer, self._tls, edge.index)
            repeat = made if edge.repeats.keep(data, made) else None
        self._run_hot(route, reading, body, repeat)
        return True

    def _run_hot(self, route: HotRoute, reading: Reading, body: bytes, repeat: Repeat | None) -> None:
        handler, method, path, query, _, begin, _ = route
        self._parked = False
        self._phase = _HANDLER
        self._deadline = 0.0
        request = HotRequest(method, path, query, reading, body, self.edge.ids.next())
        request.repeat = repeat
        self._run = run = QuickRun(self.loop, handler, request, reading.fields.keep_alive, self._finish)
        try:
            if begin is None or not begin(request, run):
                run.again()
        except Exception as error:
            run.told(None, error)

    def _finish(self, run: HotRun | QuickRun, reply: HotReply | None, error: BaseException | None) -> None:
        self._run = None
        answer, is_kept = self.hot_answer(run.request, reply, error, run.is_kept and not self._is_half_closed)
        if self._phase is not _HANDLER or self.transport.is_closing():
            return
        self.transport.write(answer)
        self._go_on(is_kept)

    def fast_begins(self, exchange: FastExchange) -> None:
        """A request is forwarded, or will be, without the task."""
        self._parked = False
        self._phase = Phase.FORWARD
        self._deadline = 0.0
        self._run = self.exchange = exchange

    def fast_ended(self, *, is_kept: bool) -> None:
        """Its answer is written, or will not come."""
        self._run = self.exchange = None
        if self._phase is Phase.FORWARD and not self.transport.is_closing():
            self._go_on(is_kept)

    def write_out(self, answer: bytes) -> None:
        """Write unless the connection is gone."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(answer)

    def _go_on(self, is_kept: bool) -> None:
        """After an answer of the fast path: the next request, or the end."""
        if not is_kept:
            self.end_after_answer(is_input_left=bool(self.recv_buffer))
            return
        self._phase = _IDLE
        self._deadline = self.loop.time() + self.IDLE_SEC
        self._parked = not self._is_choked
        if self.recv_buffer:
            data = bytes(self.recv_buffer)
            self.recv_buffer.clear()
            self.transport.resume_reading()
            self.data_received(data)

    def hot_request(self, head: Head, reading: Reading, body: bytes, inline: InlineHost | None) -> HotRequest:
        """A request of a hot route that came through the connection's task, below /__qm of ``inline`` or as it is."""
        request = HotRequest(head.method, head.path.decode("latin-1"), head.query, reading, body, self.edge.ids.next())
        request.inline = inline
        return request

    def hot_answer(
        self, request: HotRequest, reply: HotReply | None, error: BaseException | None, is_kept: bool
    ) -> tuple[bytes, bool]:
        """Bytes of the answer to a hot request, and whether the connection goes on after it."""
        is_kept = is_kept and not (self.edge.is_stopping(self.loop.time()) or self.signal.stopped)
        return answer_bytes(self.edge, request, reply, error, is_kept), is_kept

    def read_fields(self, block: bytes, minor: int) -> Reading:
        """Reading of the header lines of a request that came through the connection's task."""
        return self.edge.readings.read(block, minor, self._peer, declared=self._is_declared, tls=self._tls)

    @property
    def is_half_closed(self) -> bool:
        """Whether the client has closed its sending side."""
        return self._is_half_closed

    @property
    def is_stopping(self) -> bool:
        """Whether this process is ending, so that no answer may promise to keep the connection."""
        return self.edge.is_stopping(self.loop.time()) or bool(self.signal.stopped)

    # Between the fast path and the task

    def _wake_task(self) -> None:
        if self._task is None:
            self._task = self.loop.create_task(self.connection_task())  # type: ignore[no-untyped-call]
        else:
            self._data_received.set()

    async def park(self) -> None:
        """Wait in the task for the next request while the fast path may serve; returns with bytes in the buffer."""
        if self._phase is not Phase.FIRST:
            self.expect(Phase.IDLE, self.IDLE_SEC)
        self._is_task_parked = True
        self._repark()
        while not self.recv_buffer:
            await self.receive_more()  # type: ignore[no-untyped-call]
        self._is_task_parked = False

    def _repark(self) -> None:
        is_free = self._run is None and not self.recv_buffer and not self._is_choked
        is_free = is_free and self.standing is not Standing.SURPLUS
        self._parked = is_free and self._phase < Phase.HEAD and (self._task is None or self._is_task_parked)

    # Ends

    def end_after_answer(self, *, is_input_left: bool) -> None:
        """Close once the answer is out.

        ``is_input_left``: the client may still be sending. Then what it sends is read and dropped for a while, since
        a close now would be a reset, and that can take the answer away before it was read.
        """
        if self._phase >= Phase.LINGER:
            return
        if self._is_half_closed or not is_input_left:
            self.close()
            return
        self.recv_buffer.clear()
        self._parked = False
        self.transport.resume_reading()
        self.transport.write_eof()
        self.expect(Phase.LINGER, self.LINGER_SEC)

    def end_tunnel(self, *, is_reset: bool) -> None:
        """End a joined connection as its other side has ended."""
        if is_reset:
            self.cut()
        else:
            self.close()

    def close(self, timeout: float | None = None) -> None:
        """Close gracefully; a lingering connection closes by itself."""
        if self._phase is Phase.LINGER:
            return
        self._phase = Phase.CLOSED
        self._parked = False
        super().close(timeout=timeout)

    def give_way(self) -> None:
        """Close for somebody else; nothing of a request is in progress (``quiet_since``)."""
        is_in_head = self._phase is Phase.HEAD
        self._phase = Phase.CLOSED
        self._parked = False
        if is_in_head:
            self.transport.abort()
        else:
            super().close()

    def close_if_idle(self) -> bool:
        """Close if no request is in progress; called by Sanic when the server stops."""
        if self._phase in (Phase.FIRST, Phase.IDLE) and self._run is None:
            self.close()
            return True
        return False
