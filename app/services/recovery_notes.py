"""What the recovery of an instance leaves for its health: rooms that are ahead of their journal, rebuilds that failed.

Source: FLT-084, FLT-100, CFG-213.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import ujson

from app.core.clock import mono
from app.core.ids import RoomId
from app.infrastructure.journal import Head
from app.infrastructure.metric_book import MetricBook

STUCK_SEC: Final = 60.0
"""How long a journal may stand still behind its room before somebody is told."""
TEXT: Final = "recovery"
REASON_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Ahead:
    """A room that is further than its journal, and does not come into it."""

    room: str
    live_seq: int
    journal_seq: int

    def to_json(self) -> dict[str, Any]:
        """An entry of ``backend.aheadRooms``."""
        return {"roomId": self.room, "liveSeq": self.live_seq, "journalSeq": self.journal_seq}

    @property
    def warning(self) -> str:
        """What to do about it."""
        return (
            f"room {self.room} is further in Valkey ({self.live_seq}) than in the journal ({self.journal_seq}): its "
            "changes are not recorded. Was an older Postgres restored? Restore the newer one, or empty the room's keys "
            "in Valkey so that it is rebuilt as the journal has it."
        )


@dataclass(slots=True)
class RecoveryNotes:
    """The notes of one recovery, left in ``book`` whenever they change."""

    book: MetricBook
    steady: Callable[[], float] = mono
    _failed: dict[str, str] = field(default_factory=dict)
    _behind: dict[str, tuple[int, int, float]] = field(default_factory=dict)
    """Room → position of its journal, of the room, since when the journal stands there."""
    _left: str = ""

    def compared(self, room: RoomId, head: Head | None, header: Mapping[str, Any] | None) -> None:
        """Note how a room that may answer stands to its journal."""
        self._failed.pop(room, None)
        if header is None or header["deleted"]:
            self._behind.pop(room, None)
            return
        live, stored = int(header["seq"]), 0
        if head is not None and head.gen == header["gen"] and head.epoch >= header["epoch"]:
            stored = head.seq
        if live <= stored:
            self._behind.pop(room, None)
            return
        known = self._behind.get(room)
        since = known[2] if known is not None and known[0] == stored else self.steady()
        self._behind[room] = stored, live, since

    def failed(self, room: RoomId, reason: str) -> None:
        """Note that a rebuild failed."""
        self._failed[room] = reason[:REASON_MAX]

    def leave(self, rooms: set[RoomId] | None = None) -> None:
        """Leave the notes for health; ``rooms``: all that there are, None = unknown."""
        if rooms is not None:
            self._behind = {room: found for room, found in self._behind.items() if room in rooms}
            self._failed = {room: found for room, found in self._failed.items() if room in rooms}
        limit = self.steady() - STUCK_SEC
        ahead = [[room, live, stored] for room, (stored, live, since) in self._behind.items() if since <= limit]
        text = ujson.dumps([ahead[:50], list(self._failed.items())[:50]], ensure_ascii=False)
        if text != self._left:
            self._left = text
            self.book.write_text(TEXT, text)


def read_notes(book: MetricBook) -> tuple[list[Ahead], dict[str, str]]:
    """Rooms ahead of their journal, and why rebuilds failed."""
    text = book.text(TEXT)
    ahead, failed = ujson.loads(text) if text else ([], [])
    return [Ahead(*one) for one in ahead], dict(failed)
