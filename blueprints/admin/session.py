"""Signing in and out, presenting a key once more, and tickets for the event stream (05, sections 5 and 7; WHK-113)."""

from __future__ import annotations

from typing import Any, Final

from sanic import Request
from sanic.response import HTTPResponse

from app.context import AppContext
from app.core.errors import BadRequest, UnknownField
from app.core.jsonbody import parse_object, refuse_unknown
from app.domain.client_address import Client
from app.domain.roles import Role
from app.services.access import CredentialInQuery
from app.services.sessions import TICKET_MS
from blueprints.admin.routing import BODY_MAX, Call, Route, acting, log, reply, tell
from blueprints.auth import brought_by, cleared_cookie, query_of, refuse_forgery, session_cookie
from blueprints.query_keys import tell_of_query_credential

KEY_MAX: Final = 512


async def sign_in(request: Request, qm: AppContext) -> HTTPResponse:
    """``POST /session {"key": …}``: CSRF before the key is looked at; an Authorization header is ignored (ADM-068)."""
    client: Client = request.ctx.client
    await _refuse_query(request, qm)
    refuse_forgery(request)
    key = _key(parse_object(request.body, max_bytes=BODY_MAX, empty_ok=True))
    holder = await qm.access.sign_in(client, key)
    value, session = await qm.sessions.begin(holder)
    log.info("session_created", actor=holder.name, address=client.address)
    await qm.audit_trail.note(acting(holder, request, qm), "session.create")
    body = {
        "ok": True,
        "kind": session.kind,
        "role": session.role.word,
        "name": session.name,
        "operatorId": session.operator_id or None,
        "expiresAt": session.expires_at,
    }
    return reply(body, headers={"Set-Cookie": session_cookie(value, request, secure=qm.settings.cookie_secure)})


async def sign_out(request: Request, qm: AppContext) -> HTTPResponse:
    """``DELETE /session``: ends the sessions of the cookies sent; the same answer when there was none (ADM-069)."""
    client: Client = request.ctx.client
    await _refuse_query(request, qm)
    brought = brought_by(request, query_of(request))
    if brought.authorization is None:
        refuse_forgery(request)
    for session in await qm.access.sign_out(brought):
        qm.live.hear_signed_out(session.session_id)
        await qm.rooms.send_hint("signout", session.session_id)
        log.info("session_deleted", actor=session.name, address=client.address)
        await qm.audit_trail.note(acting(session, request, qm), "session.delete")
    return reply({"ok": True}, headers={"Set-Cookie": cleared_cookie(request, secure=qm.settings.cookie_secure)})


async def make_ticket(call: Call) -> HTTPResponse:
    """``POST /sse-ticket``: a one-use ticket with the rights of the credential that asked."""
    call.no_body()
    return reply({"ticket": await call.qm.sessions.make_ticket(call.principal), "expiresInSec": TICKET_MS // 1000})


async def step_up(call: Call) -> HTTPResponse:
    """``POST /step-up {"key": …}``: a token for acts that a session alone may not do."""
    await call.qm.access.step_up(call.request.ctx.client, call.principal, _key(call.body()))
    token, until = await call.qm.step_ups.begin(call.principal)
    tell(call, "stepped_up")
    return reply({"stepUpToken": token, "expiresAt": until})


async def _refuse_query(request: Request, qm: AppContext) -> None:
    """No query parameter is known here; one that looks like a key is refused as such."""
    query = query_of(request)
    brought = brought_by(request, query)
    if brought.in_query:
        try:
            await qm.access.authenticate(brought)
        except CredentialInQuery:
            tell_of_query_credential(qm.limiter, "session", brought.in_query)
            raise
    if query:
        raise UnknownField(*dict.fromkeys(name for name, _ in query))


def _key(body: dict[str, Any]) -> str:
    refuse_unknown(body, ("key",))
    key = body.get("key")
    if not isinstance(key, str) or not 1 <= len(key) <= KEY_MAX:
        raise BadRequest(f"key must be text of 1 to {KEY_MAX} characters", code="invalid_key_field", fields=["key"])
    return key


ROUTES: Final = (
    Route("POST", "session", None, open_handler=sign_in),
    Route("DELETE", "session", None, open_handler=sign_out),
    Route("POST", "sse-ticket", make_ticket),
    Route("POST", "step-up", step_up, role=Role.OWNER, takes_key=True),
)
