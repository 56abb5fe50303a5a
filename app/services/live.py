"""The console's event stream: one reader of all rooms per worker, and the frames it makes for every open stream.

A full frame lists every room; a delta only those that changed, as whole objects (ADM-090 … ADM-100). Nothing is ever
piled up for a slow reader: it gets the newest state as a full frame when it takes one (ADM-108). Not here: HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import structlog
import ujson

from app.core.clock import mono, wall_ms
from app.core.errors import StorageUnavailable, Unavailable
from app.core.metrics import SSE
from app.domain.incidents import Incident
from app.domain.principal import Principal
from app.domain.roles import Role
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rate_limiter import RateLimiter
from app.services.admin_health import AdminHealth
from app.services.people import People
from app.services.room_object import RoomView, line_wait, room_object
from app.services.room_reduced import reduced_object
from app.services.rooms import RoomService
from app.services.sessions import Sessions, Standing

TICK_SEC: Final = 2.0
STREAMS_MAX: Final = 200
"""Open streams of one instance (ADM-107)."""
STREAMS_OF_TEAM: Final = 40
"""Of these, those that only operators and owners may open."""
STREAMS_OF_LINK: Final = 20
"""Open streams of one monitor link."""
_GAUGE: Final = "admin_streams"
UNVERIFIED_SEC: Final = 30.0
"""How long a stream stays open while its credential cannot be confirmed (ADM-105)."""
YIELD_EVERY: Final = 50
"""Rooms put into JSON before visitors' requests get their turn."""
REVOKED: Final = b'event: revoked\ndata: {"error":"unauthorized"}\n\n'

log = structlog.get_logger(__name__)

_shown = attrgetter(
    "state", "rate_per_minute", "waiting", "active", "pending_entry", "passes_outstanding", "joins_per_min",
    "passed_last_minute", "oldest_wait_sec", "last_ticket", "release_per_min", "est_is_floor",
    "checks_without_url", "blocked_return_urls", "shared_sessions", "top_address_slots",
    "last_switch", "last_switch_at", "last_change",
    "phase", "opens_at", "drawn_at", "pre_queue",
)  # fmt: skip
"""Figures that a room object shows; the others change all the time."""


class TooManyStreams(Unavailable):
    """503 ``too_many_streams``: a cap is reached, or the instance is stopping."""

    code = "too_many_streams"
    sentence = "Too many open streams. Close one and try again."

    def __init__(self) -> None:
        super().__init__(retry_after_sec=10)


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
            self.texts[True] = _dump(reduced_object(self.view))
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


@dataclass(eq=False)
class Stream:
    """One open stream. The blueprint takes frames with ``next`` and closes it at the end."""

    principal: Principal
    opener: bytes
    """As whose it is counted."""
    full_frames: int = 2
    """Full frames still owed: one at once, one at the next tick (ADM-092)."""
    number: int = 0
    is_over: bool = False
    unverified_since: float | None = None
    _waiting: bytes | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_link(self) -> bool:
        """Opened with a monitor link, which reads reduced rooms (ADM-096)."""
        return self.principal.role is Role.MONITOR

    def offer(self, frame: Frame) -> None:
        """Hand over a tick's frame; one that was not taken in time makes the next one full."""
        is_full = self.full_frames > 0 or self._waiting is not None
        self.full_frames = max(0, self.full_frames - 1)
        self._waiting = frame.data(full=is_full, is_link=self.is_link)
        self._news.set()

    def end(self, *, revoked: bool = False) -> None:
        """Let the reader end, after ``event: revoked`` if its credential is no good any more (ADM-103).

        The first word counts: a sign-out is heard of in several ways, and told once.
        """
        if self.is_over:
            return
        self.is_over = True
        self._waiting = REVOKED if revoked else None
        self._news.set()

    async def next(self) -> bytes | None:
        """The bytes to send next; None = close the connection."""
        while self._waiting is None and not self.is_over:
            self._news.clear()
            await self._news.wait()
        data, self._waiting = self._waiting, None
        if data is None or data is REVOKED:
            return data
        self.number += 1
        return b"id: %d\nevent: stats\ndata: " % self.number + data + b"\n\n"


