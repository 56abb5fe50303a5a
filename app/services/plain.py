"""The way of a visitor without script: his place by cookie, or a new one, told on one page that asks again by itself.

Belongs here: what is asked of the line and in which order, what follows from the answer, the page's own address. Not
here: words and form (plain_page.py), reading of the request (blueprints/visitor/plain.py). He joins through the very
service of ``/api/join`` and is told by the one of ``/api/status``. Source: PAG-152 … PAG-157, PAG-220.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

import ujson

from app.core.errors import QmError, StorageUnavailable
from app.domain.inline.hosts import PREFIX
from app.domain.room import Room
from app.services.join import JoinService
from app.services.plain_page import NOTICES, PlainPage, Told, View, tell
from app.services.plain_words import Texts
from app.services.protection import Asker
from app.services.small_pages import SmallDocument
from app.services.status import StatusService
from app.services.visitor import VisitorAnswer
from app.services.visitor_proof import Visitor

INTERVAL_SEC: Final = 30
LEAST_SEC: Final = 5
_GOES_IN: Final = frozenset({"passed", "active", "bypass"})
_REFUSALS: Final = {
    "queue_identity_limit": "refusedNetwork",
    "prequeue_identity_limit": "refusedNetwork",
    "line_full": "lineFull",
}


@dataclass(frozen=True, slots=True)
class Trip:
    """What the page's own address says, besides the room."""

    wanted: str = ""
    """``qm_return``: where the visitor wants to go."""
    came_from: str = ""
    """``qm_from``: what a connector knew of him."""
    tried: bool = False
    """``qm_tried``: a place was given, so a cookie has to come back (PAG-157)."""
    why: str = ""
    """``qm_why``: why an earlier ticket was not continued, until the notice is dismissed."""
    again: bool = False
    """``qm_again``: a person asks for a new place after the line was cleared."""

    def address(self, room_id: str, *, is_inline: bool) -> str:
        """Path and query of the page."""
        said = {
            "qm_return": self.wanted,
            "qm_from": self.came_from,
            "qm_tried": "1" if self.tried else "",
            "qm_why": self.why,
            "qm_again": "1" if self.again else "",
        }
        query = urlencode({name: value for name, value in said.items() if value})
        path = f"{PREFIX if is_inline else ''}/w/{room_id}/plain"
        return f"{path}?{query}" if query else path


@dataclass(slots=True)
class PlainAnswer:
    """What is sent: a document, or a place to go to."""

    status: int
    cookies: Sequence[bytes]
    document: SmallDocument | None = None
    location: str = ""
    retry_after_sec: int = 0


