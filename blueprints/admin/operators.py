"""Named operators: list, make, change, revoke (05, section 14)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.core.errors import InvalidField
from app.domain.roles import Role
from blueprints.admin.confirmed import StepUp
from blueprints.admin.routing import Call, Route, reply, tell


async def list_operators(call: Call) -> HTTPResponse:
    """Every operator, revoked ones included."""
    return reply({"operators": await call.qm.operators.listed()})


async def make_operator(call: Call) -> HTTPResponse:
    """``{"name": …, "role": …}``: the one answer that shows the key."""
    operator, key = await call.qm.operators.create(call.body(), call.actor)
    tell(call, "operator_created", operator=operator["id"], role=operator["role"])
    return reply({"operator": operator, "key": key, "shownOnce": True}, status=201)


async def change_operator(call: Call) -> HTTPResponse:
    """``{"name"?: …, "role"?: …}``: holds from the operator's next request."""
    operator, changed = await call.qm.operators.change(call.args[0], call.body(), call.actor)
    if changed:
        tell(call, "operator_updated", operator=operator["id"], fields=",".join(changed))
    return reply({"operator": operator, "changed": changed})


async def revoke_operator(call: Call) -> HTTPResponse:
    """His key, sessions, streams and links end; ``purge=1`` removes the record too."""
    call.no_body()
    purge = call.query.get("purge")
    if purge not in (None, "1"):
        raise InvalidField("purge", "purge must be 1")
    operator, links = await call.qm.operators.revoke(call.args[0], call.actor, purge=purge is not None)
    tell(call, "operator_revoked" if purge is None else "operator_purged", operator=operator["id"], links=links)
    if purge is None:
        return reply({"ok": True, "operator": operator, "linksRevoked": links})
    named = {"id": operator["id"], "name": operator["name"]}
    return reply({"ok": True, "operator": named, "purged": True, "linksRevoked": links})


ROUTES: Final = (
    Route("GET", "operators", list_operators, role=Role.VIEWER),
    Route("POST", "operators", make_operator, role=Role.OWNER, step_up=StepUp.ON_SITE),
    Route("POST", "operators/<id>", change_operator, role=Role.OWNER, step_up=StepUp.ON_SITE),
    Route("DELETE", "operators/<id>", revoke_operator, role=Role.OWNER, query=frozenset({"purge"})),
)
