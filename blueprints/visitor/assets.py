"""Files of the pages: ``/assets/waiting-<hash>.*``, ``/fonts/*``, ``/offline.html``, ``/favicon.ico``, ``/robots.txt``.

Those of this build answer from memory, without any store (VIS-211); the page files of other builds are looked for in
the shared store. Source: VIS-105 … VIS-109, PAG-164 … PAG-192.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sanic import Blueprint, HTTPResponse, Request
from sanic.response import empty, text

from app.core.errors import NotFound
from app.services.asset_file import Asset
from app.services.asset_share import AssetShare
from app.services.assets import Assets
from app.services.module_tree import accepts_gzip
from app.services.outage_pages import WholePage
from blueprints.etags import is_known
from blueprints.small_replies import to_own_address

IMMUTABLE: Final = "public, max-age=31536000, immutable"
WEEK: Final = "public, max-age=604800"

bp = Blueprint("visitor_assets")


async def asset(request: Request, name: str) -> HTTPResponse:
    """A hashed file of a build in use; an unknown hash is a 404 that nobody may keep."""
    share: AssetShare = request.app.ctx.qm.asset_share
    return send(request, await share.find(name), IMMUTABLE)


async def font(request: Request, name: str) -> HTTPResponse:
    """One of the four fonts or their licence, never compressed again."""
    assets: Assets = request.app.ctx.qm.assets
    return send(request, assets.fonts.get(name), WEEK)


async def origin_down(request: Request) -> HTTPResponse:
    """What the inline proxy shows when a site does not answer, to be looked at (PAG-178)."""
    return to_own_address(request, {}) or _whole(request, request.app.ctx.qm.assets.origin_down[0])


async def offline(request: Request) -> HTTPResponse:
    """The page that a CDN keeps for the time when no instance answers (VIS-109, PAG-170)."""
    return to_own_address(request, {}) or _whole(request, request.app.ctx.qm.assets.offline)


def _whole(request: Request, page: WholePage) -> HTTPResponse:
    headers = {
        "Content-Security-Policy": page.csp,
        "Cache-Control": "no-cache",
        "ETag": page.etag,
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
        "X-Robots-Tag": "noindex",
    }
    if is_known(request.headers.get("if-none-match", ""), page.etag):
        return HTTPResponse(status=304, headers={**headers, "Vary": "Accept-Encoding"})
    return send(request, page.file, headers["Cache-Control"], headers)


async def favicon(_request: Request) -> HTTPResponse:
    """Nothing: the pages name their own icons (PAG-183)."""
    return empty(headers={"Cache-Control": WEEK})


async def robots(_request: Request) -> HTTPResponse:
    """No page of this host is for a search engine (PAG-183)."""
    return text("User-agent: *\nDisallow: /\n", headers={"Cache-Control": WEEK, "X-Content-Type-Options": "nosniff"})


def send(
    request: Request, file: Asset | None, cache_control: str, more: Mapping[str, str] | None = None
) -> HTTPResponse:
    """The file in the best encoding the client takes. Raises NotFound, whose answer nobody keeps (VIS-106).

    ``more``: further headers.
    """
    if file is None:
        raise NotFound
    headers = {"X-Content-Type-Options": "nosniff", **(more or {}), "Cache-Control": cache_control}
    body = file.body
    if file.gzipped is not None:
        headers["Vary"] = "Accept-Encoding"
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = "gzip"
            body = file.gzipped
    return HTTPResponse(body, headers=headers, content_type=file.media_type)


for _path, _handler in (
    ("/assets/<name:str>", asset),
    ("/fonts/<name:str>", font),
    ("/offline.html", offline),
    ("/origin-down.html", origin_down),
    ("/favicon.ico", favicon),
    ("/robots.txt", robots),
):
    bp.add_route(_handler, _path, methods=["GET", "HEAD"], name=_handler.__name__)
