"""The operator console's page and the modules it is made of (file 06 of the requirements, section 1).

Belongs here: ``GET /``, ``/public/admin.html`` and the page's own assets. Not here: anything the page then asks of
``/api/admin``. The page holds no secret and no figure, so it needs no credential (CON-002).
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from sanic import Blueprint, HTTPResponse, Request

from app.core.errors import NotFound
from app.domain.inline.hosts import PREFIX
from app.services.module_tree import ModuleTree, TreeFile, load_tree, pack
from blueprints.small_replies import HTML, open_page

ROOT: Final = Path(__file__).resolve().parents[2]
BUDGET: Final = "pages"
"""Name of the page budget's table, counted apart from the waiting page's (VIS-080)."""
IMMUTABLE: Final = "public, max-age=31536000, immutable"


bp = Blueprint("console")


@dataclass(frozen=True, slots=True)
class ConsoleSite:
    """Everything this blueprint sends, made once per process."""

    page: TreeFile
    etag: str
    policy: str
    """Value of ``Content-Security-Policy``."""
    tree: ModuleTree


@cache
def console_site(prefix: str = "", elsewhere: str = "") -> ConsoleSite:
    """Read, hash and compress the console; the same object for every call.

    ``prefix``: what its addresses begin with on an inline host (INL-059); ``elsewhere``: where it has a host of its
    own, which its sign-in page there offers instead (CON-253).
    """
    tree = load_tree(
        {
            "console": [p for p in (ROOT / "static/console").iterdir() if p.suffix != ".html"],
            "vendor": [p for p in (ROOT / "static/vendor").iterdir() if p.suffix != ".md"],
            "locales": list((ROOT / "locales").glob("console.*.json")),
        }
    )
    base = f"{prefix}/assets/console/{tree.digest}"
    meta = f'<meta name="qm-console" content="{html.escape(elsewhere)}">\n' if elsewhere else ""
    text = (ROOT / "static/console/console.html").read_text("utf-8")
    text = text.replace("{{base}}", base).replace("{{elsewhere}}", meta)
    body = text.encode()
    etag = '"' + hashlib.sha256(body).hexdigest()[:16] + '"'
    return ConsoleSite(page=pack(body, HTML), etag=etag, policy=policy_for(text), tree=tree)


def policy_for(page: str) -> str:
    """Content-Security-Policy of ``page``: this origin only, inline script only by hash (CON-004).

    The one inline script is the import map, which browsers do not fetch from an address. Trusted Types forbid every
    sink that would read a string as markup, so that no room name can become an element (CON-252).
    """
    inline = re.findall(r"<script[^>]*type=\"importmap\"[^>]*>(.*?)</script>", page, re.DOTALL)
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in inline)
    return (
        f"default-src 'none'; script-src 'self' {hashes}; style-src 'self'; font-src 'self'; img-src 'self'; "
        "connect-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


async def _load(_app: object) -> None:
    """Fail the start, not the first request, when a file of the console is missing."""
    console_site()


async def page(request: Request) -> HTTPResponse:
    """The console page, the same bytes for everybody."""
    limits, instead = open_page(request, BUDGET)
    if instead is not None:
        return instead
    site = console_site() if request.ctx.inline is None else console_site(PREFIX, _elsewhere(request))
    headers = {
        "Content-Security-Policy": site.policy,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Robots-Tag": "noindex",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "private, no-cache",
        "ETag": site.etag,
        "Vary": "Accept-Encoding",
        **limits,
    }
    if _matches(request.headers.get("if-none-match", ""), site.etag):
        return HTTPResponse(status=304, headers=headers)
    return _send(request, site.page, headers)


def _elsewhere(request: Request) -> str:
    """Address of the console by PUBLIC_URL, which is public; "" without."""
    public_url: str | None = request.app.ctx.qm.settings.public_url
    return f"{public_url.rstrip('/')}/" if public_url else ""


async def asset(request: Request, digest: str, name: str) -> HTTPResponse:
    """One module, style, text or licence of the page; any other digest than this build's is a 404."""
    tree = console_site().tree
    file = tree.files.get(name) if digest == tree.digest else None
    if file is None:
        raise NotFound
    headers = {"Cache-Control": IMMUTABLE, "X-Content-Type-Options": "nosniff", "Vary": "Accept-Encoding"}
    return _send(request, file, headers)


def _send(request: Request, file: TreeFile, headers: dict[str, str]) -> HTTPResponse:
    """The file, compressed where the client takes it."""
    body, packed = file.encoded(request.headers.get("accept-encoding", ""))
    if packed:
        headers["Content-Encoding"] = "gzip"
    return HTTPResponse(body, headers=headers, content_type=file.content_type)


def _matches(if_none_match: str, etag: str) -> bool:
    """Weak comparison of ``If-None-Match`` with the page's tag (RFC 9110, 13.1.2)."""
    return if_none_match.strip() == "*" or etag in [t.strip().removeprefix("W/") for t in if_none_match.split(",")]


_READ: Final = ("GET", "HEAD")
bp.listener("before_server_start")(_load)
bp.add_route(page, "/", methods=_READ, name="page")
bp.add_route(page, "/public/admin.html", methods=_READ, name="page_file")
bp.add_route(asset, "/assets/console/<digest:str>/<name:path>", methods=_READ, name="asset")
