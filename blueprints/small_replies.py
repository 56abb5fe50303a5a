"""Small answers in the place of a page: used-up budget, refusal, 404, the way to its address.

Source: VIS-070 … VIS-085, PAG-181, PAG-184, PAG-204.

Belongs here: who gets a page and who gets text or an error, and the headers of such pages. Not here: their words
(services/small_pages.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sanic import HTTPResponse, Request

from app.context import AppContext
from app.core.errors import QmError
from app.domain.budget import Budget
from app.domain.inline.hosts import PREFIX
from app.services.small_pages import SmallPage, SmallPages
from blueprints.edge.request import is_navigation
from blueprints.replies import leads_to

HTML: Final = "text/html; charset=utf-8"
_NAVIGATION_HEADERS: Final = ("sec-fetch-mode", "sec-fetch-dest", "sec-fetch-site", "accept")
_TOO_MANY: Final = {"waiting": SmallPage.RATE_LIMITED, "pages": SmallPage.PAGES_LIMITED}
"""By the table that counts: who reads the guides has no place in line that could be spoken of."""
_SMALL: Final = SmallPages()


def open_page(request: Request, group: str) -> tuple[dict[str, str], HTTPResponse | None]:
    """Take one page view from the address's budget: headers of the answer, and what stands in the page's place if the
    budget is used up, or if the page has another address.

    ``group``: the table that counts it, ``waiting`` or ``pages`` (VIS-080).
    """
    qm: AppContext = request.app.ctx.qm
    budget: Budget = qm.visitor.undeclared.page_budget(group, request.ctx.client)
    limits = {name.decode(): value.decode() for name, value in budget.headers()}
    if budget.allowed:
        return limits, to_own_address(request, limits)
    return limits, too_many(request, limits, budget.retry_after_sec, _TOO_MANY[group])


def to_own_address(request: Request, limits: Mapping[str, str]) -> HTTPResponse | None:
    """The way to the page's address from the same with slashes behind it (PAG-204); None where there are none."""
    path = "/" + request.path.strip("/")  # never "//": that would be another host's
    if request.path == path:
        return None
    prefix = "" if request.ctx.inline is None else PREFIX
    query = f"?{request.query_string}" if request.query_string else ""
    return leads_to(prefix + path + query, 308, limits)


def too_many(
    request: Request, limits: dict[str, str], wait_sec: int, kind: SmallPage = SmallPage.RATE_LIMITED
) -> HTTPResponse:
    """429: a page that loads itself again, or plain text for what is no navigation (VIS-079)."""
    if shows_page(request):
        return small(request, kind, 429, limits, retry_after_sec=wait_sec)
    return too_many_in_words(limits, wait_sec)


def too_many_in_words(limits: dict[str, str], wait_sec: int) -> HTTPResponse:
    """429 as plain text, for whatever shows no page."""
    sentence = f"Too many requests. Try again in {wait_sec} s."
    headers = {**limits, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Robots-Tag": "noindex"}
    return HTTPResponse(sentence, status=429, headers=headers, content_type="text/plain; charset=utf-8")


def refused(
    request: Request, error: QmError, kind: SmallPage, limits: dict[str, str], *, retry_after_sec: int = 0
) -> HTTPResponse:
    """A small page for a navigation; for a call the error itself, which becomes the envelope."""
    if not shows_page(request):
        error.headers.update(limits)
        raise error
    return small(request, kind, error.status, {**limits, **error.headers}, retry_after_sec=retry_after_sec)


def small(
    request: Request, kind: SmallPage, status: int, headers: dict[str, str], *, retry_after_sec: int = 0
) -> HTTPResponse:
    """A small page in the language of ``Accept-Language``; with ``retry_after_sec`` it loads itself again."""
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


def shows_page(request: Request) -> bool:
    """Tell whether a browser asks for a page to show."""
    sent = {name.encode(): request.headers[name].encode() for name in _NAVIGATION_HEADERS if name in request.headers}
    return is_navigation(sent)
