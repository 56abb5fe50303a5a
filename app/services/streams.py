"""Open ``/events`` streams of this worker: who listens, and when he is told something new.

Belongs here: the registry, one watch per room with streams, the frames. Not here: the socket (the blueprint hands in
a ``Sink``), opening rules (stream_open.py). A watch asks the engine for all streams that are due in one turn of the
loop, so they travel as batches; while the live store is away, streams carry heartbeats only (VIS-172).
Source: VIS-163 … VIS-174, VIS-229.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Protocol

import structlog

from app.core.clock import mono, wall_ms
from app.core.errors import NoRoom, StorageUnavailable
from app.domain.room import RoomState
from app.infrastructure.engine import MAX_BATCH, Engine
from app.infrastructure.engine_errors import StaleRoom
from app.infrastructure.engine_results import Proof, Reason, ViewState, VisitorView
from app.services.visitor import shown_values, state_json
from app.services.visitor_room import VisitorRoom, VisitorRooms
from app.services.visitor_tokens import Place, TokenIssuer

RETRY: Final = b"retry: 2000\n\n"
HEARTBEAT: Final = b": hb\n\n"
REFRESH: Final = b"event: refresh\ndata: {}\n\n"
HEARTBEAT_SEC: Final = 12.0
"""A comment at least every 15 s (VIS-165); sooner, since a busy worker may be late."""
SLICE_SEC: Final = 0.1
"""How often a watch looks whose turn it is."""
NEAR_GAP_SEC: Final = 2.0
FAR_GAP_SEC: Final = 5.0
"""Least time between two frames, up to position 1000 and behind it."""
FAR_POSITION: Final = 1000
LOOK_EARLIER_SEC: Final = 0.3
"""An unchanged state is looked at again this much before the gap is over, so that a change is told within it."""
MAX_UNSENT_BYTES: Final = 64 * 1024
MAX_PER_PLACE: Final = 6
MAX_A_ROUND: Final = 2000
"""Streams asked about in one turn; the rest follows in the next slice."""

log = structlog.get_logger(__name__)


class Sink(Protocol):
    """The sending end of one stream. Nothing here waits: a reader that is too slow is closed."""

    def write(self, frame: bytes) -> None:
        """Hand bytes to the socket."""

    def unsent(self) -> int:
        """Bytes that the socket has not taken yet."""

    def is_closed(self) -> bool:
        """The reader has gone."""

    def close(self) -> None:
        """End the response after what was written. May be called more than once."""


@dataclass(slots=True, eq=False)
class Stream:
    """One reader. Times are seconds of ``mono()``."""

    sink: Sink
    proof: Proof
    place: Place
    """Generation and ticket or handle, by which streams of one holder are told."""
    location: str
    """Where a pass leads: with the token that this stream's response set."""
    refresh_at: float
    """When the page has to come again for a fresh token (VIS-166)."""
    due: float = 0.0
    """When to look at it again."""
    frame_at: float = 0.0
    """When the last state was written."""
    wrote_at: float = 0.0
    """When anything was written."""
    shown: tuple[object, ...] = ()
    ahead: int = 0
    """Tickets before this one; places in the pre-queue, before the doors open."""
    has_number: bool = False
    is_passed: bool = False
    is_told: bool = False
    is_telling: bool = False
    """The engine is being told that the holder knows of his pass."""

    @property
    def generation(self) -> int:
        """Generation of the place."""
        return self.place[0]


@dataclass(slots=True)
class _Watch:
    """The streams of one room and the task that serves them."""

    room: VisitorRoom
    streams: dict[Stream, None] = field(default_factory=dict)
    places: dict[Place, list[Stream]] = field(default_factory=dict)
    """Streams by place, oldest first."""
    task: asyncio.Task[None] | None = None

    def add(self, stream: Stream) -> None:
        self.streams[stream] = None
        self.places.setdefault(stream.place, []).append(stream)

    def remove(self, stream: Stream) -> None:
        if stream not in self.streams:
            return
        del self.streams[stream]
        same_place = self.places[stream.place]
        same_place.remove(stream)
        if not same_place:
            del self.places[stream.place]


