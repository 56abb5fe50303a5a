"""``/docs*`` and ``/progress``: what a running server tells about itself. Source: PAG-194 … PAG-204, VIS-080.

Belongs here: budget, the address of the reader, headers. Not here: the pages (services/docs.py), and whether this host
shows the console and with it ``/progress`` (the edge).
"""

from __future__ import annotations

from typing import Final

from sanic import Blueprint, HTTPResponse, Request

from app.context import AppContext
from app.core.errors import NotFound
from app.domain.doc_pages import NEWS
from app.domain.inline.hosts import PREFIX
from app.services.docs import POLICY, Place
from app.services.module_tree import accepts_gzip
from app.services.small_pages import SmallPage
from blueprints.etags import is_known
from blueprints.small_replies import HTML, open_page, refused

BUDGET: Final = "pages"
"""The table that counts these pages, with the console's and apart from the waiting page's."""
PLAIN_TEXT: Final = "text/plain; charset=utf-8"

bp = Blueprint("docs")


async def page(request: Request, **_: str) -> HTTPResponse:
    """A guide, the release notes or an example file."""
    limits, instead = open_page(request, BUDGET)
    if instead is not None:
        return instead
    prefix = "" if request.ctx.inline is None else PREFIX
    qm: AppContext = request.app.ctx.qm
    public = qm.visitor.rooms.public_base
    place = Place(public or request.ctx.client.base + prefix, prefix)
    sent = await qm.docs.page(request.path, place)
    # Nobody may keep what was made of a Host that anybody can send (PAG-219).
    keeping = {"Cache-Control": "private, no-cache" if public else "no-store", **limits}
    if sent is None:
        example = qm.docs.example(request.path)
        if example is None:
            return refused(request, NotFound(), SmallPage.NOT_FOUND, limits)
        return HTTPResponse(example, headers={**keeping, "X-Content-Type-Options": "nosniff"}, content_type=PLAIN_TEXT)
    headers = {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "X-Robots-Tag": "noindex",
        "ETag": sent.etag,
        "Vary": "Accept-Encoding",
        **keeping,
    }
    if is_known(request.headers.get("if-none-match", ""), sent.etag):
        return HTTPResponse(status=304, headers=headers)
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return HTTPResponse(qm.docs.body(request.path, place), headers=headers, content_type=HTML)
    return HTTPResponse(sent.gzipped, headers={**headers, "Content-Encoding": "gzip"}, content_type=HTML)


_READ: Final = ("GET", "HEAD")
bp.add_route(page, "/docs", methods=_READ, name="contents")
bp.add_route(page, "/docs/<page:path>", methods=_READ, name="page")
bp.add_route(page, NEWS, methods=_READ, name="progress")