class LiveFeed:
    """All admin streams of one worker. The reader runs only while somebody looks."""

    def __init__(
        self,
        *,
        rooms: RoomService,
        health: AdminHealth,
        sessions: Sessions,
        people: People,
        limiter: RateLimiter,
        book: MetricBook | None = None,
    ) -> None:
        """``limiter``: where the instance's workers count their streams together. ``book``: shows how many."""
        self._book = book or MetricBook.alone()
        self._rooms = rooms
        self._health = health
        self._sessions = sessions
        self._people = people
        self._limiter = limiter
        self._streams: set[Stream] = set()
        self._frame: Frame | None = None
        """The last tick's: what every delta refers to."""
        self._glance: tuple[float, Frame | None] = (-TICK_SEC, None)
        """When the last look for a new stream began, and what it saw."""
        self._is_stopped = False
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()

    @property
    def open_streams(self) -> int:
        """Streams of this worker."""
        return len(self._streams)

    async def open(self, principal: Principal) -> Stream:
        """A stream whose first full frame is ready. Raises Unavailable at the cap (ADM-107)."""
        if self._is_stopped:
            raise TooManyStreams
        self._enter(principal)
        stream = Stream(principal, _opener(principal))
        self._streams.add(stream)
        self._book.put(SSE, len(self._streams), "admin")
        try:
            frame = await self._newest()
        except BaseException:
            self.close(stream)
            raise
        if frame is not None:
            stream.offer(frame)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="live-feed")
        return stream

    def _enter(self, principal: Principal) -> None:
        """Count one more stream of the instance; Unavailable at a cap, so that no link keeps the team out (ADM-107)."""
        most = STREAMS_MAX if principal.role >= Role.OPERATOR else STREAMS_MAX - STREAMS_OF_TEAM
        own = STREAMS_OF_LINK if principal.link_id else 0
        if self._limiter.gauge_enter(_GAUGE, _opener(principal), per_key=own, in_all=most).over:
            raise TooManyStreams

    def close(self, stream: Stream) -> None:
        """Forget a stream that ended, whoever ended it."""
        stream.end()
        if stream not in self._streams:
            return
        self._streams.discard(stream)
        self._limiter.gauge_leave(_GAUGE, stream.opener)
        self._book.put(SSE, len(self._streams), "admin")

    def hear_signed_out(self, session_id: str) -> None:
        """Some process signed this session out: refuse it from now on, close its streams at once (ADM-101)."""
        if not session_id:  # nobody's: streams that were opened by a key have none
            return
        self._sessions.note_signed_out(session_id)
        for stream in [s for s in self._streams if s.principal.session_id == session_id]:
            stream.end(revoked=True)

    async def hear_changed(self, _text: str) -> None:
        """Some process changed operators or links: look at every credential now (ADM-101, ADM-104)."""
        await self._people.hear()
        await self._end_revoked()

    async def stop(self) -> None:
        """Close every stream, without ``revoked``, and open no further one (ADM-109)."""
        self._is_stopped = True
        for stream in list(self._streams):
            self.close(stream)
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _newest(self) -> Frame | None:
        """The state of this moment, for a new stream. The ticks' own sequence of frames is left alone.

        Streams that are opened while one looks share the next look.
        """
        asked = mono()
        async with self._looking:
            if self._glance[0] < asked:
                begun = mono()
                self._glance = (begun, await self._look(self._frame))
            return self._glance[1]

    async def _run(self) -> None:
        due = mono() + TICK_SEC
        while self._streams:
            await asyncio.sleep(max(0.0, due - mono()))
            due = max(due + TICK_SEC, mono())
            try:
                await self._tick()
            except Exception:
                log.exception("live_tick_failed")
        self._frame = None

    async def _tick(self) -> None:
        frame = await self._look(self._frame)
        await self._end_revoked()
        if frame is None:
            return
        self._frame = frame
        for stream in self._streams:
            if not stream.is_over:
                stream.offer(frame)

    async def _look(self, since: Frame | None) -> Frame | None:
        """All rooms of this moment, as a full frame and as a delta against ``since``."""
        try:
            views = await self._rooms.views()
        except StorageUnavailable:  # no list of rooms was ever read: nothing true can be said about them
            return None
        await self._health.look_around()
        before = since.rooms if since is not None else {}
        rooms = await _texts(views, before, for_links=any(stream.is_link for stream in self._streams))
        tail = self._tail(views, self._health.incidents())
        removed = [room_id for room_id in before if room_id not in rooms]
        applied = [room_id for room_id in before if room_id in rooms] + [r for r in rooms if r not in before]
        changed = [entry for room_id, entry in rooms.items() if before.get(room_id) is not entry]
        is_sayable = since is not None and applied == list(rooms)
        return Frame(rooms, wall_ms(), changed, removed, tail, is_sayable)

    def _tail(self, views: Sequence[RoomView], incidents: Sequence[Incident]) -> str:
        blocks = {
            "totals": totals(views, incidents),
            "server": self._health.server_block(),
            "backend": self._health.backend_block(views),
        }
        return _dump(blocks)[1:]

    async def _end_revoked(self) -> None:
        """Look at the credential of every stream again (ADM-102, ADM-105)."""
        streams = list(self._streams)
        found = await self._sessions.present([stream.principal for stream in streams]) if streams else []
        for stream, now in zip(streams, found, strict=True):
            if now is Standing.OVER:
                stream.end(revoked=True)
            elif now is Standing.UNSURE:
                stream.unverified_since = stream.unverified_since or mono()
                if mono() - stream.unverified_since >= UNVERIFIED_SEC:
                    stream.end()
            else:
                stream.principal, stream.unverified_since = now, None


