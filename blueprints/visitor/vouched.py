"""``/api/check`` by a connector that speaks for a visitor. Source: VIS-132 … VIS-141.

Belongs here: the order key → visitor named → his budget → room → use case. Not here: judging the key
(connector_keys.py), decisions (check.py). No origin policy applies and no cookie is read or set: the caller is no
browser (VIS-134).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from app.core.errors import BadRequest, InvalidField, NoRoom, QmError, RateLimited, Unauthorized
from app.domain.client_address import Client
from app.domain.fingerprint import clean_agent
from app.domain.net_ranges import address_text, budget_key, pack_address
from app.services.connector_keys import QUERY_KEYS
from app.services.visitor_counts import Counted
from app.services.visitor_proof import Visitor
from blueprints.edge.reply import HotReply
from blueprints.edge.request import HotRequest
from blueprints.query_keys import tell_of_query_credential
from blueprints.visitor.request_reading import missing_room, refuse_other_host, room_in_query, texts_of

if TYPE_CHECKING:
    from app.context import AppContext

_FIELDS: Final = frozenset({"ip", "agent", "token", "url", "doorKey", "tag"})
_BUDGET: Final = "vouched"
"""A table apart: what a key holder names never touches the budget of a direct caller (VIS-075)."""


def speaks_for_visitor(request: HotRequest, query: Mapping[str, str]) -> bool:
    """Tell whether a check names a visitor, in its query or its body (VIS-132)."""
    if "ip" in query or "agent" in query:
        return True
    body = request.body
    if b'"ip"' not in body and b'"agent"' not in body:
        return False
    try:
        fields = request.json()
    except QmError:
        return False  # whatever it is, it is refused
    return "ip" in fields or "agent" in fields


class VouchedCheck:
    """The vouched half of ``/api/check``."""

    def __init__(self, ctx: AppContext) -> None:
        self._visitor = ctx.visitor
        self._limiter = ctx.limiter
        self._limit = ctx.settings.check_limit_per_min

    async def answer(self, request: HotRequest) -> HotReply:
        """Answer the check of the visitor that the caller names."""
        room_id = room_in_query(request.query)
        await self._judge(request, room_id)
        refuse_other_host(request.inline, room_id)
        # A call that names nobody charges nobody; its answer tells what the caller himself would have left.
        request.budget = self._limiter.peek(_BUDGET, request.client.key, self._limit)._replace(allowed=True)
        sent = _sent(request)
        client = _named(request.client, sent.get("ip"), sent.get("agent"))
        request.budget = budget = self._limiter.take(_BUDGET, client.key, self._limit)
        counts, rooms = self._visitor.counts, self._visitor.rooms
        room = rooms.peek(room_id) if room_id else None
        if not budget.allowed:
            counts.count(Counted.RATE_LIMITED_CHECKS, room.id if room else None)
            raise RateLimited("Too many checks")
        if room_id is None:
            raise missing_room()
        token, door = sent.get("token"), sent.get("doorKey") or request.header(b"x-qm-door-key")
        agent = clean_agent((sent["agent"] or "").encode("utf-8", "replace"))
        tokens, doors = ((text,) if text else () for text in (token, door))
        visitor = Visitor(client, agent, tokens, (), doors, is_vouched=True)
        check = self._visitor.check
        try:
            room = room or await rooms.find(room_id)
            ask = check.preview if request.method == "HEAD" else check.check
            return HotReply(200, (await ask(room, visitor, sent.get("url"))).body)
        except NoRoom:
            counts.unknown_room(room_id)
            raise

    async def _judge(self, request: HotRequest, room_id: str | None) -> None:
        """Return for a good key. A refused caller pays for himself (VIS-136 … VIS-138)."""
        try:
            if named := next((name for name in QUERY_KEYS if name in request.query), None):
                tell_of_query_credential(self._limiter, "check", named)
                raise Unauthorized("Send the key in the Authorization header", code="credential_in_query")
            authorization = request.header(b"authorization") if b"authorization" in request.headers else None
            await self._visitor.keys.judge(request.client, authorization)
        except Unauthorized:
            room = self._visitor.rooms.peek(room_id) if room_id else None
            self._visitor.counts.count(Counted.REFUSED_KEY_CHECKS, room.id if room else None)
            request.budget = budget = self._limiter.take("check", request.client.key, self._limit)
            if not budget.allowed:
                raise RateLimited("Too many checks") from None
            raise


def _sent(request: HotRequest) -> Mapping[str, str | None]:
    """Query and body together; the body counts where both have a member. Raises what ``texts_of`` does."""
    if request.method != "POST":
        return request.query
    return {**request.query, **texts_of(request, _FIELDS)}


def _named(caller: Client, ip: str | None, agent: str | None) -> Client:
    """The visitor at ``ip``, who reaches this server as ``caller`` does. His address may prove him (ENG-104).

    Raises 400 ``missing_ip``, ``missing_agent``, ``invalid_ip``. An empty ``agent`` is one (VIS-133).
    """
    if not ip:
        raise BadRequest("Name the visitor's address: ip", code="missing_ip")
    if agent is None:
        raise BadRequest("Name the visitor's User-Agent: agent", code="missing_agent")
    packed = pack_address(ip.strip())
    if packed is None:
        raise InvalidField("ip", "ip is no IPv4 or IPv6 address")
    # No socket of his is here: a peer of "" is in no strict fingerprint that a ticket holds.
    return Client(
        address_text(packed), packed, budget_key(packed), "", "", declared=True, scheme=caller.scheme, host=caller.host
    )
