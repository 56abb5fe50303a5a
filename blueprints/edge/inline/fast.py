"""The fast path of inline hosts: what is served in the callback that brought it, without waking a task.

It takes the steps of front.py for what comes most: a request of HTTP/1.1 for the app, whole with its body, that asks
for nothing but an answer. Everything else it leaves untouched: the connection's task takes it. Source: INL-075, and
the design note on the inline proxy.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from app.domain.inline.failures import Failure
from app.services.inline_counts import Passed
from app.services.inline_gate import Closed, Decision, Forward, InlineGate, Queued
from blueprints.edge.gate import Gate
from blueprints.edge.inline.answers import InlineAnswers
from blueprints.edge.inline.asked import AskedFields, AskedLines
from blueprints.edge.inline.exchange import Forwarder
from blueprints.edge.inline.fast_exchange import FastExchange
from blueprints.edge.reply import HotReply
from blueprints.edge.run import Run
from blueprints.visitor.request_reading import visitor_in

if TYPE_CHECKING:
    from app.domain.inline.hosts import HostIndex
    from blueprints.edge.protocol import EdgeProtocol
    from blueprints.edge.reading import Reading

BODY_MAX_BYTES: Final = 64 * 1024
"""What is longer is read piece by piece; of what is refused, as much as this is read and dropped (INL-087)."""


class _Deciding(Run):
    """The gate at work on one request."""

    __slots__ = ("_exchange",)

    def __init__(self, exchange: FastExchange, deciding: Coroutine[Any, Any, Decision]) -> None:
        super().__init__(exchange.loop, deciding)
        self._exchange = exchange

    def _end(self, result: Decision | None, error: BaseException | None) -> None:
        self._exchange.decided(result, error)


class FastFront:
    """Serves for one web worker."""

    def __init__(self, *, gate: InlineGate, forwarder: Forwarder, answers: InlineAnswers, edge_gate: Gate) -> None:
        self.gate = gate
        self.forwarder = forwarder
        self._answers = answers
        self._edge_gate = edge_gate
        self._lines = AskedLines()

    def facts_of(self, index: HostIndex, reading: Reading, block: bytes) -> AskedFields:
        """What the header lines of ``block`` say, kept with them."""
        facts: AskedFields | None = reading.memo.get(AskedFields)
        if facts is None or facts.index is not index:
            facts = AskedFields(index, reading, block, self.forwarder.hop)
            if facts.host is not None:
                reading.conclude(AskedFields, facts)
        return facts

    def serve(
        self, protocol: EdgeProtocol, facts: AskedFields, reading: Reading, data: bytes, ends: tuple[int, int]
    ) -> bool:
        """Begin to serve ``data`` on an inline host; False leaves everything untouched.

        ``ends``: of the request line and of the head. Raises what refuses the request line.
        """
        line_end, end = ends
        host, length = facts.host, facts.length
        if host is None or not facts.is_plain or len(data) != end + 4 + length or length > BODY_MAX_BYTES:
            return False
        asked = self._lines[data[:line_end]]
        if not asked.is_app:
            return False
        if facts.is_noted and self._edge_gate.watch is not None:
            self._edge_gate.watch.saw(reading.client)
        exchange = FastExchange(self, protocol, asked, facts, reading, data)
        protocol.fast_begins(exchange)
        if asked.is_media and not facts.spoils_media:
            exchange.shows_page = False  # it is a call, whatever becomes of it (INL-174)
            if self.gate.may_bypass(reading.client, host, facts.base + asked.url if host.media is not None else ""):
                self.gate.counts.count(host.first.id, Passed.BYPASSED)
                exchange.is_bypassed = True
                exchange.forward(Forward(host.first.id))
                return True
        url = facts.base + asked.url
        present = partial(visitor_in, reading)
        if not self.gate.ask(host, reading.client, url, present, exchange.decided, is_forced=facts.is_forced):
            self.decide(exchange, is_counted=False)
        return True

    def decide(self, exchange: FastExchange, *, is_counted: bool) -> None:
        """Ask the gate by the long way."""
        facts, reading = exchange.facts, exchange.reading
        assert facts.host is not None
        deciding = self.gate.decide(
            facts.host,
            reading.client,
            facts.base + exchange.asked.url,
            partial(visitor_in, reading),
            is_forced=facts.is_forced,
            is_counted=is_counted,
        )
        _Deciding(exchange, deciding).start()

    def refusal_of(self, decision: Queued | Closed, exchange: FastExchange) -> HotReply:
        """The answer to somebody who is not let through."""
        head, client, shows_page = exchange.head(), exchange.reading.client, exchange.shows_page
        if isinstance(decision, Queued):
            return self._answers.queued(decision, head, client, shows_page=shows_page)
        return self._answers.closed(decision, head, shows_page=shows_page)

    def failure_of(self, failure: Failure, decision: Forward, exchange: FastExchange) -> HotReply:
        """The answer in the place of an origin that failed."""
        return self._answers.origin_failed(failure, decision, exchange.head(), shows_page=exchange.shows_page)
