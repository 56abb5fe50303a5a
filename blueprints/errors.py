"""The one place where a refusal becomes an answer: JSON, or a page for somebody who navigated (VIS-036, VIS-037).

Used by the edge for hot routes and by Sanic's error handling for all others. A failure nobody expected is
``500 internal_error``; what it was stands in the log under the request id, never in the answer (VIS-047).
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from sanic import Request
from sanic.exceptions import (
    BadRequest as SanicBadRequest,
)
from sanic.exceptions import (
    MethodNotAllowed as SanicMethodNotAllowed,
)
from sanic.exceptions import (
    NotFound as SanicNotFound,
)
from sanic.exceptions import (
    PayloadTooLarge,
    SanicException,
    ServiceUnavailable,
)
from sanic.handlers import ErrorHandler
from sanic.response import HTTPResponse

from app.core.errors import BadRequest, BareNotFound, BodyTooLarge, MethodNotAllowed, NotFound, QmError, Unavailable
from blueprints.edge.reply import JSON_TYPE, HotReply, dump
from blueprints.edge.request import is_navigation

log = structlog.get_logger()

PAGE_TYPE: Final = b"text/html; charset=utf-8"
PAGE_HEADERS: Final = (
    (b"Referrer-Policy", b"no-referrer"),
    (b"X-Frame-Options", b"DENY"),
    (b"Content-Security-Policy", b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
)


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """What a page about an error may say."""

    status: int
    code: str
    sentence: str
    accept_language: str
    """The raw header, for the choice of a language."""
    request_id: str
    retry_after_sec: int = 0
    """When another try may succeed; 0 = the answer does not say."""
    console: str = ""
    """Where the console is, of an answer that says so."""


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """A page made by the hook; ``headers`` replace those of the built-in page."""

    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = PAGE_HEADERS


ErrorPageHook = Callable[[ErrorFacts], ErrorPage | None]
"""Makes the page of an error; None = the built-in one. It must not raise and must not wait."""


def as_qm_error(error: BaseException) -> QmError | None:
    """The refusal that ``error`` stands for; None when it is a failure of the server itself."""
    if isinstance(error, QmError):
        return error
    if isinstance(error, SanicNotFound):
        return NotFound()
    if isinstance(error, SanicMethodNotAllowed):
        return MethodNotAllowed(headers={"Allow": error.headers.get("Allow", "")})
    if isinstance(error, PayloadTooLarge):
        return BodyTooLarge()
    if isinstance(error, SanicBadRequest):
        return BadRequest()
    if isinstance(error, ServiceUnavailable):
        return Unavailable()
    if isinstance(error, SanicException) and 400 <= error.status_code < 500:
        return QmError("This request cannot be answered.", status=error.status_code, code="bad_request")
    return None


def error_reply(
    error: BaseException,
    headers: dict[bytes, bytes],
    *,
    request_id: str,
    path: str,
    page: ErrorPageHook | None,
    drop_limits: bool = False,
    is_page: bool | None = None,
) -> HotReply:
    """The answer to a request that ended in ``error``; a failure of the server is logged here.

    ``headers``: the request's, by lower-case name; ``drop_limits``: the limit headers come from the budget instead.
    ``is_page``: whether it is shown as a page; None = by the rule of QM's own hosts.
    """
    refusal = as_qm_error(error)
    if refusal is None:
        log.error("request_failed", request_id=request_id, path=path, exc_info=error)
        refusal = QmError()
    own = [
        (name.encode("latin-1"), value.encode("latin-1", "replace").replace(b"\r", b" ").replace(b"\n", b" "))
        for name, value in refusal.headers.items()
        if not (drop_limits and name.lower().startswith(("x-ratelimit-", "retry-after")))
    ]
    if isinstance(refusal, BareNotFound):
        return HotReply(refusal.status, b"", [], own, JSON_TYPE)
    if not (is_navigation(headers) if is_page is None else is_page):
        return HotReply(refusal.status, dump(refusal.body()), [], own, JSON_TYPE)
    facts = ErrorFacts(
        refusal.status,
        str(refusal.body().get("code", "")),
        refusal.page_sentence or refusal.sentence,
        headers.get(b"accept-language", b"").decode("latin-1"),
        request_id,
        int(refusal.headers.get("Retry-After") or 0),
        str(refusal.body().get("console", "")),
    )
    made = (page(facts) if page is not None else None) or _plain_page(facts)
    return HotReply(refusal.status, made.body, [], [*own, *made.headers], PAGE_TYPE)


class EdgeErrorHandler(ErrorHandler):
    """Sanic's hook: every exception of a stock route comes here."""

    def default(self, request: Request, exception: Exception) -> HTTPResponse:
        """The same answer the edge would give."""
        budget = getattr(request.ctx, "budget", None)
        reply = error_reply(
            exception,
            {name.encode("latin-1"): value.encode("latin-1", "replace") for name, value in request.headers.items()},
            request_id=getattr(request.ctx, "request_id", ""),
            path=request.path,
            page=request.app.ctx.edge.error_page,
            drop_limits=budget is not None and not budget.allowed,
        )
        answer = HTTPResponse(reply.body, reply.status, content_type=reply.content_type.decode())
        for name, value in reply.headers:
            answer.headers.add(name.decode("latin-1"), value.decode("latin-1"))
        return answer


def _plain_page(facts: ErrorFacts) -> ErrorPage:
    sentence = html.escape(facts.sentence)
    return ErrorPage(
        (
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>{facts.status}</title><h1>{facts.status}</h1><p>{sentence}</p>"
            f"<p><small>{html.escape(facts.request_id)}</small></p></html>"
        ).encode()
    )
