"""``GET /w/<room>/plain``: the waiting page for browsers without script. Source: PAG-152 … PAG-157, PAG-220.

Belongs here: who may be given a place by a mere page request, where the visitor wanted to go, headers. Not here: what
the page says (services/plain.py).
"""

from __future__ import annotations

from typing import Final

from sanic import Blueprint, HTTPResponse, Request

from app.context import AppContext
from app.core.errors import NoRoom, RateLimited
from app.domain.bot_signals import look_at
from app.domain.room import Room
from app.domain.site_path import site_path
from app.services.plain import PlainAnswer, Trip
from app.services.plain_page import NOTICES
from app.services.protection import Asker
from app.services.small_pages import SmallDocument, SmallPage
from blueprints.edge.request import HotRequest, parse_query
from blueprints.replies import leads_to
from blueprints.small_replies import HTML, open_page, refused, small, too_many
from blueprints.visitor.pages import BUDGET, RETRY_SEC, elsewhere, room_of_page
from blueprints.visitor.request_reading import visitor_of
from blueprints.visitor.stock_reading import as_hot

_READ_HEADERS: Final = (
    "user-agent", "cookie", "accept", "accept-language", "accept-encoding", "sec-ch-ua", "sec-fetch-site",
    "sec-fetch-mode", "sec-fetch-dest", "referer",
)  # fmt: skip
_EARLY_HEADERS: Final = ("sec-purpose", "purpose", "x-moz")
"""What browsers say when they load a page before anybody asked for it."""
_OWN_SITES: Final = (b"same-origin", b"none")

bp = Blueprint("visitor_plain")


async def plain(request: Request, room: str) -> HTTPResponse:
    """The state of a visitor's place, given now if he has none and asks for it himself; at his turn the way in."""
    limits, instead = open_page(request, BUDGET)
    if instead is not None:
        return instead
    found = await room_of_page(request, room, limits)
    if isinstance(found, HTTPResponse):
        return found
    is_inline = request.ctx.inline is not None
    if found.config.is_inline and not is_inline:  # only at the site itself can a cookie let anybody in
        return elsewhere(request, found, limits)
    if any(name in request.headers for name in _EARLY_HEADERS):
        # Refused, so that the browser asks again when somebody wants the page; what it kept could be old by then.
        return small(request, SmallPage.RETRY, 503, {**limits, "Retry-After": "1"}, retry_after_sec=RETRY_SEC)
    qm: AppContext = request.app.ctx.qm
    asked = as_hot(request, _READ_HEADERS)
    trip = _trip(asked, found)
    language = request.headers.get("accept-language", "")
    visitor = visitor_of(asked, found.id, None)
    may_join = _came_by_himself(asked)
    # A cookie that comes with a request of another site comes with a navigation: its owner is back from somewhere.
    if request.method == "HEAD" or not (may_join or visitor.tokens):
        return _page(qm.plain.lead(found, trip, language, is_inline=is_inline), 200, limits)
    try:
        answer = await qm.plain.show(
            found, visitor, trip, language, ask=(lambda: _asker(qm, asked)) if may_join else None, is_inline=is_inline
        )
    except RateLimited as error:
        return too_many(request, limits, int(error.headers["Retry-After"]))
    except NoRoom as error:
        return refused(request, error, SmallPage.NO_ROOM, limits)
    return _reply(asked, answer, trip, limits)


def _asker(qm: AppContext, request: HotRequest) -> Asker:
    """What bot protection goes by; takes a join of the address's budget, as /api/join does. Raises RateLimited."""
    client = request.client
    budget = qm.limiter.take("join", client.key, qm.settings.join_limit_per_min)
    if not budget.allowed:
        raise RateLimited(headers={"Retry-After": str(budget.retry_after_sec)})
    return Asker(
        look=look_at(request.headers, https=client.scheme == "https"),
        is_alike=qm.visitor.undeclared.is_marked(client),
        joins=budget.limit - budget.remaining if budget.limit else None,
    )


def _came_by_himself(request: HotRequest) -> bool:
    """Tell whether this is a visitor's own navigation, as far as his browser says (PAG-220)."""
    site, mode = request.headers.get(b"sec-fetch-site"), request.headers.get(b"sec-fetch-mode")
    if site is None and mode is None and b"sec-fetch-dest" not in request.headers:
        return True
    return site in _OWN_SITES and mode == b"navigate"


def _trip(request: HotRequest, room: Room) -> Trip:
    """What the address says; on the first request also what the page says that led here (PAG-153)."""
    query = dict(request.query)
    if "qm_tried" not in query:
        query = {**_of_referer(request, room), **query}
    wanted = query.get("qm_return", "")
    if wanted and request.inline is not None:
        wanted = site_path(wanted)
    why = query.get("qm_why", "")
    return Trip(
        wanted=wanted,
        came_from=query.get("qm_from", ""),
        tried="qm_tried" in query,
        why=why if why in NOTICES else "",
        again="qm_again" in query,
    )


def _of_referer(request: HotRequest, room: Room) -> dict[str, str]:
    """``qm_return`` and ``qm_from`` by the page of this host that led here."""
    base, _, rest = request.header(b"referer").partition("://")[2].partition("/")
    if base.lower() != request.client.host:
        return {}
    path, _, query = f"/{rest}".partition("?")
    if request.inline is not None:
        return {"qm_return": site_path(f"/{rest}")}
    if path != f"/w/{room.id}":
        return {}
    found = parse_query(query.encode("latin-1"))
    return {name: found[name] for name in ("qm_return", "qm_from") if name in found}


def _reply(request: HotRequest, answer: PlainAnswer, trip: Trip, limits: dict[str, str]) -> HTTPResponse:
    if answer.document is None:
        location = answer.location
        if request.inline is not None:
            location = request.client.base + (trip.wanted or "/")
        reply = leads_to(location, answer.status, {"Referrer-Policy": "same-origin", **limits})
    else:
        retry = {"Retry-After": str(answer.retry_after_sec)} if answer.retry_after_sec else {}
        reply = _page(answer.document, answer.status, {**limits, **retry})
    for cookie in answer.cookies:
        reply.headers.add("Set-Cookie", cookie.decode())
    return reply


def _page(document: SmallDocument, status: int, more: dict[str, str]) -> HTTPResponse:
    headers = {
        "Content-Security-Policy": document.csp,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "X-Robots-Tag": "noindex",
        "Cache-Control": "no-store",
        "Vary": "Accept-Language, Cookie",
        **more,
    }
    return HTTPResponse(document.body, status=status, headers=headers, content_type=HTML)


bp.add_route(plain, "/w/<room:str>/plain", methods=["GET", "HEAD"], name="plain")
