"""What an installer is told about his installation: key, room, state, origin, return address and rule, one by one.

Nobody is admitted and nothing is counted by it. Not here: the key (connector_keys.py), limits.
Source: VIS-142 … VIS-144.
"""

from __future__ import annotations

from typing import Any

from app.core.errors import NoRoom
from app.domain.origins import parse_origin
from app.domain.url_rules import page_of
from app.infrastructure.engine import Engine
from app.infrastructure.engine_results import Presented, Proof
from app.services.connector_keys import Holder
from app.services.visitor_room import VisitorRoom, VisitorRooms

_NOBODY = Proof(Presented.NONE, 0, 0, b"", bytes(16), b"")

Check = dict[str, Any]


class VerifyService:
    """Answers ``GET /api/verify``."""

    def __init__(self, *, engine: Engine, rooms: VisitorRooms) -> None:
        self._engine = engine
        self._rooms = rooms

    async def verify(self, holder: Holder, room_id: str, origin: str | None, url: str | None) -> dict[str, Any]:
        """The answer's members. ``origin`` and ``url`` None: not asked about. Raises StorageUnavailable."""
        checks = [_check("key", True, f"{holder} accepted")]
        try:
            room = await self._rooms.find(room_id)
            checks += await self._rooms.current(room, lambda current: self._of_room(current, origin, url))
        except NoRoom:
            checks.append(_check("room", False, "There is no room of this name here"))
        return {"ok": all(check["ok"] for check in checks), "roomId": room_id, "checks": checks}

    async def _of_room(self, room: VisitorRoom, origin: str | None, url: str | None) -> list[Check]:
        view = await self._engine.status(room.room, _NOBODY, told=False, seen=False)
        name, generation = room.room.config.name, room.room.generation
        checks = [
            _check("room", True, f"{name}, generation {generation}"),
            _check("state", True, view.room_state.word),
        ]
        if origin is not None:
            checks.append(_origin(room, origin))
        if url is not None:
            checks += [_return_url(room, url), _rule(room, url)]
        return checks


def _origin(room: VisitorRoom, origin: str) -> Check:
    """Whether the tag may ask on pages of ``origin``. The fix never widens where visitors may be sent (VIS-144)."""
    if room.allows_tag(origin.encode("utf-8", "replace")):
        return _check("origin", True, f"{origin} may ask about this room")
    if parse_origin(origin) is None:
        return _check("origin", False, f'"{origin[:200]}" is no origin of the form scheme://host[:port]')
    config = room.room.config
    present = config.return_origins if config.tag_origins is None else config.tag_origins
    message = f"{origin} is not in tagOrigins"
    return {**_check("origin", False, message), "fix": {"tagOrigins": [*present, origin]}}


def _return_url(room: VisitorRoom, url: str) -> Check:
    if room.accepted_return(url) is not None:
        return _check("returnUrl", True, "Visitors from this page will be sent back to it")
    return _check("returnUrl", False, "Visitors from this page will be sent to the target URL")


def _rule(room: VisitorRoom, url: str) -> Check:
    covered, is_readable, _ = room.covers(url)
    if not is_readable:
        return {**_check("rule", False, "This address cannot be read: such a page is covered"), "covered": True}
    rule = room.rules.judge(page_of(url)).rule
    how = "Covered" if covered else "Not covered"
    if rule is not None:
        return {**_check("rule", True, f"{how} by rule {rule}"), "rule": rule, "covered": covered}
    why = "no rule fits" if room.room.config.rules else "the room has no rules"
    return {**_check("rule", True, f"{how}: {why}"), "covered": covered}


def _check(name: str, ok: bool, message: str) -> Check:
    return {"id": name, "ok": ok, "message": message}
