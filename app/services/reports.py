"""Answers of ``GET /api/admin/reports``: rows of hours or days, as JSON or as a file, the running hour included.

Rows are made a few rooms and hours at a time, so that a long report holds neither memory nor the loop. Not here: what a
row says (domain/report.py), keeping of hours (hour_keeper.py). Source: OBS-160 … OBS-175, ADM-276 … ADM-281.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

import ujson

from app.core.clock import wall_ms
from app.core.errors import BadRequest, InvalidField, StorageUnavailable, UnknownField
from app.core.ids import RoomId
from app.domain.asked_time import asked_time
from app.domain.csv_text import csv_line
from app.domain.hour_record import HOUR_MS
from app.domain.report import BUCKETS, COLUMNS, NOTES, Life, report_row
from app.infrastructure.hour_store import HourStore, LiveHours, RoomHour
from app.infrastructure.room_directory import RoomDirectory
from app.services.heavy_pauses import Rest, never

PARAMETERS: Final = frozenset({"bucket", "from", "to", "roomId", "format"})
DEFAULT_MS: Final = {"hour": 24 * HOUR_MS, "day": 30 * 24 * HOUR_MS}
ROWS_MAX: Final = 10_000
RECORDS_A_TRIP: Final = 480
ROWS_A_TURN: Final = 20
DAY_HOURS: Final = 24


class RangeTooLarge(BadRequest):
    """400 ``range_too_large``: more rows than one JSON answer has (OBS-162)."""

    code = "range_too_large"
    sentence = f"This report has more than {ROWS_MAX} rows. Ask for less time or fewer rooms, or for format=csv."


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """What is asked for; times are epoch ms, ``end`` exclusive. ``rooms`` None: all."""

    bucket: str
    start: int
    end: int
    rooms: tuple[str, ...] | None
    is_csv: bool

    @property
    def file_name(self) -> str:
        """Name of the file (OBS-173)."""
        times = (datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y%m%dT%H%MZ") for ms in (self.start, self.end))
        return f"queue-report-{self.bucket}-{'-'.join(times)}.csv"


class Reports:
    """Answers. Raises RangeTooLarge, StorageUnavailable."""

    def __init__(
        self,
        *,
        rooms: RoomDirectory,
        live: LiveHours,
        store: HourStore,
        now: Callable[[], int] = wall_ms,
    ) -> None:
        self._rooms = rooms
        self._live = live
        self._store = store
        self._now = now

    async def json(self, query: ReportQuery, rest: Rest = never) -> dict[str, Any]:
        """The whole answer; ``rest`` is awaited between the trips of a long one."""
        unit = BUCKETS[query.bucket] // HOUR_MS
        first, end = _hours(query)
        if await self._store.count(first, end, unit, query.rooms, ROWS_MAX) > ROWS_MAX:
            raise RangeTooLarge
        rows = [row async for row in self._rows(query, rest)]
        if len(rows) > ROWS_MAX:
            raise RangeTooLarge
        return {
            "bucket": query.bucket,
            "from": query.start,
            "to": query.end,
            "generatedAt": int(self._now()),
            "notes": NOTES,
            "rows": rows,
        }

    async def csv(self, query: ReportQuery, rest: Rest = never) -> AsyncGenerator[str]:
        """All rows as CSV, in pieces; ``rest`` as in ``json``."""
        yield csv_line(COLUMNS)
        async for row in self._rows(query, rest):
            yield csv_line(ujson.dumps(value) if isinstance(value, bool) else value for value in row.values())

    async def _rows(self, query: ReportQuery, rest: Rest) -> AsyncIterator[dict[str, Any]]:
        """Rows by room and time."""
        now = int(self._now())
        first, end = _hours(query)
        live = await self._live_hours(query, first, end)
        names = sorted({*await self._store.rooms(first, end, query.rooms), *(hour.room_id for hour in live)})
        first = max(first, min([await self._store.first_hour() or end, *(hour.record.hour for hour in live)]))
        first -= first % (BUCKETS[query.bucket] // HOUR_MS)
        made = 0
        for some, since, until in _pieces(names, first, end):
            await rest()
            hours = await self._read(some, since, until, live)
            lives = await self._store.lives(sorted(set(map(_generation, hours))))
            for (room_id, start), group in groupby(hours, key=lambda hour: (hour.room_id, _start(hour, query.bucket))):
                found = list(group)
                own = [
                    lives.get(key) or _seen_life(key, found) for key in sorted({_generation(hour) for hour in found})
                ]
                yield report_row(room_id, query.bucket, start, [hour.record for hour in found], own, now)
                made += 1
                if made % ROWS_A_TURN == 0:
                    await asyncio.sleep(0)

    async def _read(self, rooms: Sequence[str], first: int, end: int, live: Sequence[RoomHour]) -> list[RoomHour]:
        """Records of some rooms and hours, each as the source that knows more of it has it."""
        found: dict[tuple[str, int, int, int], RoomHour] = {}
        wanted = set(rooms)
        for hour in [*await self._store.read(first, end, rooms), *live]:
            record = hour.record
            key = hour.room_id, record.hour, hour.generation, record.since
            known = found.get(key)
            is_here = hour.room_id in wanted and first <= record.hour < end
            if is_here and (known is None or known.record.covered_ms <= record.covered_ms):
                found[key] = hour
        return [found[key] for key in sorted(found)]

    async def _live_hours(self, query: ReportQuery, first: int, end: int) -> list[RoomHour]:
        """Hours of the live store, the running one among them; none while it is away (ADM-282)."""
        ids = [room.id for room in self._rooms.all() if query.rooms is None or room.id in query.rooms]
        found: list[RoomHour] = []
        try:
            for start in range(0, len(ids), 50):
                part = await self._live.read([RoomId(room_id) for room_id in ids[start : start + 50]], {})
                found += [hour for hours in part.values() for hour in hours]
        except StorageUnavailable:
            return []
        return [hour for hour in found if first <= hour.record.hour < end]


def report_query(parameters: Sequence[tuple[str, str]], now: int) -> ReportQuery:
    """The query of a request's parameters. Raises InvalidField, UnknownField (OBS-161, OBS-162)."""
    if unknown := [name for name, _ in parameters if name not in PARAMETERS]:
        raise UnknownField(*dict.fromkeys(unknown))
    single = {name: value for name, value in parameters if name != "roomId"}
    bucket = _choice(single, "bucket", tuple(BUCKETS))
    is_csv = _choice(single, "format", ("json", "csv")) == "csv"
    end = asked_time(single, "to")
    end = now if end is None else end
    start = asked_time(single, "from")
    start = end - DEFAULT_MS[bucket] if start is None else start
    if start >= end:
        raise InvalidField("from", "from must be before to", code="invalid_range", fields=["from", "to"])
    rooms = tuple(dict.fromkeys(value.replace("\0", "") for name, value in parameters if name == "roomId"))
    return ReportQuery(bucket, start, end, rooms or None, is_csv)