class Streams:
    """Registry of this worker. The owner calls ``stop`` before the process ends."""

    def __init__(self, *, engine: Engine, rooms: VisitorRooms, issuer: TokenIssuer, refresh_after_ms: int) -> None:
        """``refresh_after_ms``: age at which a token is signed anew (``TOKEN_REFRESH_AFTER_MS``)."""
        self._issuer = issuer
        self._engine = engine
        self._rooms = rooms
        self._refresh_after_sec = refresh_after_ms / 1000
        self._watches: dict[str, _Watch] = {}

    def __len__(self) -> int:
        return sum(len(watch.streams) for watch in self._watches.values())

    def add(self, room: VisitorRoom, stream: Stream, view: VisitorView) -> None:
        """Serve a stream whose first frame, showing ``view``, has been written."""
        stream.has_number = view.ticket != 0
        _note_frame(room, stream, view, mono())
        watch = self._watches.get(room.id)
        if watch is None:
            watch = self._watches[room.id] = _Watch(room)
            watch.task = asyncio.create_task(self._serve(watch), name=f"streams {room.id}")
        watch.add(stream)
        for oldest in watch.places[stream.place][:-MAX_PER_PLACE]:
            _close(watch, oldest)

    def remove(self, room_id: str, stream: Stream) -> None:
        """Forget a stream whose connection has ended."""
        watch = self._watches.get(room_id)
        if watch is not None:
            watch.remove(stream)

    def refresh_in_sec(self, room_id: str, place: Place) -> float:
        """Seconds until a stream of this place asks its page for a new token: spread by the place (VIS-166)."""
        spread = int.from_bytes(sha256(f"{room_id}\0{place[0]}\0{place[1]}".encode()).digest()[:4], "big") / (1 << 32)
        return self._refresh_after_sec * (1 + spread / 10)

    async def stop(self) -> None:
        """Close every stream; pages reconnect to another process (VIS-173)."""
        watches, self._watches = list(self._watches.values()), {}
        for watch in watches:
            for stream in list(watch.streams):
                _close(watch, stream)
            if watch.task is not None:
                watch.task.cancel()
        await asyncio.gather(*(w.task for w in watches if w.task is not None), return_exceptions=True)

    async def _serve(self, watch: _Watch) -> None:
        """Serve one room until its last stream has gone. One bad round is logged and the next one tried."""
        while watch.streams:
            await asyncio.sleep(SLICE_SEC)
            try:
                # A room that ended is told at once, also to streams whose turn comes only seconds later (VIS-170).
                if self._rooms.generation(watch.room.id) != watch.room.room.generation:
                    await self._renew_room(watch)
                await self._round(watch)
            except StorageUnavailable:
                continue
            except Exception:
                log.exception("stream_round_failed", room=watch.room.id)
        if self._watches.get(watch.room.id) is watch:
            del self._watches[watch.room.id]

    async def _round(self, watch: _Watch) -> None:
        """Look at the streams whose turn it is."""
        now = mono()
        asked = []
        for stream in [s for s in watch.streams if s.due <= now][:MAX_A_ROUND]:
            if _is_over(watch, stream, now):
                continue
            if now - stream.wrote_at >= HEARTBEAT_SEC:
                stream.sink.write(HEARTBEAT)
                stream.wrote_at = now
            stream.due = min(stream.refresh_at, now + _gap(watch.room, stream) - LOOK_EARLIER_SEC)
            stream.is_telling = stream.is_passed and not stream.is_told and stream.sink.unsent() == 0
            asked.append(stream)
        for start in range(0, len(asked), MAX_BATCH):
            await self._ask(watch, asked[start : start + MAX_BATCH])

    async def _ask(self, watch: _Watch, asked: Sequence[Stream]) -> None:
        room = watch.room
        try:
            views = await self._engine.statuses(room.room, [(s.proof, s.is_telling) for s in asked])
        except (StaleRoom, NoRoom):
            await self._renew_room(watch)
            return
        now = mono()
        for stream, view in zip(asked, views, strict=True):
            if stream in watch.streams:
                self._show(watch, stream, view, now)

    def _show(self, watch: _Watch, stream: Stream, view: VisitorView, now: float) -> None:
        """Write a frame if the state differs from the one last shown and the last frame is old enough."""
        if stream.is_telling:
            stream.is_told, stream.is_telling = True, False
        if shown_values(view) == stream.shown:
            return
        wait = stream.frame_at + _gap(watch.room, stream) - now
        if wait > 0:
            stream.due = min(stream.due, now + wait)
            return
        stream.sink.write(_frame_of(watch.room, stream, view, self._drawn(watch.room, stream, view)))
        _note_frame(watch.room, stream, view, now)
        if view.state is ViewState.GONE:
            _close(watch, stream)

    def _drawn(self, room: VisitorRoom, stream: Stream, view: VisitorView) -> bytes:
        """The ticket's token, in the first frame in which the holder of a handle has a number (ENG-181)."""
        if not view.ticket or stream.has_number:
            return b""
        stream.has_number = True
        token = self._issuer.token(room.id, (stream.generation, view.ticket))
        stream.location = room.tokened(stream.location, token)
        return b',"token":"%b"' % token.encode()

    async def _renew_room(self, watch: _Watch) -> None:
        """The copy is old or the room is gone: take the new one, and end the streams of an earlier generation."""
        try:
            watch.room = await self._rooms.reload(watch.room.id)
            generation = watch.room.room.generation
        except NoRoom:
            generation = None
        for stream in list(watch.streams):
            stream.due = 0.0
            if stream.generation != generation:
                stream.sink.write(_frame_of(watch.room, stream, gone_view(Reason.STALE_GENERATION)))
                _close(watch, stream)


