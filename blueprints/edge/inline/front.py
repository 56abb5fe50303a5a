"""What an inline host answers: the order of steps for every request to one (INL-075).

Belongs here: ``/__qm`` or the app, bypass or gate, forwarding and its failures. Not here: the decision
(services/inline_gate.py), the bytes of answers (answers.py), the exchange with the origin (exchange.py). What most
requests are is served by fast.py in the same steps: what is changed here is to be changed there, or kept from there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sanic.http import Stage

from app.core.errors import BareNotFound, NotFound, QmError
from app.domain.hosts import PREFIX
from app.domain.inline.failures import OriginFailed
from app.domain.inline.hosts import InlineHost
from app.domain.inline.requests import has_override, is_media, is_page, wanted_upgrade
from app.services.inline_counts import Passed
from app.services.inline_gate import Forward, InlineGate, Queued
from blueprints.edge.crowd import Standing
from blueprints.edge.deadlines import Phase
from blueprints.edge.gate import Full, Gate
from blueprints.edge.inline.answers import InlineAnswers
from blueprints.edge.inline.asked import ADMIN, is_own, url_text
from blueprints.edge.inline.exchange import Forwarder
from blueprints.edge.inline.fast import FastFront
from blueprints.edge.inline.task_exchange import TaskExchange
from blueprints.edge.reply import HotReply
from blueprints.visitor.request_reading import visitor_in

if TYPE_CHECKING:
    from app.domain.client_address import Client
    from blueprints.edge.head import Head
    from blueprints.edge.http import EdgeHttp


class UpgradeNotSupported(QmError):
    """501: there is nothing below /__qm that speaks another protocol (INL-154)."""

    status = 501
    code = "upgrade_not_supported"
    sentence = "Upgrades are not supported under /__qm"


class ProxyLoop(QmError):
    """508: the request came out of this deployment's own proxy (INL-042)."""

    status = 508
    code = "proxy_loop"
    sentence = "The site behind the queue leads back to the queue"


class InlineFront:
    """Serves inline hosts for one web worker."""

    def __init__(self, *, gate: InlineGate, forwarder: Forwarder, answers: InlineAnswers, edge_gate: Gate) -> None:
        self._gate = gate
        self._forwarder = forwarder
        self._answers = answers
        self._edge_gate = edge_gate
        self.fast = FastFront(gate=gate, forwarder=forwarder, answers=answers, edge_gate=edge_gate)

    async def serve(self, http: EdgeHttp, head: Head, client: Client, host: InlineHost) -> None:
        """Answer or forward one request. Raises QmError for what is refused with the connection."""
        http.is_page = is_page(head.headers)
        if client.note:
            self._edge_gate.let_in(client, head, is_inline=True)
        is_surplus = http.protocol.standing is Standing.SURPLUS
        if is_surplus:
            http.keep_alive = False
        if is_own(head.path):
            await self._serve_own(http, head, client, host)
            return
        if head.path.startswith(ADMIN) and self._edge_gate.hosts.keeps_admin(client.host):
            http.inline = None
            await http.serve_own(head, client)
            return
        if is_surplus:
            self._gate.counts.count(host.first.id, Passed.OVERLOADED)
            raise Full
        if self._forwarder.hop.is_own(head.headers):
            raise ProxyLoop
        upgrade = wanted_upgrade(head.headers)
        url = f"{client.scheme}://{head.headers[b'host'].decode('latin-1')}{url_text(head.target)}"
        if not upgrade and is_media(head.method, head.path, head.headers):
            http.is_page = False
            if self._gate.may_bypass(client, host, url):
                self._gate.counts.count(host.first.id, Passed.BYPASSED)
                status = await self._forward(http, head, client, host, Forward(host.first.id))
                if status >= 400:
                    self._gate.missed(client)
                return
        await self._pass_gate(http, head, client, host, url, upgrade)

    async def _serve_own(self, http: EdgeHttp, head: Head, client: Client, host: InlineHost) -> None:
        """A path below ``/__qm`` (INL-053 … INL-057)."""
        head.target = head.target[len(PREFIX) :]
        head.path = head.path[len(PREFIX) :]
        if http.protocol.standing is Standing.SURPLUS:
            try:
                await self._edge_gate.let_into_reserve(client, head)
            except Full:
                self._gate.counts.count(host.first.id, Passed.OVERLOADED)
                raise
        if wanted_upgrade(head.headers):
            raise UpgradeNotSupported
        if head.headers.get(b"service-worker") == b"script":
            raise NotFound
        if not head.path:
            await self._serve_bare_prefix(http, client)
            return
        await http.serve_own(head, client)

    async def _serve_bare_prefix(self, http: EdgeHttp, client: Client) -> None:
        if not self._edge_gate.hosts.serves_console(client.host, inline=True):
            raise BareNotFound
        await http.answer(HotReply(308, b"", headers=[(b"Location", PREFIX + b"/")]))

    async def _pass_gate(
        self, http: EdgeHttp, head: Head, client: Client, host: InlineHost, url: str, upgrade: list[bytes]
    ) -> None:
        is_forced = has_override(head.headers)
        present = partial(visitor_in, http.reading)
        decision = await self._gate.decide(host, client, url, present, is_forced=is_forced)
        if isinstance(decision, Forward):
            await self._forward(http, head, client, host, decision, upgrade)
        elif isinstance(decision, Queued):
            shows_page = bool(http.is_page) and not upgrade
            await http.answer(self._answers.queued(decision, head, client, shows_page=shows_page))
        else:
            http.is_page = bool(http.is_page) and not upgrade
            await http.answer(self._answers.closed(decision, head, shows_page=http.is_page))

    async def _forward(
        self,
        http: EdgeHttp,
        head: Head,
        client: Client,
        host: InlineHost,
        decision: Forward,
        upgrade: list[bytes] | None = None,
    ) -> int:
        """Send the request on; the status of the app's answer, 0 when there was none."""
        protocol = http.protocol
        exchange = TaskExchange(self._forwarder, http, head, client, host, decision=decision, upgrade=upgrade or ())
        http.open_upload(head)
        http.stage = Stage.HANDLER
        protocol.exchange = exchange
        protocol.expect(Phase.FORWARD, 0)
        try:
            await exchange.run()
        except OriginFailed as error:
            self._gate.counts.failed(decision.room_id, error.failure)
            await self._tell_of_failure(http, head, decision, error, is_upgrade=bool(upgrade))
            return 0
        finally:
            protocol.exchange = None
            if protocol.conn_info.lost and exchange.was_left:
                self._gate.counts.count(decision.room_id, Passed.CLIENT_ABORTS)
        if exchange.is_tunnel:
            protocol.end_tunnel(is_reset=exchange.was_reset)
        http.stage = Stage.IDLE
        return exchange.status

    async def _tell_of_failure(
        self, http: EdgeHttp, head: Head, decision: Forward, error: OriginFailed, *, is_upgrade: bool
    ) -> None:
        """Answer in the origin's place, or cut what has begun (INL-142, INL-169)."""
        if http.stage is Stage.RESPONSE:
            http.keep_alive = False
            if head.minor:
                # The framing shows that the answer is not whole, so what was sent may still arrive.
                http.request_body = None
                http.stage = Stage.IDLE
            return
        shows_page = bool(http.is_page) and not is_upgrade
        reply = self._answers.origin_failed(error.failure, decision, head, shows_page=shows_page)
        if is_upgrade or http.request_body is not None:
            http.keep_alive = False
        await http.answer_late(reply)
