"""One forwarded request: the origin's answer on its way to the visitor (04, sections 10 to 13).

The answer is written straight from the origin's callbacks, so nothing is held back and nobody is woken in between.
Back-pressure: whoever is slow stops the reading of the other side.
Belongs here: the answer's bytes, their order, their end, the connection to the origin. Not here: how the request is
sent (task_exchange.py, fast_exchange.py), who may be forwarded (front.py), answers in the origin's place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.domain.inline.answers import AnswerHead, AnswerReader, Framing
from app.domain.inline.failures import Failure, OriginFailed
from app.domain.inline.forwarding import NOTHING_ADDED, Added, Hop, answer_head
from app.services.inline_gate import Forward
from app.services.lasting import Lasting, Place
from app.services.origin_choice import OriginChoice, OriginLink
from blueprints.edge.inline.sweeper import Sweeper

if TYPE_CHECKING:
    from blueprints.edge.protocol import EdgeProtocol

REPEATABLE: Final = frozenset({"GET", "HEAD"})


class Forwarder:
    """What all exchanges of a process share."""

    __slots__ = ("choice", "hop", "lasting", "sweeper", "timeout")

    def __init__(self, choice: OriginChoice, hop: Hop, *, lasting: Lasting, timeout_sec: float) -> None:
        """``timeout_sec``: PROXY_TIMEOUT_MS."""
        self.choice = choice
        self.hop = hop
        self.lasting = lasting
        self.timeout = timeout_sec
        self.sweeper = Sweeper()


class Exchange:
    """The part of a forwarded request that does not depend on how it is sent."""

    __slots__ = (
        "_decision", "_forwarder", "_is_reusable", "_is_sent", "_lasting", "_link", "_out", "_protocol", "_reader",
        "deadline", "error", "is_kept", "is_over", "loop",
    )  # fmt: skip

    is_tunnel = False
    """Whether the two connections are joined."""
    is_old = False
    """Whether the visitor speaks HTTP/1.0 and reads no chunks."""

    def __init__(
        self, forwarder: Forwarder, protocol: EdgeProtocol, *, decision: Forward | None, is_kept: bool
    ) -> None:
        """``decision``: None = it comes later; ``is_kept``: the visitor's connection may go on after the answer."""
        self._forwarder = forwarder
        self._protocol = protocol
        self.loop = protocol.loop
        self._decision = decision
        self.is_kept = is_kept
        self._link: OriginLink | None = None
        self._reader: AnswerReader | None = None
        self._out: list[bytes | memoryview] = []
        self._is_sent = False
        self._is_reusable = False
        self._lasting = 0
        """By which number it is known to those that last; 0 = it is none of them."""
        self.is_over = False
        """The answer is complete, or will not come."""
        self.error: OriginFailed | None = None
        """Why it will not come, or breaks off."""
        self.deadline = 0.0
        """Loop's clock; 0 = nothing is waited for."""

    @property
    def status(self) -> int:
        """Status of the app's answer, 0 before its head has come."""
        head = None if self._reader is None else self._reader.head
        return 0 if head is None else head.status

    @property
    def has_begun(self) -> bool:
        """Whether anything of the app's answer was passed on."""
        return self._reader is not None and self._reader.head is not None

    def _begin(self, link: OriginLink, reader: AnswerReader, request: bytes) -> None:
        """Send ``request`` over ``link``; ``reader`` takes the answer."""
        self._link, link.owner = link, self
        self._reader = reader
        self.is_over, self.error = False, None
        self._forwarder.sweeper.watch(self)
        link.transport.write(request)

    def _wait_for_origin(self) -> None:
        if not self.is_tunnel and not self._is_unending():
            self.deadline = self.loop.time() + self._forwarder.timeout

    def _is_unending(self) -> bool:
        head = None if self._reader is None else self._reader.head
        return head is not None and head.is_event_stream

    def _last(self) -> None:
        """Nobody expects an end from here on: it comes with what the exchange rests on."""
        self.deadline = 0.0
        decision = self._decision
        assert decision is not None
        place = Place(decision.room_id, decision.generation, decision.ticket)
        self._lasting = self._forwarder.lasting.add(place, self.hang_up)

    def _forget_lasting(self) -> None:
        if self._lasting:
            self._forwarder.lasting.forget(self._lasting)
            self._lasting = 0

    def hang_up(self) -> None:
        """End what lasts."""
        raise NotImplementedError

    def _let_go(self) -> None:
        """End with the origin's connection: back to the pool when both directions are complete, else broken off."""
        self._forwarder.sweeper.forget(self)
        self._forget_lasting()
        link, self._link = self._link, None
        self.deadline = 0.0
        if link is None:
            return
        is_clean = self.is_over and self.error is None and self._is_reusable and self._is_sent
        if is_clean and link.owner is self:
            self._forwarder.choice.give_back(link)
        else:
            link.abort()

    def expire(self, now: float) -> None:
        """Called a few times a second: end what the origin has kept waiting for too long."""
        if not self.deadline or now < self.deadline or self.is_over:
            return
        if self._protocol.is_choked:
            self._wait_for_origin()  # it is not asked for more at present
            return
        self._fail(OriginFailed(Failure.RESET if self.has_begun else Failure.TIMEOUT))

    # The origin's side

    def on_data(self, data: bytes) -> None:
        """As of Owner."""
        assert self._reader is not None
        try:
            self._reader.feed(data)
        except OriginFailed as error:
            self._flush()
            self._fail(error)
        else:
            self._flush()
            if self.deadline and self.has_begun and not self.is_over:
                self._wait_for_origin()  # the time for the head is one in all (INL-158)

    def on_eof(self) -> bool:
        """As of Owner."""
        self._close_reader()
        return False

    def on_lost(self, *, is_reset: bool) -> None:
        """As of Owner. A connection that was broken off and one that was closed end an answer alike."""
        del is_reset
        if not self.is_over:
            self._close_reader()

    def on_writable(self, is_writable: bool) -> None:
        """As of Owner."""

    def _close_reader(self) -> None:
        assert self._reader is not None
        try:
            self._reader.eof()
        except OriginFailed as error:
            self._fail(error)
        else:
            self._flush()

    # The answer

    def on_head(self, head: AnswerHead) -> None:
        """As of Sink."""
        protocol, is_old = self._protocol, self.is_old
        is_kept = self.is_kept and self._is_sent and not protocol.is_stopping
        if is_old and head.framing in (Framing.CHUNKED, Framing.CLOSE):
            is_kept = False
        connection = b"" if is_kept and not is_old else b"keep-alive" if is_kept else b"close"
        if head.framing is Framing.TUNNEL:
            connection, is_kept = b"Upgrade", False
        self.is_kept = is_kept
        is_chunked = head.framing in (Framing.CHUNKED, Framing.CLOSE) and not is_old
        decision = self._decision
        added = Added(decision.cookies) if decision is not None and decision.cookies else NOTHING_ADDED
        self._out.append(answer_head(head, added, is_chunked=is_chunked, connection=connection))
        if head.is_event_stream or head.framing is Framing.TUNNEL:
            self._last()

    def on_body(self, data: bytes | memoryview) -> None:
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
                if len(out) == 1:
                    transport.write(out[0])
                elif isinstance(out[-1], memoryview):
                    transport.writelines(out)
                else:
                    transport.write(b"".join(out))

    def _fail(self, error: OriginFailed) -> None:
        link = self._link
        if link is not None:
            link.abort()
        self._settle(error)

    def _settle(self, error: OriginFailed | None) -> None:
        """The answer has ended."""
        if self.is_over:
            self._is_reusable = self._is_reusable and error is None
        else:
            self.is_over, self.error = True, error

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

    def client_lost(self) -> None:
        """The visitor's connection is gone; where a task serves it, that is cancelled too."""

    def on_client_data(self, data: bytes) -> None:
        """Bytes of a joined connection."""

    def on_client_eof(self) -> bool:
        """The visitor sends no more. A visitor who waits for an answer is gone then (INL-167): False closes."""
        return False
