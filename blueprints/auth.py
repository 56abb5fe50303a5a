"""From a Sanic request to what it brings as a credential, and the rules that only HTTP can know: CSRF, cookies.

Judging a credential is services/access.py. Needs a second reviewer.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from sanic import Request

from app.core.errors import Forbidden
from app.domain.inline.hosts import PREFIX
from app.services.access import QUERY_CREDENTIALS, Brought, csrf_required
from app.services.sessions import SESSION_MS
from blueprints.edge.reading import parse_cookies

COOKIE: Final = "qm_console"
COOKIE_PATH: Final = "/api/admin"
"""Not sent to the ``/api/v1/admin`` alias: that one is for Bearer callers (ADM-061)."""
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})


def query_of(request: Request) -> list[tuple[str, str]]:
    """Names and values of the query, in order, blank values kept."""
    return parse_qsl(request.query_string, keep_blank_values=True)


def credential_in(query: list[tuple[str, str]]) -> str:
    """Name of the first query parameter that looks like a credential, or "" (ADM-044)."""
    return next((name for name, _ in query if name.lower() in QUERY_CREDENTIALS), "")


def brought_by(request: Request, query: list[tuple[str, str]], *, takes_ticket: bool = False) -> Brought:
    """What ``request`` brings. ``takes_ticket``: its route is the one that accepts ``?ticket=`` (ADM-046)."""
    return Brought(
        client=request.ctx.client,
        authorization=_joined(request, "authorization"),
        cookies=session_cookies(request),
        in_query=credential_in(query),
        ticket=next((value for name, value in query if name == "ticket"), None) if takes_ticket else None,
        is_foreign=is_foreign(request),
    )


def session_cookies(request: Request) -> tuple[str, ...]:
    """Values of the session cookie, in order."""
    raw = (_joined(request, "cookie", glue="; ") or "").encode("latin-1", "replace")
    return tuple(value for value in parse_cookies(raw).get(COOKIE, []) if value)


def is_foreign(request: Request) -> bool:
    """Tell whether the browser says that a page of another origin caused the request (ADM-296)."""
    return request.headers.get("sec-fetch-site", "") in {"cross-site", "same-site"}


def refuse_forgery(request: Request) -> None:
    """Raise Forbidden unless the request is a page's own: X-QM-CSRF, and same-origin if the browser says so.

    No form can set the header, and no script of another origin may, since no preflight is ever allowed
    (ADM-076, ADM-077).
    """
    if not request.headers.get("x-qm-csrf", "").strip():
        raise csrf_required()
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Forbidden("Another site's page may not do this.", code="csrf_required")


def session_cookie(value: str, request: Request, *, secure: bool | None) -> str:
    """The ``Set-Cookie`` of a sign-in; ``secure``: COOKIE_SECURE, None = as the request came (ADM-060)."""
    return f"{COOKIE}={value}; Max-Age={SESSION_MS // 1000}{_flags(request, secure)}"


def cleared_cookie(request: Request, *, secure: bool | None) -> str:
    """The ``Set-Cookie`` that takes the session from the browser (ADM-069, ADM-074)."""
    return f"{COOKIE}=; Max-Age=0{_flags(request, secure)}"


def _flags(request: Request, secure: bool | None) -> str:
    is_secure = request.ctx.client.scheme == "https" if secure is None else secure
    prefix = PREFIX if request.ctx.inline is not None else ""
    return f"; Path={prefix}{COOKIE_PATH}; HttpOnly; SameSite=Strict" + ("; Secure" if is_secure else "")


def _joined(request: Request, name: str, *, glue: str = ", ") -> str | None:
    """All values of a header as one text; None when it was not sent."""
    values = request.headers.getall(name, [])
    return glue.join(values) if values else None
