"""Audit trail and timeline in Postgres: written in the transaction that journals the acts, read by the admin API.

Not here: what is noted and in which words (domain/notes.py). Source: ADM-195, ADM-196, ADM-245 … ADM-252, ADM-260.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog
import ujson

from app.core.ids import RoomId
from app.domain.facts import FactType, UnknownFact
from app.domain.notes import Note, notes_of
from app.infrastructure.postgres import Postgres
from app.infrastructure.queries import QUERIES

if TYPE_CHECKING:
    from app.infrastructure.postgres import PooledLink

KEPT_MS: Final = 86_400_000
"""Life of a mark (ADM-196)."""
STEP_ROWS: Final = 1000
"""Most rows of one read (BUD-076)."""
MARKS_MAX: Final = 10_000
"""Most marks of one answer."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Filters of the audit trail; None = not asked for. Times are epoch ms, ``before`` an id."""

    room: str | None = None
    action: str | None = None
    actor: str | None = None
    start: int | None = None
    end: int | None = None
    ok: bool | None = None
    before: int | None = None
    limit: int = 100


async def config_before(link: PooledLink, room: RoomId, gen: int) -> dict[str, Any]:
    """The room's configuration as journaled so far; {} when there is none."""
    raw = await link.fetchval(QUERIES["notes_config_before"], room, gen)
    config: dict[str, Any] = ujson.loads(raw) if isinstance(raw, str) else raw or {}
    return config


async def note(link: PooledLink, room: RoomId, row: tuple[int, int, int, bytes], before: dict[str, Any]) -> None:
    """Write the notes of one fact, ``row``: type, lv, at, body. ``before``: see ``notes_of``."""
    kind, lv, at, body = row
    try:
        notes = notes_of(kind, lv, at, body, before)
    except (UnknownFact, LookupError, TypeError, ValueError):
        # A fact of a later build is journaled all the same: what this build cannot word must not stop the room.
        log.exception("act_not_noted", room=room, type=kind, lv=lv)
        return
    if notes:
        await link.execute(QUERIES["notes_audit"], *_audit_columns(notes), room)
    if kind == FactType.ROOM_DELETED:
        await link.execute(QUERIES["notes_room_gone"], room)
    marks = [each for each in notes if each.mark]
    if marks:
        await link.execute(QUERIES["notes_marks"], *_mark_columns(marks), room)


def _mark_columns(marks: Sequence[Note]) -> list[list[Any]]:
    return [
        [mark.at for mark in marks],
        [mark.mark for mark in marks],
        [mark.text for mark in marks],
        [str(mark.actor) for mark in marks],
    ]


def _audit_columns(notes: Sequence[Note]) -> list[list[Any]]:
    return [
        [note.at for note in notes],
        [str(note.actor) for note in notes],
        [note.actor.kind for note in notes],
        [note.actor.ident for note in notes],
        [note.actor.role for note in notes],
        [note.action for note in notes],
        [note.detail for note in notes],
        [note.actor.ip for note in notes],
        [note.actor.instance for note in notes],
    ]


class NotesStore:
    """Reads both, and drops old marks. Every method raises StorageUnavailable."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    async def audit(self, query: AuditQuery) -> list[dict[str, Any]]:
        """Entries, newest first; no more than STEP_ROWS, whatever the limit."""
        limit = min(query.limit, STEP_ROWS)
        filters = (query.room, query.action, query.actor, query.start, query.end, query.ok, query.before, limit)
        return [dict(row) for row in await self._postgres.fetch(QUERIES["notes_read_audit"], *filters)]

    async def marks(
        self, room: RoomId | None, start: int, end: int | None, *, most: int = MARKS_MAX
    ) -> list[dict[str, Any]]:
        """Marks of a room, or of all, oldest first, at most ``most``; read in steps."""
        found: list[dict[str, Any]] = []
        last_id = 0
        while len(found) < most:
            count = min(STEP_ROWS, most - len(found))
            rows = await self._postgres.fetch(QUERIES["notes_read_marks"], room, start, end, count, last_id)
            found += map(dict, rows)
            if len(rows) < count:
                break
            start, last_id = rows[-1]["ts"], rows[-1]["id"]
        return found

    async def add_mark(self, room: RoomId, mark: Note) -> None:
        """A mark of what is no fact of the room; one of the same kind and time is there once."""
        await self._postgres.execute(QUERIES["notes_mark_once"], room, mark.at, mark.mark, mark.text, str(mark.actor))

    async def drop_marks(self, before: int) -> bool:
        """Delete some marks older than ``before``; True = there may be more."""
        done = await self._postgres.execute(QUERIES["notes_drop_marks"], before)
        return done == "DELETE 1000"