def state_frame(state: bytes) -> bytes:
    """``event: state`` with a visitor state, which is one line of JSON."""
    return b"event: state\ndata: %b\n\n" % state


def _frame_of(room: VisitorRoom, stream: Stream, view: VisitorView, extra: bytes = b"") -> bytes:
    location = room.target if view.state is ViewState.BYPASS else stream.location
    return state_frame(state_json(room, view, generation=stream.generation, location=location, extra=extra))


def gone_view(reason: Reason) -> VisitorView:
    """A state that this process knows without asking: the place is over."""
    return VisitorView(
        state=ViewState.GONE, room_state=RoomState.ACTIVE, reason=reason, by_purge=False, ticket=0, ahead=0,
        joined_at=0, passed_at=0, pass_expires_at=0, claim_until=0, session_expires_at=0, release_per_min=0.0,
        est_is_floor=False, now=wall_ms(), owner_by_cookie=False,
    )  # fmt: skip


def _is_over(watch: _Watch, stream: Stream, now: float) -> bool:
    """Close a stream whose reader has gone or is too slow, or whose token has to be renewed."""
    sink = stream.sink
    if not sink.is_closed() and sink.unsent() <= MAX_UNSENT_BYTES:
        if now < stream.refresh_at:
            return False
        sink.write(REFRESH)
    _close(watch, stream)
    return True


def _close(watch: _Watch, stream: Stream) -> None:
    watch.remove(stream)
    stream.sink.close()


def _note_frame(room: VisitorRoom, stream: Stream, view: VisitorView, now: float) -> None:
    """Remember what a frame has just shown."""
    stream.frame_at = stream.wrote_at = now
    stream.shown = shown_values(view)
    stream.ahead = view.schedule.pre_count if view.handle and view.schedule else view.ahead
    stream.is_passed = view.state is ViewState.PASSED
    stream.is_told = stream.is_told and stream.is_passed
    # A pass has to be marked as told as soon as the frame has left; anything else waits for the gap.
    stream.due = now if stream.is_passed and not stream.is_told else now + _gap(room, stream)
    stream.due = min(stream.due, stream.refresh_at)


def _gap(room: VisitorRoom, stream: Stream) -> float:
    """Least seconds between two frames. A holder must be seen well within ``presenceSec`` too (ENG-138)."""
    is_far = stream.ahead >= FAR_POSITION
    return min(FAR_GAP_SEC if is_far else NEAR_GAP_SEC, LOOK_EARLIER_SEC + room.room.config.presence_sec * 0.4)
