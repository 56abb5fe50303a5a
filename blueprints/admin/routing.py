"""The frame of every admin route: one table, one order of checks, one form of answer.

Order (ADM-009, WHK-120): lockout, credential in the query, credential, CSRF, path and method, role, step-up, query
and body, the act.
A stranger learns nothing about which paths exist: without a credential all of them are 401 (ADM-010).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import structlog
from sanic import Request
from sanic.response import HTTPResponse

from app.context import AppContext
from app.core.errors import MethodNotAllowed, NotFound, QmError, UnknownField
from app.core.jsonbody import dump, parse_object
from app.domain.actor import Actor
from app.domain.principal import Principal, Via
from app.domain.roles import Role
from app.services.access import CredentialInQuery, NoCredential, csrf_required, needs
from app.services.step_up import StepUpRequired
from blueprints.admin.confirmed import StepUp, is_confirmed
from blueprints.admin.refused_acts import note_refused
from blueprints.auth import (
    SAFE_METHODS,
    brought_by,
    cleared_cookie,
    credential_in,
    is_foreign,
    query_of,
    refuse_forgery,
)
from blueprints.query_keys import tell_of_query_credential

PREFIXES: Final = ("/api/admin", "/api/v1/admin")
ALL_METHODS: Final = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")
BODY_MAX: Final = 64 * 1024
NO_STORE: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
JSON_TYPE: Final = "application/json; charset=utf-8"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """One admin request that passed every check before its body."""

    request: Request
    qm: AppContext
    principal: Principal
    args: tuple[str, ...] = ()
    """Values of the path's parameters."""
    query: Mapping[str, str] = field(default_factory=dict)
    is_confirmed: bool = True
    """The caller need not present his key again; only a route that is asked ``BY_FIELDS`` is reached without."""

    @property
    def actor(self) -> Actor:
        """Who does the act, as facts and the audit trail keep him."""
        return acting(self.principal, self.request, self.qm)

    def body(self) -> dict[str, Any]:
        """The JSON object of the body, whatever its Content-Type says; an empty body is ``{}`` (ADM-014, ADM-015)."""
        return parse_object(self.request.body, max_bytes=BODY_MAX, empty_ok=True, constants_ok=True)

    def no_body(self) -> None:
        """Refuse a body with members, on a route that takes none."""
        if body := self.body():
            raise UnknownField(*body)


