"""Opening a stream: caps, the first state, the token signed anew. Source: VIS-087, VIS-163 … VIS-171.

Belongs here: what is decided before the first byte of ``/events``. Not here: the frames after it (streams.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.core.clock import mono, wall_ms
from app.core.errors import RateLimited, Unavailable
from app.domain.client_address import Client
from app.infrastructure.engine import Engine
from app.infrastructure.engine_results import VisitorView
from app.infrastructure.rate_limiter import RateLimiter
from app.services.streams import RETRY, Sink, Stream, Streams, state_frame
from app.services.visitor import holds_ticket, state_json
from app.services.visitor_proof import Identifier, Identity, Visitor
from app.services.visitor_room import VisitorRoom, VisitorRooms
from app.services.visitor_tokens import TokenIssuer, place_of

RETRY_AFTER_SEC: Final = 30
_GAUGE: Final = "sse"


@dataclass(slots=True)
class Opening:
    """A stream that may begin. ``start`` it after ``first`` was written; nothing follows when ``is_over``."""

    first: bytes
    """The first frames."""
    cookies: list[bytes]
    room: VisitorRoom
    view: VisitorView
    identity: Identity
    location: str

    @property
    def is_over(self) -> bool:
        """Without a place of the visitor's own the stream ends after its first state (VIS-171)."""
        return not holds_ticket(self.view)


class StreamOpener:
    """Decides who gets a stream."""

    def __init__(
        self,
        *,
        engine: Engine,
        rooms: VisitorRooms,
        identifier: Identifier,
        issuer: TokenIssuer,
        limiter: RateLimiter,
        streams: Streams,
        per_address: int,
        in_all: int,
    ) -> None:
        """``per_address`` and ``in_all``: ``SSE_PER_IP`` and ``SSE_MAX_TOTAL``; 0 = no cap."""
        self._engine = engine
        self._rooms = rooms
        self._identifier = identifier
        self._issuer = issuer
        self._limiter = limiter
        self._streams = streams
        self._per_address = per_address
        self._in_all = in_all

    def enter(self, client: Client) -> None:
        """Count one more stream of this address; ``leave`` has to follow. Raises ``sse_limit`` or ``sse_full``."""
        entry = self._limiter.gauge_enter(_GAUGE, client.key, per_key=self._per_address, in_all=self._in_all)
        if not entry.entered:
            self._limiter.counters.add("sse_refused")
        if entry.over == "key":
            raise RateLimited(
                "This address has as many live updates open as it may. The page goes on by asking.",
                code="sse_limit",
                headers={"Retry-After": str(RETRY_AFTER_SEC)},
            )
        if entry.over == "total":
            raise Unavailable(
                "No more live updates can be opened here just now. The page goes on by asking.",
                code="sse_full",
                retry_after_sec=RETRY_AFTER_SEC,
                headers={"X-QM-Queued": "1"},
            )

    def leave(self, client: Client) -> None:
        """The stream counted by ``enter`` has ended."""
        self._limiter.gauge_leave(_GAUGE, client.key)

    async def open(self, room_id: str, visitor: Visitor, return_url: str | None, *, read_only: bool = False) -> Opening:
        """Read the first state. ``read_only`` (``HEAD``): not seen by it. Raises NoRoom, StorageUnavailable."""
        room = await self._rooms.find(room_id)
        return await self._rooms.current(
            room, lambda current: self._open(current, visitor, return_url, seen=not read_only)
        )

    def start(self, opening: Opening, sink: Sink) -> Stream:
        """Serve the stream from now on."""
        place = place_of(opening.identity.proof.generation, opening.view)
        refresh_at = mono() + self._streams.refresh_in_sec(opening.room.id, place)
        stream = Stream(sink, opening.identity.proof, place, location=opening.location, refresh_at=refresh_at)
        self._streams.add(opening.room, stream, opening.view)
        return stream

    def end(self, room_id: str, stream: Stream) -> None:
        """The connection has ended."""
        self._streams.remove(room_id, stream)

    async def _open(self, room: VisitorRoom, visitor: Visitor, return_url: str | None, *, seen: bool) -> Opening:
        identity = self._identifier.identify(room, visitor, wall_ms())
        if identity.others:
            identity = await self._identifier.settle(room, visitor, identity)
        view = await self._engine.status(room.room, identity.proof, told=False, seen=seen, bind=seen)
        generation = identity.proof.generation
        if not holds_ticket(view):
            state = state_json(room, view, generation=generation, location=room.destination(return_url))
            return Opening(_first(state), [], room, view, identity, "")
        place = place_of(generation, view)
        issued = await self._issuer.renew(room, visitor, identity, place, by_cookie=view.owner_by_cookie)
        location = room.destination_with_token(return_url, issued.token)
        extra = b',"token":"%b"' % issued.token.encode()
        state = state_json(room, view, generation=generation, location=location, extra=extra)
        return Opening(_first(state), issued.cookies, room, view, identity, location)


def _first(state: bytes) -> bytes:
    return RETRY + state_frame(state)