def _choice(parameters: dict[str, str], name: str, values: tuple[str, ...]) -> str:
    value = parameters.get(name, values[0])
    if value not in values:
        raise InvalidField(name, f"{name} must be {' or '.join(values)}")
    return value


def _hours(query: ReportQuery) -> tuple[int, int]:
    """Hours whose buckets touch the time asked for."""
    length = BUCKETS[query.bucket]
    unit = length // HOUR_MS
    return query.start // length * unit, -(-query.end // length) * unit


def _pieces(names: Sequence[str], first: int, end: int) -> list[tuple[Sequence[str], int, int]]:
    """Rooms and hours that are read together, whole days each, in the order of the rows."""
    hours = max(1, end - first)
    if hours <= RECORDS_A_TRIP:
        count = max(1, RECORDS_A_TRIP // hours)
        return [(names[at : at + count], first, end) for at in range(0, len(names), count)]
    days = range(first - first % DAY_HOURS, end, RECORDS_A_TRIP)
    return [([name], max(first, day), min(end, day + RECORDS_A_TRIP)) for name in names for day in days]


def _start(hour: RoomHour, bucket: str) -> int:
    return hour.record.hour * HOUR_MS // BUCKETS[bucket] * BUCKETS[bucket]


def _generation(hour: RoomHour) -> tuple[str, int]:
    return hour.room_id, hour.generation


def _seen_life(key: tuple[str, int], hours: Sequence[RoomHour]) -> Life:
    """Of a generation that the journal does not know yet: it began a moment ago."""
    return Life(min(hour.record.since for hour in hours if _generation(hour) == key))
