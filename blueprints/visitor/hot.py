"""The hot routes of a visitor: ``/api/check``, ``/api/status``, ``/api/join``.

Belongs here: the order limit → origin → parse → use case → answer, and CORS. Not here: decisions (services), common
headers and ``X-RateLimit-*`` (the edge). Source: chapters 5, 6, 10, 13 and 14 of docs/spec/03.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from app.core.errors import Forbidden, NoRoom, QmError, RateLimited
from app.domain.bot_signals import look_at
from app.domain.budget import Budget
from app.domain.cookies import ticket_candidates
from app.services.asking import is_to_be_asked_again
from app.services.check import Gated
from app.services.protection import Asker
from app.services.visitor import VisitorAnswer
from app.services.visitor_counts import Counted
from app.services.visitor_proof import Visitor
from app.services.visitor_room import VisitorRoom
from blueprints.edge.hot import Answering, HotHandler, Ways
from blueprints.edge.reply import JSON_TYPE, HotReply
from blueprints.edge.request import HotRequest
from blueprints.visitor.request_reading import (
    is_own_origin,
    missing_room,
    refuse_navigation,
    refuse_other_host,
    refuse_other_sites,
    room_in_query,
    texts_of,
    ticket_cookies,
    visitor_of,
)
from blueprints.visitor.vouched import VouchedCheck, speaks_for_visitor

if TYPE_CHECKING:
    from app.context import AppContext

_CHECK_FIELDS: Final = frozenset({"token", "url", "doorKey", "tag"})
_JOIN_FIELDS: Final = frozenset({"roomId", "token", "returnUrl", "from"})
_EXPOSED: Final = b"X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After"
_PREFLIGHT: Final = [
    (b"Access-Control-Allow-Methods", b"GET, HEAD, POST"),
    (b"Access-Control-Allow-Headers", b"content-type, x-qm-door-key"),
    (b"Access-Control-Max-Age", b"600"),
]


def routes(ctx: AppContext) -> dict[tuple[str, str], HotHandler | Ways]:
    """The handlers of one worker process."""
    check, status, join = CheckRoute(ctx), StatusRoute(ctx), JoinRoute(ctx)
    return {
        ("GET", "/api/check"): check.answer,
        ("POST", "/api/check"): Ways(check.answer, check.begin, recurs=True),
        ("OPTIONS", "/api/check"): check.preflight,
        ("GET", "/api/status"): Ways(status.answer, status.begin, recurs=True),
        ("POST", "/api/join"): Ways(join.answer, join.begin),
    }


class CheckRoute:
    """``/api/check``, direct: by the browser tag, on pages of other origins."""

    def __init__(self, ctx: AppContext) -> None:
        self._vouched = VouchedCheck(ctx)
        self._visitor = ctx.visitor
        self._limiter = ctx.limiter
        self._limit = ctx.settings.check_limit_per_min
        self._public_host = public_host(ctx)

    async def answer(self, request: HotRequest) -> HotReply:
        """Answer a check; every answer to a page that may ask carries CORS headers (VIS-062)."""
        query = request.query
        if speaks_for_visitor(request, query):
            return await self._vouched.answer(request)
        budget = request.budget or self._take(request)
        room_id = room_in_query(query)
        rooms = self._visitor.rooms
        room = rooms.peek(room_id) if room_id else None
        origin = request.headers.get(b"origin")
        try:
            if request.inline is not None:
                refuse_other_host(request.inline, room_id)
            if not budget.allowed:
                self._visitor.counts.count(Counted.RATE_LIMITED_CHECKS, room.id if room else None)
                raise RateLimited("Too many checks")
            if room_id is None:
                raise missing_room()
            refuse_navigation(request)
            if room is None:
                room = await rooms.find(room_id)
            is_covered = origin is not None and room.allows_tag(origin)
            if origin is not None and not is_covered:
                self._refuse_origin(request, room, origin)
            visitor, url, tag = _asked(request, room.id)
            if request.method == "HEAD":
                answer = await self._visitor.check.preview(room, visitor, url)
            else:
                is_alike = self._visitor.undeclared.is_marked(request.client)
                answer = await self._visitor.check.check(room, visitor, url, is_alike=is_alike)
                if is_covered:
                    self._visitor.counts.page_seen(room.id, origin, tag)
            block = _cors_block(origin) if origin is not None and is_covered else b""
            if request.repeat is not None:
                request.repeat.left = Checked(room, visitor, url, tag, origin if is_covered else None, block)
            return HotReply(200, answer.body, answer.cookies, (), JSON_TYPE, block)
        except NoRoom:
            self._visitor.counts.unknown_room(room_id or "")
            raise
        except QmError as error:
            if origin is not None and room is not None and room.allows_tag(origin):
                raise _readable(error, origin) from error
            raise

    def begin(self, request: HotRequest, answering: Answering) -> bool:
        """``answer`` for what was asked before in the very same words, and was answered then (``hot.HotBeginning``)."""
        repeat, qm = request.repeat, self._visitor
        checked: Checked | None = None if repeat is None else repeat.left
        if checked is None or not qm.rooms.is_current(checked.room):
            return False
        if not self._take(request).allowed:
            return False
        told = partial(self._told, answering, checked)
        is_alike = qm.undeclared.is_marked(request.client)
        return qm.check.ask_direct(checked.room, checked.visitor, checked.url, told, is_alike=is_alike)

    def _told(self, answering: Answering, checked: Checked, gated: Gated | None, error: BaseException | None) -> None:
        if is_to_be_asked_again(error):
            answering.again()
            return
        try:
            if gated is None:
                raise error or RuntimeError("the check was not decided")
            body = self._visitor.check.body(gated, checked.visitor, checked.url)
            counts = self._visitor.counts
            if checked.origin is not None and checked.noted_in is not counts.pages:
                counts.page_seen(gated.room.id, checked.origin, checked.tag)
                checked.noted_in = counts.pages
            answering.told(HotReply(200, body, gated.cookies, (), JSON_TYPE, checked.block), None)
        except Exception as failure:
            if checked.origin is not None and isinstance(failure, QmError):
                failure = _readable(failure, checked.origin)
            answering.told(None, failure)

    def _take(self, request: HotRequest) -> Budget:
        request.budget = budget = self._limiter.take("check", request.client.key, self._limit)
        return budget

    async def preflight(self, request: HotRequest) -> HotReply:
        """``OPTIONS`` (VIS-065): not limited, so it asks no store; a room unknown to this process is refused."""
        room_id, origin = room_in_query(request.query), request.headers.get(b"origin")
        refuse_other_host(request.inline, room_id)
        room = self._visitor.rooms.peek(room_id) if room_id else None
        if room is None or origin is None or not room.allows_tag(origin):
            raise _origin_not_allowed()
        return HotReply(204, b"", [], _cors(origin) + _PREFLIGHT)

    def _refuse_origin(self, request: HotRequest, room: VisitorRoom, origin: bytes) -> None:
        """Refuse a page whose origin the room's tag policy does not cover, unless it is ours (VIS-063, VIS-064)."""
        if is_own_origin(origin, request, self._public_host):
            return
        self._visitor.counts.refused_origin(room.id, origin.decode("latin-1"))
        raise _origin_not_allowed()


