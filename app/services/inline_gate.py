"""The gate of inline hosts: one decision per request (04, section 6).

Belongs here: the host index as this process sees it, the choice of the room, what happens while its live state cannot
be asked. Not here: the decision itself (check.py, the engine), answers and forwarding (the edge).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from app.core.errors import NoRoom, QmError, StorageUnavailable
from app.domain.client_address import Client
from app.domain.inline.hosts import HostIndex, InlineHost, index_of
from app.domain.room import Room
from app.infrastructure.engine_errors import StaleRoom
from app.infrastructure.engine_results import Reason, Verdict, Via
from app.infrastructure.rate_limiter import RateLimiter
from app.services.check import BackendDown, CheckService, CommitsFail, Gated
from app.services.inline_counts import InlineCounts, Passed
from app.services.undeclared import UndeclaredPeers
from app.services.visitor_proof import Visitor
from app.services.visitor_room import VisitorRoom, VisitorRooms

MISSES: Final = "bypass"
MISSES_MAX: Final = 300
"""Bypassed requests of one address a minute that the app may answer with 400 or above (INL-235)."""
VisitorMaker = Callable[[str], Visitor]
"""What the request presents for the room with this id."""


class Directory(Protocol):
    """The part of RoomDirectory that is used here."""

    def all(self) -> list[Room]:
        """Every room, in room order."""

    def on_change(self, handler: Callable[[], None]) -> None:
        """Call ``handler`` whenever a copy has changed."""


class Forward(NamedTuple):
    """The request goes to the app."""

    room_id: str
    cookies: tuple[bytes, ...] = ()
    generation: int = 0
    ticket: int = 0
    """Of the session that it rests on; 0 = none is needed."""


class Queued(NamedTuple):
    """The visitor waits."""

    room: VisitorRoom
    reason: str


class Closed(NamedTuple):
    """Nothing can be decided or recorded, and the room stays closed for it."""

    room_id: str
    error: QmError


class Again(Exception):
    """The room is not what this process knew: to be asked by ``decide``, with ``is_counted``."""


Decision = Forward | Queued | Closed
DecisionTold = Callable[[Decision | None, BaseException | None], None]
"""Hears a decision, or why there is none."""


class InlineGate:
    """Decides for one web worker. ``on_index``: hears of every new host index; None = no room is inline."""

    def __init__(
        self,
        *,
        directory: Directory,
        rooms: VisitorRooms,
        check: CheckService,
        counts: InlineCounts,
        undeclared: UndeclaredPeers,
        limiter: RateLimiter,
    ) -> None:
        self._limiter = limiter
        self._directory = directory
        self._rooms = rooms
        self._check = check
        self._undeclared = undeclared
        self.counts = counts
        self.index = HostIndex()
        self._is_due = False
        self._on_index: Callable[[HostIndex | None], None] | None = None

    def start(self, on_index: Callable[[HostIndex | None], None]) -> None:
        """Build the index, now and after every change of a room."""
        self._on_index = on_index
        self._directory.on_change(self._changed)
        self._rebuild()

    def _changed(self) -> None:
        """Many copies may change at once: one new index for all of them, before the next request is read."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._rebuild)

    def _rebuild(self) -> None:
        self._is_due = False
        self.index = index_of(self._directory.all())
        if self._on_index is not None:
            self._on_index(self.index if self.index.hosts else None)

    def may_bypass(self, client: Client, host: InlineHost, url: str) -> bool:
        """Tell whether a media file passes by the gate: unless a rule names it, or its asker has made up too many
        names (INL-235, INL-239)."""
        if host.protects_file(url):
            return False
        if not self._limiter.is_spent(MISSES, client.key, MISSES_MAX):
            return True
        self.counts.count(host.first.id, Passed.BYPASS_REFUSED)
        return False

    def missed(self, client: Client) -> None:
        """The app had no such file, or refused it."""
        self._limiter.take(MISSES, client.key, MISSES_MAX)

    def ask(
        self, host: InlineHost, client: Client, url: str, present: VisitorMaker, told: DecisionTold, *, is_forced: bool
    ) -> bool:
        """``decide`` by the shortest way; False = nothing was done, take that.

        ``told`` hears once of the decision, in this call or later; or Again; or what nobody expected.
        """
        room = self._room_of(host, url, present, is_forced=is_forced)
        if room is None:
            return False
        is_alike = self._undeclared.is_marked(client)
        asked_url = None if is_forced else url
        hears = partial(self._told, room, told)
        if not self._check.ask(room, present(room.id), asked_url, hears, Via.INLINE, is_alike=is_alike):
            return False
        self.counts.count(room.id, Passed.GATED)
        return True

    def _told(self, room: VisitorRoom, told: DecisionTold, gated: Gated | None, error: BaseException | None) -> None:
        if gated is not None:
            told(_decision(gated), None)
        elif isinstance(error, QmError):
            told(self._failed(room, error), None)
        elif isinstance(error, StaleRoom):
            told(None, Again())
        else:
            told(None, error)

    async def decide(
        self,
        host: InlineHost,
        client: Client,
        url: str,
        present: VisitorMaker,
        *,
        is_forced: bool = False,
        is_counted: bool = False,
    ) -> Decision:
        """Whether a request for ``url`` goes on. ``is_forced``: no rule takes it out of the queue (INL-233).

        ``is_counted``: ``ask`` has counted it.
        """
        room = self._room_of(host, url, present, is_forced=is_forced)
        if room is None:
            return Closed(host.first.id, BackendDown())
        if not is_counted:
            self.counts.count(room.id, Passed.GATED)
        asked_url = None if is_forced else url
        try:
            gated = await self._check.gate(
                room, present(room.id), asked_url, is_alike=self._undeclared.is_marked(client)
            )
        except QmError as error:
            return self._failed(room, error)
        return _decision(gated)

    def _failed(self, room: VisitorRoom, error: QmError) -> Decision:
        if isinstance(error, StorageUnavailable) and not isinstance(error, CommitsFail):
            return self._without_state(room.room, BackendDown())
        if isinstance(error, NoRoom):  # deleted a moment ago: the index follows (INL-191)
            return Closed(room.id, BackendDown())
        return Closed(room.id, error)

    def _room_of(self, host: InlineHost, url: str, present: VisitorMaker, *, is_forced: bool) -> VisitorRoom | None:
        """The room that gates the URL; where none covers it, the one whose session may be the visitor's."""
        if is_forced or len(host.rooms) == 1:
            return self._rooms.peek(host.first.id)
        rooms = [room for each in host.rooms if (room := self._rooms.peek(each.id)) is not None]
        for room in rooms:
            if room.covers(url)[0]:
                return room
        return next((room for room in rooms if present(room.id).tokens), rooms[0] if rooms else None)

    def _without_state(self, room: Room, error: BackendDown) -> Decision:
        """Closed unless its operator would rather be slow (INL-187 … INL-189)."""
        is_open = room.config.on_backend_down == "open"
        self.counts.backend_down(room.id, is_open=is_open)
        return Forward(room.id) if is_open else Closed(room.id, error)


def _decision(gated: Gated) -> Decision:
    if gated.answer.verdict is Verdict.QUEUE:
        return Queued(gated.room, _WORDS[gated.answer.reason])
    answer = gated.answer
    return Forward(gated.room.id, tuple(gated.cookies), answer.generation, answer.ticket)


_WORDS: Final = {reason: reason.word for reason in Reason}
