"""Acts on a room's line: pause, resume, state, rate, flush, purge, eject (05, section 10)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.domain.roles import Role
from app.services.rooms import Saved
from blueprints.admin.rooms import saved_json
from blueprints.admin.routing import Call, Route, reply, tell


async def pause(call: Call) -> HTTPResponse:
    """Nobody is let in from now on."""
    call.no_body()
    return _changed(call, await call.qm.line_service.pause(call.args[0], actor=call.actor))


async def resume(call: Call) -> HTTPResponse:
    """A paused room lets people in again; any other stays as it is."""
    call.no_body()
    return _changed(call, await call.qm.line_service.resume(call.args[0], actor=call.actor))


async def set_state(call: Call) -> HTTPResponse:
    """``{"state": "active"|"paused"|"bypass"}``."""
    return _changed(call, await call.qm.line_service.set_state(call.args[0], call.body(), actor=call.actor))


async def set_rate(call: Call) -> HTTPResponse:
    """``{"ratePerMinute": n}`` or ``{"rate": n}``."""
    return _changed(call, await call.qm.line_service.set_rate(call.args[0], call.body(), actor=call.actor))


async def flush(call: Call) -> HTTPResponse:
    """Everybody who waits now is let in; answered after the commit."""
    call.no_body()
    room_id = call.args[0]
    flushed = await call.qm.line_service.flush(room_id, actor=call.actor)
    tell(call, "line_flushed", room=room_id, flushed=flushed)
    return reply({"ok": True, "roomId": room_id, "flushed": flushed})


async def purge(call: Call) -> HTTPResponse:
    """Everybody in line and in the pre-queue is dropped; answered after the commit."""
    call.no_body()
    room_id = call.args[0]
    waiting, pre_queue = await call.qm.line_service.purge(room_id, actor=call.actor)
    tell(call, "line_purged", room=room_id, waiting=waiting, pre_queue=pre_queue)
    return reply({"ok": True, "roomId": room_id, "purged": {"waiting": waiting, "preQueue": pre_queue}})


async def schedule(call: Call) -> HTTPResponse:
    """``{"opensAt": …, "preQueueMaxPerIp": …}``, either or both; answered after the commit."""
    saved = await call.qm.line_service.schedule(call.args[0], call.body(), actor=call.actor)
    if saved.changed:
        config, figures = saved.view.room.config, saved.view.figures
        tell(
            call,
            "room_scheduled",
            room=config.id,
            opens_at=config.opens_at,
            fields=",".join(saved.changed),
            pre_queue=None if figures is None else figures.pre_queue,
            drawn_at_once=saved.drawn or 0,
        )
    return reply(saved_json(saved))


async def eject(call: Call) -> HTTPResponse:
    """``{"ticket": n}``: cancel its pass and session; answered after the commit."""
    room_id = call.args[0]
    ticket, was = await call.qm.line_service.eject(room_id, call.body(), actor=call.actor)
    tell(call, "visitor_ejected", room=room_id, ticket=ticket, was=was)
    return reply({"ok": True, "roomId": room_id, "ticket": ticket, "was": was})


def _changed(call: Call, saved: Saved) -> HTTPResponse:
    if saved.changed:
        config = saved.view.room.config
        tell(call, "room_updated", room=config.id, state=config.state.word, rate=config.rate_per_minute)
    return reply(saved_json(saved))


ROUTES: Final = (
    Route("POST", "rooms/<id>/pause", pause, role=Role.OPERATOR),
    Route("POST", "rooms/<id>/resume", resume, role=Role.OPERATOR),
    Route("POST", "rooms/<id>/state", set_state, role=Role.OPERATOR),
    Route("POST", "rooms/<id>/rate", set_rate, role=Role.OPERATOR),
    Route("POST", "rooms/<id>/flush", flush, role=Role.OPERATOR),
    Route("POST", "rooms/<id>/purge", purge, role=Role.OPERATOR),
    Route("POST", "rooms/<id>/schedule", schedule, role=Role.OPERATOR),
    Route("POST", "rooms/<id>/eject", eject, role=Role.OPERATOR),
)
