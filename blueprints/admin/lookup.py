"""Questions about a room that change nothing: a trial of its rules (05, section 12)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.domain.roles import Role
from app.services.rule_trial import try_rules
from blueprints.admin.routing import Call, Route, reply


async def test_rules(call: Call) -> HTTPResponse:
    """``{"url": …, "rules"?: [...]}``: which rule would win, and whether the page is covered."""
    return reply(await try_rules(call.qm.room_service, call.args[0], call.body()))


ROUTES: Final = (Route("POST", "rooms/<id>/rules/test", test_rules, role=Role.VIEWER),)
