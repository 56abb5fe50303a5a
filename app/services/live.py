"""The console's event stream: one reader of all rooms per worker, and the streams that get its frames.

A full frame lists every room; a delta only those that changed, as whole objects (ADM-090 … ADM-100). Nothing is ever
piled up for a slow reader: it gets the newest state as a full frame when it takes one (ADM-108). Not here: what a frame
says (live_frames.py), HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from app.core.clock import mono, wall_ms
from app.core.errors import StorageUnavailable, Unavailable
from app.core.jsonbody import dump
from app.core.metrics import SSE
from app.domain.incidents import Incident
from app.domain.principal import Principal
from app.domain.roles import Role
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rate_limiter import RateLimiter
from app.services.admin_health import AdminHealth
from app.services.live_frames import Frame, room_texts, totals
from app.services.people import People
from app.services.room_object import RoomView
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
REVOKED: Final = b'event: revoked\ndata: {"error":"unauthorized"}\n\n'

log = structlog.get_logger(__name__)


class TooManyStreams(Unavailable):
    """503 ``too_many_streams``: a cap is reached, or the instance is stopping."""

    code = "too_many_streams"
    sentence = "Too many open streams. Close one and try again."

    def __init__(self) -> None:
        super().__init__(retry_after_sec=10)


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
        rooms = await room_texts(views, before, for_links=any(stream.is_link for stream in self._streams))
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
        return dump(blocks)[1:]

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