class StatusRoute:
    """``GET /api/status``."""

    def __init__(self, ctx: AppContext) -> None:
        self._visitor = ctx.visitor
        self._limiter = ctx.limiter
        self._limit = ctx.settings.status_limit_per_min

    async def answer(self, request: HotRequest) -> HotReply:
        """Answer with the visitor state (VIS-157 … VIS-162)."""
        if not (request.budget or self._take(request)).allowed:
            raise RateLimited
        query = request.query
        token = query.get("token") or None
        room_id = room_in_query(query)
        if room_id is None:
            room_id = self._visitor.status.room_named_by(token, ticket_candidates(ticket_cookies(request.reading)))
        visitor = visitor_of(request, room_id, token)
        answer = await self._visitor.status.status(
            room_id, visitor, query.get("return"), read_only=request.method == "HEAD"
        )
        if request.repeat is not None:
            request.repeat.left = Polled(room_id, visitor, query.get("return"))
        return HotReply(200, answer.body, answer.cookies, ())

    def begin(self, request: HotRequest, answering: Answering) -> bool:
        """``answer`` for a page that polls (``hot.HotBeginning``)."""
        repeat, rooms = request.repeat, self._visitor.rooms
        polled: Polled | None = None if repeat is None else repeat.left
        if polled is None or (room := rooms.peek(polled.room_id)) is None:
            return False
        if not self._take(request).allowed:
            return False
        return self._visitor.status.ask(room, polled.visitor, polled.return_url, partial(_told, answering))

    def _take(self, request: HotRequest) -> Budget:
        request.budget = budget = self._limiter.take("status", request.client.key, self._limit)
        return budget


class Polled(NamedTuple):
    """Who asks for which place, as the same request lines have said before."""

    room_id: str
    visitor: Visitor
    return_url: str | None


def _told(answering: Answering, answer: VisitorAnswer | None, error: BaseException | None) -> None:
    if is_to_be_asked_again(error):
        answering.again()
    elif answer is None:
        answering.told(None, error)
    else:
        answering.told(HotReply(200, answer.body, answer.cookies), None)


