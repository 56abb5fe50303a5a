"""``GET /qm.js``: the browser tag, from memory, for pages of any origin. Source: VIS-068, VIS-110, PAG-009."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

from sanic import Blueprint, HTTPResponse, Request

from app.services.module_tree import TreeFile, pack
from blueprints.etags import is_known

SOURCE: Final = Path(__file__).resolve().parents[2] / "static" / "snippet" / "qm.js"
_TYPE: Final = "application/javascript; charset=utf-8"

bp = Blueprint("visitor_snippet")


def _load() -> tuple[TreeFile, str]:
    """The tag and its entity tag."""
    body = SOURCE.read_bytes()
    return pack(body, _TYPE), f'"{sha256(body).hexdigest()[:22]}"'


_FILE, ETAG = _load()


async def snippet(request: Request) -> HTTPResponse:
    """The tag. It is not rate limited: a page that cannot load it goes unqueued."""
    body, is_gzip = _FILE.encoded(request.headers.get("accept-encoding", ""))
    headers = {
        "Cache-Control": "public, max-age=300",
        "ETag": ETAG,
        "Vary": "Accept-Encoding",
        "Access-Control-Allow-Origin": "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
    }
    if is_known(request.headers.get("if-none-match", ""), ETAG):
        return HTTPResponse(status=304, headers=headers)
    if is_gzip:
        headers["Content-Encoding"] = "gzip"
    return HTTPResponse(body, headers=headers, content_type=_TYPE)


bp.add_route(snippet, "/qm.js", methods=["GET", "HEAD"], name="snippet")