Handler = Callable[[Call], Awaitable[HTTPResponse | None]]
OpenHandler = Callable[[Request, AppContext], Awaitable[HTTPResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. A segment in angle brackets is a parameter."""

    method: str
    path: str
    handler: Handler | None
    role: Role = Role.MONITOR
    query: frozenset[str] = frozenset()
    takes_ticket: bool = False
    step_up: StepUp = StepUp.NEVER
    takes_key: bool = False
    """A key stands in its body: what another site's page caused is refused before anything is looked at (ADM-296)."""
    open_handler: OpenHandler | None = None
    """For the two routes that judge their own credential: signing in and out."""

    def match(self, parts: list[str]) -> tuple[str, ...] | None:
        """Values of the parameters when this is the path, else None."""
        wanted = self.path.strip("/").split("/")
        if len(wanted) != len(parts):
            return None
        values = []
        for segment, part in zip(wanted, parts, strict=True):
            if segment.startswith("<") and part:
                values.append(unquote(part))
            elif segment != part:
                return None
        return tuple(values)


class Router:
    """Finds the route of a request and walks it through the checks."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.routes = routes

    async def answer(self, request: Request) -> HTTPResponse | None:
        """The answer to any request under an admin prefix; None when it was streamed."""
        try:
            return await self._serve(request, request.app.ctx.qm)
        except QmError as refusal:
            return refused(refusal)

    async def _serve(self, request: Request, qm: AppContext) -> HTTPResponse | None:
        if request.method == "OPTIONS":  # no preflight is ever allowed, and nothing told about the path
            raise MethodNotAllowed(headers={"Allow": "DELETE, GET, HEAD, POST"})
        found = self._find(request.path)
        route, args = found.get(_method(request), (None, ()))
        request.ctx.route = "other" if route is None else f"{PREFIXES[0]}/{route.path}".rstrip("/")
        if route is not None and route.open_handler is not None:
            return await route.open_handler(request, qm)
        if route is not None and route.takes_key and is_foreign(request):
            raise csrf_required()
        query = query_of(request)
        principal = await self._authenticate(request, qm, query, route)
        if principal.via is Via.SESSION and request.method not in SAFE_METHODS:
            refuse_forgery(request)
        if not found:
            raise NotFound
        if route is None or route.handler is None:
            raise MethodNotAllowed(headers={"Allow": _allowed(found)})
        if principal.role < route.role:
            raise needs(route.role, has=principal.role.word)
        confirmed = await is_confirmed(route.step_up, request, qm, principal)
        if not confirmed and route.step_up is not StepUp.BY_FIELDS:
            raise StepUpRequired
        if unknown := [name for name, _ in query if name not in route.query]:
            raise UnknownField(*dict.fromkeys(unknown))
        call = Call(request, qm, principal, args, dict(query), confirmed)
        try:
            return await route.handler(call)
        except QmError as refusal:
            await note_refused(call, route.method, route.path, refusal)
            raise

    async def _authenticate(
        self, request: Request, qm: AppContext, query: list[tuple[str, str]], route: Route | None
    ) -> Principal:
        is_stream = route is not None and route.takes_ticket
        try:
            return await qm.access.authenticate(brought_by(request, query, takes_ticket=is_stream))
        except NoCredential as refusal:
            if refusal.cookie_failed:
                cookie = cleared_cookie(request, secure=qm.settings.cookie_secure)
                refusal.headers["Set-Cookie"] = cookie
            raise
        except CredentialInQuery:
            tell_of_query_credential(qm.limiter, "unknown" if route is None else route.path, credential_in(query))
            raise

    def _find(self, path: str) -> dict[str, tuple[Route, tuple[str, ...]]]:
        """Routes of a path by method; empty when there is no such path."""
        prefix = next(prefix for prefix in reversed(PREFIXES) if path.startswith(prefix))
        parts = path[len(prefix) :].removeprefix("/").split("/")
        matches = ((route, route.match(parts)) for route in self.routes)
        return {route.method: (route, args) for route, args in matches if args is not None}


def acting(who: Principal, request: Request, qm: AppContext) -> Actor:
    """``who`` as the author of what ``request`` does."""
    return Actor(
        who.name,
        kind=who.kind,
        ident=who.operator_id or None,
        role=who.role.word,
        ip=request.ctx.client.address,
        instance=qm.runtime.instance_id,
    )


def reply(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HTTPResponse:
    """A JSON answer with the headers of every admin answer (ADM-013)."""
    return reply_text(dump(body), status=status, headers=headers)


def reply_text(text: str, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HTTPResponse:
    """The same, of an answer that is JSON text already."""
    return HTTPResponse(text, status, {**NO_STORE, **(headers or {})}, JSON_TYPE)


def refused(refusal: QmError) -> HTTPResponse:
    """A refusal as JSON, for a script and for a person's browser alike (ADM-017)."""
    body = refusal.body()
    if "Retry-After" in refusal.headers:
        body.setdefault("retryAfterSec", int(refusal.headers["Retry-After"]))
    return reply(body, status=refusal.status, headers=refusal.headers)


def tell(call: Call, act: str, **facts: Any) -> None:
    """One line in the log for each act that changed something."""
    log.info(act, actor=call.principal.name, address=call.request.ctx.client.address, **facts)


def _method(request: Request) -> str:
    return "GET" if request.method == "HEAD" else str(request.method)


def _allowed(found: Mapping[str, object]) -> str:
    return ", ".join(sorted({*found, *(("HEAD",) if "GET" in found else ())}))
