"""Rooms: list, read, create and change, delete (05, sections 8 to 10)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.core.clock import wall_ms
from app.core.jsonbody import dump
from app.core.pacing import in_turns
from app.domain.roles import Role
from app.services.live_frames import totals
from app.services.room_object import room_object
from app.services.room_reduced import object_for
from app.services.rooms import Saved
from blueprints.admin.confirmed import StepUp
from blueprints.admin.routing import Call, Route, reply, reply_text, tell

ROOMS_A_TURN: Final = 10
"""Rooms put into JSON before visitors' requests get their turn."""


async def list_rooms(call: Call) -> HTTPResponse:
    """Every room with its settings and figures, in order of creation, and the totals of the stream."""
    views = await call.qm.room_service.views()
    incidents = call.qm.admin_health.incidents()
    rooms = [dump(object_for(call.principal.role, view)) async for view in in_turns(views, ROOMS_A_TURN)]
    listed = ",".join(rooms)
    return reply_text(f'{{"ts":{wall_ms()},"rooms":[{listed}],"totals":{dump(totals(views, incidents))}}}')


async def read_room(call: Call) -> HTTPResponse:
    """One room."""
    return reply({"room": object_for(call.principal.role, await call.qm.room_service.view(call.args[0]))})


async def save_room(call: Call) -> HTTPResponse:
    """Create a room, or change the fields that were sent."""
    saved = await call.qm.room_service.upsert(
        call.body(),
        actor=call.actor,
        if_match=call.request.headers.get("if-match"),
        host=call.request.ctx.client.host,
        confirmed=call.is_confirmed,
    )
    if saved.created or saved.changed:
        act = "room_created" if saved.created else "room_updated"
        tell(call, act, room=saved.view.room.id, fields=",".join(saved.changed))
    return reply(saved_json(saved) | {"created": saved.created, "ignoredFields": saved.ignored})


async def delete_room(call: Call) -> HTTPResponse:
    """End a room for good; everyone in it is dropped."""
    call.no_body()
    room_id = call.args[0]
    deleted = await call.qm.room_service.delete(room_id, actor=call.actor, host=call.request.ctx.client.host)
    tell(call, "room_deleted", room=room_id, generation=deleted.generation)
    dropped = {
        "waiting": deleted.waiting,
        "preQueue": deleted.pre_queue,
        "passes": deleted.passes,
        "sessions": deleted.sessions,
    }
    told = {"generation": deleted.generation, "dropped": dropped, "warnings": deleted.warnings}
    return reply({"ok": True, "roomId": room_id, **told})


def saved_json(saved: Saved) -> dict[str, object]:
    """What every change of a room answers."""
    answer: dict[str, object] = {"room": room_object(saved.view), "changed": saved.changed, "warnings": saved.warnings}
    return answer if saved.drawn is None else answer | {"drawn": saved.drawn}


ROUTES: Final = (
    Route("GET", "rooms", list_rooms),
    Route("POST", "rooms", save_room, role=Role.OPERATOR, step_up=StepUp.BY_FIELDS),
    Route("GET", "rooms/<id>", read_room),
    Route("DELETE", "rooms/<id>", delete_room, role=Role.OWNER, step_up=StepUp.ON_SITE),
)
