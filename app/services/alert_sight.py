"""One look at everything that alerts go by: what is wrong now, and what could not be seen.

Belongs here: reading the rooms and remembering what a later look needs. Not here: the conditions (alert_rooms.py), what
becomes of a trouble (domain/alerts.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from app.core.errors import StorageUnavailable
from app.core.settings import Settings
from app.domain.alerts import Trouble
from app.domain.room import Room
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.lua_loader import Commands
from app.infrastructure.refused_checks import refused_checks
from app.infrastructure.room_directory import RoomDirectory
from app.services.alert_fleet import FleetSight, TokensPast
from app.services.alert_rooms import Look, Past, recovering, troubles_of
from app.services.origin_watch import Met, of_fleet
from app.services.room_object import RoomView
from app.services.sites import Sites

ROOMS_A_TRIP: Final = 20
OF_FLEET: Final = ""
"""Stands for the fleet among the rooms of which something is remembered: no room has this id."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Seen:
    """What one look found."""

    troubles: list[Trouble] = field(default_factory=list)
    blind: set[str] = field(default_factory=set)
    """Events of which nothing can be said."""
    unseen: set[str] = field(default_factory=set)
    """Rooms of which nothing can be said, or but that they are being rebuilt."""
    recovering: set[str] = field(default_factory=set)
    knows_rooms: bool = True
    """False: no list of rooms was ever read, so nothing can be said of any."""
    remembered: dict[str, Any] = field(default_factory=dict)
    """By room, or OF_FLEET: what a later leader needs; None for a room that is gone."""

    def is_judged(self, trouble: Trouble) -> bool:
        """Whether this look could tell if the trouble still holds."""
        if trouble.room_id is None:
            return trouble.event not in self.blind
        if trouble.event == "rooms_recovering" and trouble.room_id in self.recovering:
            return True
        return self.knows_rooms and trouble.room_id not in self.unseen


class AlertSight:
    """Looks at everything: the rooms and the fleet. Calls raise StorageUnavailable."""

    def __init__(self, rooms: RoomSight, fleet: FleetSight) -> None:
        self._rooms = rooms
        self._fleet = fleet

    def recall(self, remembered: Mapping[str, Any]) -> None:
        """Go on from what an earlier leader remembered."""
        with contextlib.suppress(KeyError, TypeError, ValueError):  # of another release, or nothing yet
            self._fleet.tokens = TokensPast.from_json(remembered[OF_FLEET])
        self._rooms.recall({room_id: raw for room_id, raw in remembered.items() if room_id != OF_FLEET})

    async def look(self, now: int, open_events: Collection[str]) -> Seen:
        """Look once. ``open_events``: those that fire now."""
        fleet = await self._fleet.read()
        seen = await self._rooms.look(now, of_fleet({}, fleet.live))
        before = self._fleet.tokens
        troubles, seen.blind = await self._fleet.look(fleet, open_events)
        seen.troubles += troubles
        if self._fleet.tokens != before:
            seen.remembered[OF_FLEET] = self._fleet.tokens.to_json()
        return seen


class RoomSight:
    """Looks at the rooms. Calls raise StorageUnavailable."""

    def __init__(
        self, *, rooms: RoomDirectory, engine: EngineAdmin, valkey: Commands, sites: Sites, settings: Settings
    ) -> None:
        self._rooms = rooms
        self._engine = engine
        self._valkey = valkey
        self._sites = sites
        self._settings = settings
        self._past: dict[str, Past] = {}

    def recall(self, remembered: Mapping[str, Any]) -> None:
        """Go on from what an earlier leader remembered."""
        self._past = {}
        for room_id, raw in remembered.items():
            with contextlib.suppress(TypeError, ValueError):  # of another release: remembered anew
                self._past[room_id] = Past.from_json(raw)

    async def look(self, now: int, met: Mapping[str, Met]) -> Seen:
        """Look at all rooms. ``met``: what visitors of inline rooms met at their sites."""
        seen, rooms = Seen(knows_rooms=self._rooms.is_loaded), self._rooms.all()
        for start in range(0, len(rooms), ROOMS_A_TRIP):
            part = rooms[start : start + ROOMS_A_TRIP]
            try:
                await self._look_at(part, seen, now, met)
            except StorageUnavailable:
                raise
            except Exception:
                # One broken room must not hide the others: of its trip nothing is said, and the log has why.
                log.exception("rooms_not_looked_at", rooms=len(part))
                seen.unseen.update(room.id for room in part)
        if seen.knows_rooms:
            alive = {room.id for room in rooms}
            for room_id in [room_id for room_id in self._past if room_id not in alive]:
                del self._past[room_id]
                seen.remembered[room_id] = None
        return seen

    async def _look_at(self, rooms: Sequence[Room], seen: Seen, now: int, met: Mapping[str, Met]) -> None:
        found = await self._engine.figures([room.id for room in rooms])
        rooms = [room for room in rooms if room.id in found]
        await self._sites.refresh(rooms)
        living = [(room.id, room.generation) for room in rooms if found[room.id] is not None]
        refused = await refused_checks(self._valkey, self._settings.valkey_prefix, living)
        for room in rooms:
            figures = found[room.id]
            view = RoomView(room, figures, site=self._sites.of(room))
            if figures is None:
                seen.unseen.add(room.id)
                seen.recovering.add(room.id)
                seen.troubles.append(recovering(view))
                continue
            past = self._past.setdefault(room.id, Past())
            if past.saw(figures, now):
                seen.remembered[room.id] = past.to_json()
            past.saw_refused(refused.get(room.id, 0), now)
            settings = self._settings
            look = Look(
                view, figures, past, now, settings.alert_surge_min, settings.alert_surge_factor, met.get(room.id)
            )
            seen.troubles += troubles_of(look)
