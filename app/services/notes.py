"""Reading of the audit trail and of rooms' timelines: the questions of the admin API, and the files it gives.

Not here: what is noted (domain/notes.py), where (infrastructure/notes_store.py). Source: ADM-195, ADM-260 … ADM-265.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any, Final

from app.core.clock import wall_ms
from app.core.errors import InvalidField, NoRoom
from app.core.ids import RoomId
from app.domain.actor import SYSTEM
from app.domain.asked_time import asked_time
from app.domain.csv_text import csv_line, iso_time
from app.domain.field_checks import is_plain_text
from app.domain.notes import AUTOMATIC_MARKS
from app.infrastructure.notes_store import KEPT_MS, MARKS_MAX, STEP_ROWS, AuditQuery, NotesStore
from app.infrastructure.room_directory import RoomDirectory
from app.services.room_reduced import A_PERSON

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1000
NARROW_ROWS: Final = 500
"""Most rows that a web worker reads for one answer (BUD-075)."""
NARROW_MS: Final = 3_600_000
"""Longest time of a timeline of all rooms that a web worker reads (BUD-073)."""
COLUMNS: Final = (
    "id", "ts", "tsIso", "actor", "actorKind", "actorId", "role", "action", "roomId", "detail", "ok", "ip", "instance",
)  # fmt: skip
AUDIT_PARAMETERS: Final = frozenset({"roomId", "action", "actor", "from", "to", "ok", "limit", "before", "format"})
TIMELINE_PARAMETERS: Final = frozenset({"roomId", "from", "to"})


class Notes:
    """Answers about what was noted. Raises BadRequest, NoRoom, StorageUnavailable."""

    def __init__(self, store: NotesStore, rooms: RoomDirectory) -> None:
        self._store = store
        self._rooms = rooms

    async def audit(self, query: AuditQuery) -> dict[str, Any]:
        """A page of entries, newest first, and the cursor of the next one (ADM-260)."""
        rows = await self._store.audit(replace(query, limit=query.limit + 1))
        if len(rows) == STEP_ROWS == query.limit:  # the one that tells whether there are more is a step of its own
            rows += await self._store.audit(replace(query, before=rows[-1]["id"], limit=1))
        entries = [_entry(row) for row in rows[: query.limit]]
        more = len(rows) > query.limit
        return {"entries": entries, "next": str(entries[-1]["id"]) if more else None}

    async def audit_csv(self, query: AuditQuery) -> AsyncGenerator[str]:
        """All matching entries as CSV, a piece at a time, whatever their number (ADM-261)."""
        yield csv_line(COLUMNS)
        before = query.before
        while True:
            rows = await self._store.audit(replace(query, before=before, limit=LIMIT_MAX))
            if rows:
                yield "".join(audit_line(row) for row in rows)
                before = rows[-1]["id"]
            if len(rows) < LIMIT_MAX:
                return

    async def timeline(self, parameters: Mapping[str, str], *, with_names: bool = True) -> dict[str, Any]:
        """Marks of one room, or of all, of the last 24 h (ADM-195).

        Without names every person is ``operator`` (ADM-242).
        """
        rows = await self._marks(parameters, MARKS_MAX)
        return {"items": [_mark(row, with_name=with_names) for row in rows]}

    async def narrow_timeline(self, parameters: Mapping[str, str], *, with_names: bool) -> dict[str, Any] | None:
        """The same where little has to be read (BUD-073, BUD-075): of one room, or of an hour. None: it is too much."""
        start, end = _span(parameters)
        now = wall_ms()
        hour = min(end or now, now) - max(start or 0, now - KEPT_MS) <= NARROW_MS
        if "roomId" not in parameters and not hour:
            return None
        rows = await self._marks(parameters, NARROW_ROWS)
        if len(rows) == NARROW_ROWS:
            return None
        return {"items": [_mark(row, with_name=with_names) for row in rows]}

    async def _marks(self, parameters: Mapping[str, str], most: int) -> list[dict[str, Any]]:
        room = parameters.get("roomId")
        start, end = _span(parameters)
        if room is not None and await self._rooms.find(room) is None:
            raise NoRoom
        oldest = wall_ms() - KEPT_MS
        return await self._store.marks(None if room is None else RoomId(room), max(oldest, start or 0), end, most=most)


def audit_line(row: Mapping[str, Any]) -> str:
    """One entry as a line of the file; the seals of the trail are made from these (ADM-299)."""
    return csv_line(_cells(_entry(row)))


def audit_query(parameters: Mapping[str, str]) -> AuditQuery:
    """Filters of the query's parameters. Raises InvalidField."""
    start, end = _span(parameters)
    return AuditQuery(
        room=_text(parameters, "roomId"),
        action=_text(parameters, "action"),
        actor=_text(parameters, "actor"),
        start=start,
        end=end,
        ok=_flag(parameters, "ok"),
        before=_number(parameters, "before", 1, 2**63 - 1),
        limit=_number(parameters, "limit", 1, LIMIT_MAX) or LIMIT_DEFAULT,
    )


def is_csv(parameters: Mapping[str, str]) -> bool:
    """Tell whether a file is asked for. Raises InvalidField for another format."""
    wanted = parameters.get("format", "json")
    if wanted not in ("json", "csv"):
        raise InvalidField("format", "format must be json or csv")
    return wanted == "csv"


def _text(parameters: Mapping[str, str], name: str) -> str | None:
    """A filter that the store can compare with: it has no NUL."""
    text = parameters.get(name)
    if text is not None and not is_plain_text(text):
        raise InvalidField(name, f"{name} must be text without control characters")
    return text


def _span(parameters: Mapping[str, str]) -> tuple[int | None, int | None]:
    """``from`` and ``to``, the first before the second (ADM-019)."""
    start, end = asked_time(parameters, "from"), asked_time(parameters, "to")
    if start is not None and end is not None and start >= end:
        raise InvalidField("from", "from must be before to", code="invalid_range", fields=["from", "to"])
    return start, end


def _number(parameters: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and low <= int(text) <= high):
        raise InvalidField(name, f"{name} must be a whole number from {low} to {high}")
    return int(text)


def _flag(parameters: Mapping[str, str], name: str) -> bool | None:
    text = parameters.get(name)
    if text not in (None, "true", "false"):
        raise InvalidField(name, f"{name} must be true or false")
    return None if text is None else text == "true"


def _entry(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "ts": row["ts"],
        "actor": row["actor"],
        "actorKind": row["actor_kind"],
        "actorId": row["actor_id"],
        "role": row["role"],
        "action": row["action"],
        "roomId": row["room"],
        "detail": row["detail"],
        "ok": row["ok"],
        "ip": row["ip"],
        "instance": row["instance"],
    }


def _mark(row: Mapping[str, Any], *, with_name: bool) -> dict[str, Any]:
    anybody = SYSTEM if row["kind"] in AUTOMATIC_MARKS else A_PERSON
    return {
        "id": str(row["id"]),
        "ts": row["ts"],
        "roomId": row["room"],
        "kind": row["kind"],
        "text": row["text"],
        "actor": row["actor"] if with_name else anybody,
    }


def _cells(entry: Mapping[str, Any]) -> list[Any]:
    shown = {**entry, "tsIso": iso_time(entry["ts"]), "ok": "true" if entry["ok"] else "false"}
    return [shown[name] for name in COLUMNS]
