"""Frames of the console's stream: what one look at all rooms found, as text that is made once for all who read it.

Belongs here: rooms as text, full frames and deltas, totals over the rooms (ADM-090 … ADM-100). Not here: looking, and
who is told (live.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from app.core.clock import mono
from app.core.errors import camel
from app.core.jsonbody import dump
from app.core.pacing import rest
from app.domain.incidents import Incident
from app.services.room_object import RoomView, line_wait, room_object
from app.services.room_reduced import reduced_object

YIELD_EVERY: Final = 10
"""Rooms put into JSON before visitors' requests get their turn."""

_shown = attrgetter(
    "state", "rate_per_minute", "waiting", "active", "pending_entry", "passes_outstanding", "joins_per_min",
    "passed_last_minute", "oldest_wait_sec", "last_ticket", "release_per_min", "est_is_floor",
    "checks_without_url", "blocked_return_urls", "shared_sessions", "top_address_slots",
    "last_switch", "last_switch_at", "last_change",
    "phase", "opens_at", "drawn_at", "pre_queue",
)  # fmt: skip
"""Figures that a room object shows; the others change all the time."""


_SUMMED: Final = (
    "waiting", "pre_queue", "active", "occupancy", "passes_outstanding", "joins_per_min", "passed_last_minute",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RoomJson:
    """One room's object as text, and what it was made from."""

    view: RoomView
    figures: tuple[Any, ...] | None
    text: str
    texts: dict[bool, str] = field(default_factory=dict)
    """The reduced text under True, once somebody needed it."""

    def is_of(self, view: RoomView, figures: tuple[Any, ...] | None) -> bool:
        """Tell whether the text still says what ``view`` says."""
        return (
            self.view.room is view.room
            and self.figures == figures
            and self.view.stale_since == view.stale_since
            and self.view.details == view.details
            and self.view.site == view.site
        )

    def read_by(self, is_link: bool) -> str:
        """The text for a monitor link, or for everybody else."""
        if not is_link:
            return self.text
        if True not in self.texts:
            self.texts[True] = dump(reduced_object(self.view))
        return self.texts[True]


@dataclass(frozen=True, slots=True)
class Frame:
    """What one tick found. Texts of it are made when a stream needs them, once each."""

    rooms: dict[str, RoomJson]
    now: int
    changed: list[RoomJson]
    """Rooms that differ from the frame before."""
    removed: list[str]
    tail: str
    is_sayable: bool
    """A delta can say what changed."""
    _made: dict[tuple[bool, bool], bytes] = field(default_factory=dict)

    def data(self, *, full: bool, is_link: bool) -> bytes:
        """The whole list, or the delta against the frame before; the whole list when no delta can say it."""
        is_delta = self.is_sayable and not full
        found = self._made.get((is_delta, is_link))
        if found is None:
            rooms = self.changed if is_delta else self.rooms.values()
            texts = [room.read_by(is_link) for room in rooms]
            found = _frame(is_delta, self.now, texts, self.removed if is_delta else [], self.tail)
            self._made[is_delta, is_link] = found
        return found


def totals(views: Sequence[RoomView], incidents: Sequence[Incident]) -> dict[str, Any]:
    """Sums over the rooms whose figures are known (None where there are rooms and nothing is known of any), the worst
    wait, the first incident."""
    figures = [view.figures for view in views if view.figures is not None]
    first = incidents[0] if incidents else None

    def total(name: str) -> int | None:
        return sum(getattr(room, name) for room in figures) if figures or not views else None

    return {
        "rooms": len(views),
        **{camel(name): total(name) for name in _SUMMED},
        "worstWait": worst_wait(views),
        "incident": None if first is None else {"code": first.code, "roomId": first.room_id, "text": first.text},
        "incidents": len(incidents),
    }


def worst_wait(views: Sequence[RoomView]) -> dict[str, Any]:
    """The longest estimate of the rooms that are still moving; rooms at ∞ are left out and counted (CON-035 …)."""
    waits = [(line_wait(view.figures), view) for view in views if view.figures is not None]
    standing = sum(wait is None for wait, _ in waits)
    moving = [(wait, view) for wait, view in waits if wait is not None]
    sec, view = max(moving, key=lambda item: item[0], default=(None, None))
    if standing and not sec:
        return {"sec": None, "kind": "infinite", "roomId": None, "excluded": 0, "notAdmitting": standing}
    is_floor = bool(sec) and view is not None and view.figures is not None and view.figures.est_is_floor
    return {
        "sec": sec,
        "kind": "floor" if is_floor else "estimate",
        "roomId": view.room.id if sec and view is not None else None,
        "excluded": standing,
        "notAdmitting": standing,
    }


async def room_texts(views: Sequence[RoomView], before: dict[str, RoomJson], *, for_links: bool) -> dict[str, RoomJson]:
    """Every room's object as text, in order; a room that shows the same keeps the very same entry.

    ``for_links``: the reduced texts will be needed too.
    """
    rooms: dict[str, RoomJson] = {}
    made, began = 0, mono()
    for view in views:
        figures = None if view.figures is None else _shown(view.figures)
        known = before.get(view.room.id)
        if known is None or not known.is_of(view, figures):
            known = RoomJson(view, figures, dump(room_object(view)))
            if for_links:
                known.read_by(True)
            made += 1
            if made % YIELD_EVERY == 0:
                await rest(began)
                began = mono()
        rooms[view.room.id] = known
    return rooms


def _frame(is_delta: bool, now: int, rooms: list[str], removed: list[str], tail: str) -> bytes:
    head = f'{{"delta":{"true" if is_delta else "false"},"ts":{now},"rooms":['
    return (head + ",".join(rooms) + f'],"removed":{dump(removed)},' + tail).encode()
