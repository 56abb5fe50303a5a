"""``GET /w/<room>``: the waiting page. Source: VIS-089 … VIS-093, PAG-094 … PAG-106.

Belongs here: budget, look-up of the room, entity tag, headers, the small pages in its place. Not here: what the page
says (services/waiting_page.py) and everything about a single visitor.
"""

from __future__ import annotations

from typing import Final

from sanic import Blueprint, HTTPResponse, Request

from app.context import AppContext
from app.core.errors import NoRoom, QmError, StorageUnavailable
from app.core.ids import RoomId, is_room_id
from app.domain.budget import Budget
from app.domain.room import Room
from app.services.module_tree import accepts_gzip
from app.services.small_pages import SmallPage, SmallPages
from app.services.waiting_page import RenderedPage
from blueprints.edge.request import is_navigation
from blueprints.etags import is_known

BUDGET: Final = "waiting"
HTML: Final = "text/html; charset=utf-8"
RETRY_SEC: Final = 5
_NAVIGATION_HEADERS: Final = ("sec-fetch-mode", "sec-fetch-dest", "sec-fetch-site", "accept")
_SMALL: Final = SmallPages()

bp = Blueprint("visitor_pages")


async def waiting(request: Request, room: str) -> HTTPResponse:
    """The page of a room, the same bytes for everybody, or a small page that says why not."""
    qm: AppContext = request.app.ctx.qm
    budget = qm.visitor.undeclared.page_budget(BUDGET, request.ctx.client)
    limits = {name.decode(): value.decode() for name, value in budget.headers()}
    if not budget.allowed:
        return _too_many(request, budget, limits)
    try:
        found = await _room(qm, room)
    except StorageUnavailable as error:
        return _refused(request, error, SmallPage.RETRY, limits, retry_after_sec=RETRY_SEC)
    inline = request.ctx.inline
    if found is None or (inline is not None and found.id not in inline.ids):
        return _refused(request, NoRoom(), SmallPage.NO_ROOM, limits)
    if found.config.is_inline:  # its waiting page is at the site's own URLs (PAG-100)
        place = "/" if inline is not None else found.config.target_url
        return HTTPResponse(status=302, headers={"Location": place, "Cache-Control": "no-store", **limits})
    return _send(request, qm.waiting_page.render(found), limits)


async def _room(qm: AppContext, room: str) -> Room | None:
    """This process's copy of the room, or a fresh one where it has none. Raises StorageUnavailable."""
    if not is_room_id(room):
        return None
    return qm.rooms.get(RoomId(room)) or await qm.rooms.refresh(RoomId(room))


def _send(request: Request, page: RenderedPage, limits: dict[str, str]) -> HTTPResponse:
    headers = {
        "Content-Security-Policy": page.csp,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "X-Robots-Tag": "noindex",
        "Cache-Control": "private, no-cache",
        "ETag": page.etag,
        "Vary": "Accept-Encoding",
        **limits,
    }
    if is_known(request.headers.get("if-none-match", ""), page.etag):
        return HTTPResponse(status=304, headers=headers)
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return HTTPResponse(page.body, headers=headers, content_type=HTML)
    return HTTPResponse(page.gzipped, headers={**headers, "Content-Encoding": "gzip"}, content_type=HTML)


def _too_many(request: Request, budget: Budget, limits: dict[str, str]) -> HTTPResponse:
    """429: a page that loads itself again, or plain text for what is no navigation (VIS-079)."""
    wait_sec = budget.retry_after_sec
    if _is_navigation(request):
        return _small(request, SmallPage.RATE_LIMITED, 429, limits, retry_after_sec=wait_sec)
    sentence = f"Too many requests. Try again in {wait_sec} s."
    headers = {**limits, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return HTTPResponse(sentence, status=429, headers=headers, content_type="text/plain; charset=utf-8")


def _refused(
    request: Request, error: QmError, kind: SmallPage, limits: dict[str, str], *, retry_after_sec: int = 0
) -> HTTPResponse:
    """A small page for a navigation; for a call the error itself, which becomes the envelope."""
    if not _is_navigation(request):
        error.headers.update(limits)
        raise error
    return _small(request, kind, error.status, {**limits, **error.headers}, retry_after_sec=retry_after_sec)


def _small(
    request: Request, kind: SmallPage, status: int, headers: dict[str, str], *, retry_after_sec: int = 0
) -> HTTPResponse:
    page = _SMALL.page(kind, request.headers.get("accept-language", ""), retry_after_sec=retry_after_sec)
    headers = {
        **headers,
        "Content-Security-Policy": page.csp,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "X-Robots-Tag": "noindex",
        "Cache-Control": "no-store",
        "Vary": "Accept-Language, Accept",
    }
    return HTTPResponse(page.body, status=status, headers=headers, content_type=HTML)


def _is_navigation(request: Request) -> bool:
    sent = {name.encode(): request.headers[name].encode() for name in _NAVIGATION_HEADERS if name in request.headers}
    return is_navigation(sent)


bp.add_route(waiting, "/w/<room:str>", methods=["GET", "HEAD"], name="waiting")
