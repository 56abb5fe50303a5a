"""Questions about a room that change nothing: a visitor's ticket, its rules, a page (05, sections 11 and 12)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.core.errors import InvalidField
from app.domain.roles import Role
from app.services.rule_trial import try_rules
from blueprints.admin.routing import Call, Route, reply


async def read_ticket(call: Call) -> HTTPResponse:
    """One ticket by its number, or by a ref."""
    return reply(await call.qm.tickets.by_path(*call.args))


async def find_ticket(call: Call) -> HTTPResponse:
    """``?ref=`` or ``?q=``: whatever a visitor read out; ``?ref=&place=``: one of the candidates of a ref."""
    named = [name for name in ("ref", "q") if name in call.query]
    if len(named) != 1:
        raise InvalidField("q", "Send one of ref and q", fields=named or ["q"])
    if "place" in call.query:
        return reply(await call.qm.tickets.by_place(call.args[0], call.query.get("ref", ""), call.query["place"]))
    find = call.qm.tickets.by_ref if named == ["ref"] else call.qm.tickets.by_query
    return reply(await find(call.args[0], call.query[named[0]]))


async def test_rules(call: Call) -> HTTPResponse:
    """``{"url": …, "rules"?: [...]}``: which rule would win, and whether the page is covered."""
    return reply(await try_rules(call.qm.room_service, call.args[0], call.body()))


async def check_install(call: Call) -> HTTPResponse:
    """``?url=…[&origin=…]``: whether the browser tag works on this page, by settings and by what has arrived."""
    return reply(await call.qm.install_check.look(call.args[0], call.query))


ROUTES: Final = (
    Route("GET", "rooms/<id>/install-check", check_install, role=Role.VIEWER, query=frozenset({"url", "origin"})),
    Route("GET", "rooms/<id>/tickets", find_ticket, role=Role.VIEWER, query=frozenset({"ref", "q", "place"})),
    Route("GET", "rooms/<id>/tickets/<n>", read_ticket, role=Role.VIEWER),
    Route("POST", "rooms/<id>/rules/test", test_rules, role=Role.VIEWER),
)