class JoinRoute:
    """``POST /api/join``."""

    def __init__(self, ctx: AppContext) -> None:
        self._visitor = ctx.visitor
        self._limiter = ctx.limiter
        self._limit = ctx.settings.join_limit_per_min
        self._public_host = public_host(ctx)

    async def answer(self, request: HotRequest) -> HotReply:
        """Answer with the visitor state and the place's token, after the commit (VIS-146 … VIS-149)."""
        asked = self._read(request, request.budget or self._take(request))
        answer = await self._visitor.join.join(*asked)
        return HotReply(200, answer.body, answer.cookies)

    def begin(self, request: HotRequest, answering: Answering) -> bool:
        """``answer`` for most newcomers (``hot.HotBeginning``)."""
        asked = self._read(request, self._take(request))
        return self._visitor.join.ask(*asked, partial(_told, answering))

    def _take(self, request: HotRequest) -> Budget:
        request.budget = budget = self._limiter.take("join", request.client.key, self._limit)
        return budget

    def _read(self, request: HotRequest, budget: Budget) -> _Joins:
        """Who joins what. Raises what refuses the request."""
        if not budget.allowed:
            raise RateLimited
        refuse_other_sites(request, self._public_host)
        fields = texts_of(request, _JOIN_FIELDS)
        room_id = fields.get("roomId")
        if not room_id:
            raise missing_room()
        visitor = visitor_of(request, room_id, fields.get("token"))
        client = request.client
        if request.asker is None:
            request.asker = Asker(
                look_at(request.headers, https=client.scheme == "https"),
                is_alike=self._visitor.undeclared.is_marked(client),
                joins=budget.limit - budget.remaining if budget.limit else None,
            )
        return room_id, visitor, fields.get("returnUrl"), fields.get("from"), request.asker


_Joins = tuple[str, Visitor, str | None, str | None, Asker]
"""Room, visitor, return URL, ``qm_from``, and what bot protection goes by."""


class Checked:
    """Who checks which page, as the very same request has said before; it was answered then."""

    __slots__ = ("block", "noted_in", "origin", "room", "tag", "url", "visitor")

    def __init__(
        self,
        room: VisitorRoom,
        visitor: Visitor,
        url: str | None,
        tag: str | None,
        origin: bytes | None,
        block: bytes,
    ) -> None:
        """``tag``: version of his tag. ``origin``: the page's, when the tag policy of ``room`` covers it.

        ``block``: its CORS lines.
        """
        self.room = room
        self.visitor = visitor
        self.url = url
        self.tag = tag
        self.origin = origin
        self.block = block
        self.noted_in: object = None
        """The collection in which the page stands already (``VisitorCounts.pages``)."""


def _asked(request: HotRequest, room_id: str) -> tuple[Visitor, str | None, str | None]:
    """Who checks which page, and the version of his tag. The visitor's text never makes a 400, only a wrong shape does
    (VIS-120).
    """
    sent: Mapping[str, str | None] = request.query
    door = None
    if request.method == "POST":
        sent = texts_of(request, _CHECK_FIELDS)
        door = sent.get("doorKey")
    if not door and b"x-qm-door-key" in request.headers:
        door = request.header(b"x-qm-door-key")
    visitor = visitor_of(request, room_id, sent.get("token"), (door,) if door else ())
    return visitor, sent.get("url"), sent.get("tag")


def public_host(ctx: AppContext) -> bytes:
    """``host[:port]`` of ``PUBLIC_URL``, empty when it is not set."""
    return (ctx.settings.public_url or "").partition("://")[2].rstrip("/").lower().encode()


def _cors(origin: bytes) -> list[tuple[bytes, bytes]]:
    """Headers of an answer that a page of ``origin`` may read (VIS-061)."""
    return [
        (b"Access-Control-Allow-Origin", origin),
        (b"Access-Control-Allow-Credentials", b"true"),
        (b"Vary", b"Origin"),
        (b"Access-Control-Expose-Headers", _EXPOSED),
    ]


def _readable(error: QmError, origin: bytes) -> QmError:
    """The same refusal, which a page of ``origin`` may read (VIS-062).

    Another object: all whose questions failed together were raised the same one, and some ask from no page.
    """
    told = type(error).__new__(type(error), *error.args)  # not by its class, which may ask for more than it keeps
    told.__dict__.update(error.__dict__)
    told.headers = {**error.headers, **{name.decode(): value.decode("latin-1") for name, value in _cors(origin)}}
    return told


@lru_cache(512)
def _cors_block(origin: bytes) -> bytes:
    """The same as ready lines; only for an origin that a room's policy has read and covers."""
    return b"".join(b"%b: %b\r\n" % header for header in _cors(origin))


def _origin_not_allowed() -> Forbidden:
    return Forbidden("This page's origin may not ask about this room", code="origin_not_allowed")
