"""``GET /w/<room>``: the waiting page. Source: VIS-089 … VIS-093, PAG-094 … PAG-106.

Belongs here: look-up of the room, entity tag, headers. Not here: what the page says (services/waiting_page.py), the
small pages in its place (small_replies.py), everything about a single visitor.
"""

from __future__ import annotations

from typing import Final

from sanic import Blueprint, HTTPResponse, Request

from app.context import AppContext
from app.core.errors import NoRoom, StorageUnavailable
from app.core.ids import RoomId, is_room_id
from app.domain.room import Room
from app.services.module_tree import accepts_gzip
from app.services.small_pages import SmallPage
from app.services.waiting_page import RenderedPage
from blueprints.etags import is_known
from blueprints.replies import leads_to
from blueprints.small_replies import HTML, open_page, refused

BUDGET: Final = "waiting"
RETRY_SEC: Final = 5

bp = Blueprint("visitor_pages")


async def waiting(request: Request, room: str) -> HTTPResponse:
    """The page of a room, the same bytes for everybody, or a small page that says why not."""
    limits, instead = open_page(request, BUDGET)
    if instead is not None:
        return instead
    found = await room_of_page(request, room, limits)
    if isinstance(found, HTTPResponse):
        return found
    if found.config.is_inline:
        return elsewhere(request, found, limits)
    qm: AppContext = request.app.ctx.qm
    return _send(request, qm.waiting_page.render(found), limits)


async def room_of_page(request: Request, room: str, limits: dict[str, str]) -> Room | HTTPResponse:
    """The room whose page may be shown at this address, or the answer in its place."""
    qm: AppContext = request.app.ctx.qm
    try:
        found = await _room(qm, room)
    except StorageUnavailable as error:
        return refused(request, error, SmallPage.RETRY, limits, retry_after_sec=RETRY_SEC)
    inline = request.ctx.inline
    if found is None or (inline is not None and found.id not in inline.ids):
        return refused(request, NoRoom(), SmallPage.NO_ROOM, limits)
    return found


def elsewhere(request: Request, room: Room, limits: dict[str, str]) -> HTTPResponse:
    """To where the page of an inline room is: the site's own URLs (PAG-100)."""
    place = "/" if request.ctx.inline is not None else room.config.target_url
    return leads_to(place, 302, limits)


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


bp.add_route(waiting, "/w/<room:str>", methods=["GET", "HEAD"], name="waiting")
