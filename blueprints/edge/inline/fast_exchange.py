"""A request that arrived whole, forwarded without a task: begun and ended in callbacks.

A task is made only when a connection to the origin has to be opened. What such a request may be is decided in fast.py.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.domain.inline.answers import AnswerHead, AnswerReader
from app.domain.inline.failures import Failure, OriginFailed
from app.services.inline_counts import Passed
from app.services.inline_gate import Again, Decision, Forward
from app.services.origin_choice import OriginLink
from blueprints.edge.head import Head
from blueprints.edge.inline.asked import AskedFields, AskedLine
from blueprints.edge.inline.exchange import REPEATABLE, Exchange
from blueprints.edge.reading import Reading
from blueprints.edge.refusal import write_refusal
from blueprints.edge.reply import HotReply, render

if TYPE_CHECKING:
    from blueprints.edge.inline.fast import FastFront
    from blueprints.edge.protocol import EdgeProtocol


class FastExchange(Exchange):
    """One request: to be given a way by ``forward`` or ``decided``, once."""

    __slots__ = (
        "_connecting", "_data", "_front", "_is_gone", "_is_reused",
        "asked", "facts", "is_bypassed", "reading", "shows_page",
    )  # fmt: skip

    def __init__(
        self,
        front: FastFront,
        protocol: EdgeProtocol,
        asked: AskedLine,
        facts: AskedFields,
        reading: Reading,
        data: bytes,
    ) -> None:
        """``data``: the whole request."""
        super().__init__(front.forwarder, protocol, decision=None, is_kept=reading.fields.keep_alive)
        self._front = front
        self.asked = asked
        self.facts = facts
        self.reading = reading
        self._data = data
        self._is_sent = True  # it is written at once, body and all
        self._is_reused = False
        self._is_gone = False
        self._connecting: asyncio.Task[None] | None = None
        self.is_bypassed = False
        """It passes by the gate."""
        self.shows_page = facts.is_page
        """Whether an answer in the app's place is a page."""

    @property
    def _is_repeatable(self) -> bool:
        return not self.facts.length and self.asked.method in REPEATABLE

    def head(self) -> Head:
        """The head as answers in the origin's place want it."""
        block = self._data[: len(self._data) - self.facts.length - 4]
        asked = self.asked
        return Head(block, (asked.method, asked.target, asked.minor), self.reading.fields)

    # The gate

    def decided(self, decision: Decision | None, error: BaseException | None) -> None:
        """The gate has said what becomes of the request. Raises nothing: others wait for their answers behind it."""
        if self._is_gone:
            return
        try:
            self._act_on(decision, error)
        except Exception as failure:
            self._refuse(failure)

    def _act_on(self, decision: Decision | None, error: BaseException | None) -> None:
        if isinstance(error, Again):
            self._front.decide(self, is_counted=True)
        elif error is not None or decision is None:
            self._refuse(error if error is not None else RuntimeError("the gate did not decide"))
        elif isinstance(decision, Forward):
            self.forward(decision)
        else:
            self._answer(self._front.refusal_of(decision, self))

    def forward(self, decision: Forward) -> None:
        """Send it to the app."""
        self._decision = decision
        host = self.facts.host
        assert host is not None
        link = self._forwarder.choice.idle(host, is_repeatable=self._is_repeatable)
        if link is None:
            self._connect()
        else:
            self._is_reused = True
            self._send(link)

    def _connect(self) -> None:
        self._is_reused = False
        self._connecting = self.loop.create_task(self._open())

    async def _open(self) -> None:
        try:
            assert self.facts.host is not None
            link = await self._forwarder.choice.fresh(self.facts.host)
        except OriginFailed as error:
            self._connecting = None
            self._failed(error)
            return
        except Exception as error:
            self._connecting = None
            self._refuse(error)
            return
        self._connecting = None
        if self._is_gone:
            link.abort()
        else:
            self._send(link)

    def _send(self, link: OriginLink) -> None:
        asked, facts = self.asked, self.facts
        parts = [asked.start, facts.fields]
        if facts.length:
            parts.append(self._data[-facts.length :])
        self._begin(link, AnswerReader(self, asked.method), b"".join(parts))
        if not self.is_over:
            self.deadline = self.loop.time() + self._forwarder.timeout

    # The origin's side

    def on_data(self, data: bytes) -> None:
        """As of Owner."""
        super().on_data(data)
        if self.is_over:
            self._end()

    def on_eof(self) -> bool:
        """As of Owner."""
        super().on_eof()
        if self.is_over:
            self._end()
        return False

    def on_lost(self, *, is_reset: bool) -> None:
        """As of Owner."""
        super().on_lost(is_reset=is_reset)
        if self.is_over:
            self._end()

    def expire(self, now: float) -> None:
        """As of Exchange."""
        super().expire(now)
        if self.is_over:
            self._end()

    def on_head(self, head: AnswerHead) -> None:
        """As of Sink."""
        super().on_head(head)
        self._data = b""  # it is not sent again, and an answer may take hours

    # Ends

    def _end(self) -> None:
        """The answer is complete, or will not come."""
        if self._link is None:
            return
        is_heard = self._reader is not None and self._reader.has_begun
        status = self.status
        self._let_go()
        if self.error is not None:
            is_stale = self._is_reused and self.error.failure is Failure.RESET and not is_heard
            if is_stale and self._is_repeatable:
                self._connect()
            else:
                self._failed(self.error)
            return
        self._reader = None  # the two know each other: nothing is left for the collector
        if self.is_bypassed and status >= 400:
            self._front.gate.missed(self.reading.client)
        self._protocol.fast_ended(is_kept=self.is_kept)

    def _failed(self, error: OriginFailed) -> None:
        """Answer in the origin's place, or end what has begun so that nobody takes it for whole (INL-142, INL-169)."""
        decision = self._decision
        assert decision is not None
        self._front.gate.counts.failed(decision.room_id, error.failure)
        if self.has_begun:
            self._protocol.fast_ended(is_kept=False)
        else:
            self._answer(self._front.failure_of(error.failure, decision, self))

    def _answer(self, reply: HotReply) -> None:
        protocol = self._protocol
        is_kept = self.is_kept and not protocol.is_stopping
        request_id = protocol.edge.ids.next()
        is_bare = self.asked.method == "HEAD"
        protocol.write_out(render(reply, request_id=request_id, keep_alive=is_kept, head_only=is_bare, budget=None))
        protocol.fast_ended(is_kept=is_kept)

    def _refuse(self, error: BaseException) -> None:
        protocol = self._protocol
        request_id = protocol.edge.ids.next()
        write_refusal(protocol, self.head(), error, request_id=request_id, is_page=self.shows_page)
        protocol.fast_ended(is_kept=False)

    def hang_up(self) -> None:
        """As of Exchange. The framing shows that the answer is not whole."""
        self._let_go()
        self._protocol.fast_ended(is_kept=False)

    def client_lost(self) -> None:
        """The visitor is gone: nothing more of the origin is wanted. A decision that is under way is not broken off."""
        self._is_gone = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._decision is not None:
            self._front.gate.counts.count(self._decision.room_id, Passed.CLIENT_ABORTS)
        self._let_go()