class PlainService:
    """Answers ``GET /w/<room>/plain``."""

    def __init__(self, *, page: PlainPage, join: JoinService, status: StatusService) -> None:
        self._page = page
        self._join = join
        self._status = status

    def lead(self, room: Room, trip: Trip, language: str, *, is_inline: bool) -> SmallDocument:
        """The page of whoever did not come here by himself: it gives no place and has a link that does (PAG-220)."""
        _, texts = self._page.words(language)
        onward = replace(trip, tried=False).address(room.id, is_inline=is_inline)
        told = Told(texts["lead"], texts["lead"], sub=texts["leadWhy"], buttons=[(texts["join"], onward)])
        return self._render(room, language, told)

    async def show(
        self,
        room: Room,
        visitor: Visitor,
        trip: Trip,
        language: str,
        *,
        ask: Callable[[], Asker] | None,
        is_inline: bool,
    ) -> PlainAnswer:
        """The state of a place, given now if he has none. ``ask``: counts the join; raises RateLimited; None = he did
        not come here by himself, and is led here first if he needs a new place (PAG-220).

        Raises NoRoom, and RateLimited of the join budget.
        """
        _, texts = self._page.words(language)
        here = _Here(room, trip, texts, is_inline)
        # At a customer's host the place is the URL asked for, which the return policy is not asked about (PAG-155).
        wanted = None if is_inline else trip.wanted or None
        try:
            view, cookies = await self._place(room.id, visitor, trip, wanted, ask)
        except QmError as error:
            return self._refused(here, language, error)
        if view is None and ask is None:
            return PlainAnswer(200, [], self.lead(room, trip, language, is_inline=is_inline))
        if view is None:
            told = Told(texts["noCookie"], texts["noCookie"], sub=texts["noCookieWhy"], buttons=[here.start("start")])
        elif view["state"] in _GOES_IN:
            return PlainAnswer(303, cookies, location=view["location"])
        elif view["state"] == "gone":
            button = here.start("joinAgain", again=True)
            told = Told(texts["cleared"], texts["cleared"], sub=texts["clearedWhy"], buttons=[button])
        else:
            told = here.told(view)
        return PlainAnswer(200, cookies, self._render(room, language, told))

    async def _place(
        self, room_id: str, visitor: Visitor, trip: Trip, wanted: str | None, ask: Callable[[], Asker] | None
    ) -> tuple[View | None, Sequence[bytes]]:
        """His state; None when a place was given before and no cookie of it came back, or he needs one and may not."""
        holds_cookie = bool(visitor.tokens or visitor.sessions)
        if trip.tried and not holds_cookie:
            return None, []
        if visitor.tokens and not trip.again:
            answer = await self._status.status(room_id, visitor, wanted)
            view = _state(answer)
            if view["state"] != "gone" or not view["rejoin"]:
                return view, answer.cookies
        if ask is None:
            return None, []
        answer = await self._join.join(room_id, visitor, wanted, trip.came_from or None, asker=ask())
        return _state(answer), answer.cookies

    def _refused(self, here: _Here, language: str, error: QmError) -> PlainAnswer:
        """No place just now: said on the page, which asks again by itself when the answer names a time."""
        texts, wait_sec = here.texts, int(error.headers.get("Retry-After") or 0)
        at = here.trip.address(here.room.id, is_inline=here.is_inline)
        if isinstance(error, StorageUnavailable):
            name, wait_sec = "lost", wait_sec or LEAST_SEC
            sub = f"{texts['kept']} {texts['lostWhy']}" if here.trip.tried else texts["lostWhy"]
        elif error.code == "blocked_by_protection":
            name, sub = "blocked", texts["blockedWhy"]
        elif error.code in _REFUSALS:
            name = _REFUSALS[error.code]
            sub = texts[name + "Why"]
        else:
            raise error
        button = texts["tryNow" if wait_sec else "tryAgain"], at
        told = Told(texts[name], texts[name], sub=sub, refresh_sec=wait_sec, at=at, buttons=[button])
        document = self._render(here.room, language, told)
        return PlainAnswer(error.status, [], document, retry_after_sec=wait_sec)

    def _render(self, room: Room, language: str, told: Told) -> SmallDocument:
        return self._page.render(language, room, told)


@dataclass(frozen=True, slots=True)
class _Here:
    """One request of the page."""

    room: Room
    trip: Trip
    texts: Texts
    is_inline: bool

    def start(self, text: str, *, again: bool = False) -> tuple[str, str]:
        """A button that begins anew."""
        trip = Trip(self.trip.wanted, self.trip.came_from, again=again)
        return self.texts[text], trip.address(self.room.id, is_inline=self.is_inline)

    def told(self, view: View) -> Told:
        # Who asks for a new place after the line was cleared knows why (PAG-126).
        reason = view.get("reason", "") if view.get("created") and not self.trip.again else ""
        why = reason if reason in NOTICES else self.trip.why
        trip = replace(self.trip, tried=True, why=why, again=False)
        at = trip.address(self.room.id, is_inline=self.is_inline)
        told = tell(self.texts, view, self.room.config.name, at=at, refresh_sec=interval_sec(self.room))
        dismissed = replace(trip, why="").address(self.room.id, is_inline=self.is_inline)
        return replace(told, why=why, dismissed=dismissed)


def interval_sec(room: Room) -> int:
    """How often the page asks: often enough that nobody counts as absent who has it open (PAG-154)."""
    return max(LEAST_SEC, min(INTERVAL_SEC, room.config.presence_sec // 2))


def _state(answer: VisitorAnswer) -> dict[str, Any]:
    view: dict[str, Any] = ujson.loads(answer.body)
    return view