def _opener(principal: Principal) -> bytes:
    """As whose a stream is counted: each monitor link by itself, the team together."""
    return principal.link_id.encode() or b"the team"


def totals(views: Sequence[RoomView], incidents: Sequence[Incident]) -> dict[str, Any]:
    """Sums over the rooms whose figures are known, the worst wait, the first incident."""
    figures = [view.figures for view in views if view.figures is not None]
    first = incidents[0] if incidents else None
    return {
        "rooms": len(views),
        "waiting": sum(room.waiting for room in figures),
        "preQueue": sum(room.pre_queue for room in figures),
        "active": sum(room.active for room in figures),
        "occupancy": sum(room.occupancy for room in figures),
        "passesOutstanding": sum(room.passes_outstanding for room in figures),
        "joinsPerMin": sum(room.joins_per_min for room in figures),
        "passedLastMinute": sum(room.passed_last_minute for room in figures),
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


async def _texts(views: Sequence[RoomView], before: dict[str, RoomJson], *, for_links: bool) -> dict[str, RoomJson]:
    """Every room's object as text, in order; a room that shows the same keeps the very same entry.

    ``for_links``: the reduced texts will be needed too.
    """
    rooms: dict[str, RoomJson] = {}
    made = 0
    for view in views:
        figures = None if view.figures is None else _shown(view.figures)
        known = before.get(view.room.id)
        if known is None or not known.is_of(view, figures):
            known = RoomJson(view, figures, _dump(room_object(view)))
            if for_links:
                known.read_by(True)
            made += 1
            if made % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        rooms[view.room.id] = known
    return rooms


def _frame(is_delta: bool, now: int, rooms: list[str], removed: list[str], tail: str) -> bytes:
    head = f'{{"delta":{"true" if is_delta else "false"},"ts":{now},"rooms":['
    return (head + ",".join(rooms) + f'],"removed":{_dump(removed)},' + tail).encode()


def _dump(value: Any) -> str:
    return ujson.dumps(value, escape_forward_slashes=False)
