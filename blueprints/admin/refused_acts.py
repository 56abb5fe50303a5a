"""Audit entries of acts that were refused or failed: ``ok: false`` (ADM-140, ADM-251).

Other refusals, of a body or a role, leave none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from app.core.errors import BadRequest, BodyTooLarge, QmError
from app.services.inline_saves import InlineRequiresOwner
from app.services.rooms import NotRecorded
from app.services.stop_guard import BelowFleetMinimum

if TYPE_CHECKING:
    from blueprints.admin.routing import Call

ACTIONS: Final[Mapping[tuple[str, str], str]] = {
    ("POST", "rooms"): "room.update",
    ("DELETE", "rooms/<id>"): "room.delete",
    ("POST", "rooms/<id>/pause"): "room.state",
    ("POST", "rooms/<id>/resume"): "room.state",
    ("POST", "rooms/<id>/state"): "room.state",
    ("POST", "rooms/<id>/rate"): "room.rate",
    ("POST", "rooms/<id>/schedule"): "room.schedule",
    ("POST", "rooms/<id>/flush"): "room.flush",
    ("POST", "rooms/<id>/purge"): "room.purge",
    ("POST", "rooms/<id>/eject"): "visitor.eject",
    ("POST", "operators"): "operator.create",
    ("POST", "operators/<id>"): "operator.update",
    ("DELETE", "operators/<id>"): "operator.revoke",
    ("POST", "monitor-tokens"): "monitor_token.mint",
    ("POST", "monitor-tokens/<id>/reveal"): "monitor_token.reveal",
    ("DELETE", "monitor-tokens/<id>"): "monitor_token.revoke",
    ("DELETE", "monitor-tokens"): "monitor_token.revoke_all",
    ("POST", "shutdown"): "server.shutdown",
}
"""What the audit trail calls the act of a route."""
UNRECORDED: Final = "not recorded: it may have taken effect"


async def note_refused(call: Call, method: str, path: str, refusal: QmError) -> None:
    """Write down that ``refusal`` met an act that counts; nothing for any other."""
    action = ACTIONS.get((method, path))
    if action is None or not isinstance(refusal, InlineRequiresOwner | NotRecorded | BelowFleetMinimum):
        return
    if action == "operator.revoke" and "purge" in call.query:
        action = "operator.purge"
    detail = UNRECORDED
    if isinstance(refusal, InlineRequiresOwner):
        action = "room.create" if refusal.creating else "room.update"
        detail = f"{refusal.code}: {', '.join(refusal.members['fields'])}"
    if isinstance(refusal, BelowFleetMinimum):
        detail = f"{refusal.code}: {refusal.sentence}"
    await call.qm.audit_trail.note(call.actor, action, detail, room=_room(call, path), ok=False)


def _room(call: Call, path: str) -> str | None:
    """Id of the room that was meant, when it is one."""
    if path.startswith("rooms/"):
        return call.args[0]
    if path != "rooms":
        return None
    try:
        named = call.body().get("id")
    except (BadRequest, BodyTooLarge):
        return None
    return named if isinstance(named, str) else None
