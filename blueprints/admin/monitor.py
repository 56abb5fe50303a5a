"""Monitor links: list, mint, show again, revoke (05, section 15)."""

from __future__ import annotations

from typing import Any, Final

from sanic.response import HTTPResponse

from app.domain.hosts import Console, HostPolicy
from app.domain.inline.hosts import PREFIX
from app.domain.roles import Role
from blueprints.admin.routing import Call, Route, reply, tell


async def list_links(call: Call) -> HTTPResponse:
    """Every link that works or ended lately, without its token."""
    return reply(await call.qm.monitor_links.listed())


async def mint(call: Call) -> HTTPResponse:
    """``{"label"?: …}``: a new link."""
    link, token = await call.qm.monitor_links.mint(call.body(), call.actor)
    tell(call, "monitor_link_minted", link=link["id"])
    return reply(_shown(call, link, token), status=201)


async def reveal(call: Call) -> HTTPResponse:
    """The same link again."""
    call.no_body()
    link, token = await call.qm.monitor_links.reveal(call.args[0], call.actor)
    tell(call, "monitor_link_revealed", link=link["id"])
    return reply(_shown(call, link, token))


async def revoke(call: Call) -> HTTPResponse:
    """One link ends at once."""
    call.no_body()
    revoked = await call.qm.monitor_links.revoke(call.args[0], call.actor)
    tell(call, "monitor_link_revoked", link=call.args[0], revoked=revoked)
    return reply({"ok": True, "revoked": revoked})


async def revoke_all(call: Call) -> HTTPResponse:
    """Every link ends at once."""
    call.no_body()
    revoked = await call.qm.monitor_links.revoke_all(call.actor)
    tell(call, "monitor_links_revoked", revoked=revoked)
    return reply({"ok": True, "revoked": revoked})


def _shown(call: Call, link: dict[str, Any], token: str) -> dict[str, Any]:
    """With an address of the console; its fragment is sent to no server (ADM-220)."""
    return {"link": link, "token": token, "url": f"{_console(call)}/#monitor={token}"}


def _console(call: Call) -> str:
    """PUBLIC_URL where the console answers there, else as this request came."""
    settings, client = call.qm.settings, call.request.ctx.client
    public = (settings.public_url or "").rstrip("/")
    hosts = HostPolicy(settings.admin_host, settings.public_url)
    if public and hosts.judge(public.partition("://")[2].lower(), b"/") is Console.SERVED:
        return public
    prefix = PREFIX if call.request.ctx.inline is not None else ""
    return f"{client.scheme}://{client.host}{prefix}"


ROUTES: Final = (
    Route("GET", "monitor-tokens", list_links, role=Role.VIEWER),
    Route("POST", "monitor-tokens", mint, role=Role.OPERATOR),
    Route("DELETE", "monitor-tokens", revoke_all, role=Role.OPERATOR),
    Route("POST", "monitor-tokens/<id>/reveal", reveal, role=Role.OPERATOR),
    Route("DELETE", "monitor-tokens/<id>", revoke, role=Role.OPERATOR),
)
