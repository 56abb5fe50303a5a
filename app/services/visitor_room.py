"""A room as visitor requests need it: everything that follows from its configuration, made once per copy.

Belongs here: compiled policies, ready JSON and cookie text, finding the current copy. Not here: what an answer
says (visitor.py, check.py). A copy that is out of date is noticed by the engine, never guessed here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar
from urllib.parse import quote
from zlib import crc32

import ujson

from app.core.errors import NoRoom, StorageUnavailable
from app.core.ids import RoomId, is_room_id
from app.domain.cookies import CookiePolicy, RoomCookies
from app.domain.fingerprint import Digester
from app.domain.origins import OriginPolicy, parse_origin, parse_web_url, with_token
from app.domain.room import Room, RoomState
from app.domain.url_rules import RuleSet, page_of
from app.infrastructure.engine_errors import StaleRoom
from app.infrastructure.engine_results import ViewState
from app.services.visitor_counts import RuleKey

RECHECK_MIN_SEC: Final = 30
RECHECK_MAX_SEC: Final = 600
_MEMO_MAX: Final = 512
"""Origins and page URLs whose judgement a room copy remembers; made-up ones only empty the memo."""
_MEMO_URL_MAX: Final = 512
_KEY: Final = "visitor"

T = TypeVar("T")
Covered = tuple[bool, bool, RuleKey | None]
"""Whether the rules cover a page, whether its address could be read, and the rule that decided."""


class Rooms(Protocol):
    """The part of RoomDirectory that visitor requests use; tests put a plain dictionary in its place."""

    def get(self, room_id: RoomId, /) -> Room | None:
        """The process's copy."""

    async def refresh(self, room_id: RoomId, /) -> Room | None:
        """The copy read anew from the live store; None = there is no such room."""


class VisitorRoom:
    """One copy of a room with all that visitor answers are made of."""

    __slots__ = (
        "_covered",
        "_heads",
        "_json_name",
        "_origins",
        "_returns",
        "_rule_keys",
        "cookies",
        "digests",
        "id",
        "json_id",
        "mark",
        "recheck_sec",
        "returns",
        "room",
        "rules",
        "spare_doors",
        "tags",
        "target",
    )

    def __init__(self, room: Room, cookies: CookiePolicy) -> None:
        config = room.config
        self.room = room
        self.id = room.id
        self.mark = crc32(b"%b %d" % (room.id.encode(), room.generation)) or 1
        """Stands for this room and generation where a guess is all that rests on it (trace_table.py)."""
        self.digests = Digester(room.salt)
        self.cookies = RoomCookies(room.id, cookies, session_max_sec=config.session_max_sec)
        self.rules = RuleSet(config.rules)
        self.returns = OriginPolicy(config.target_url, config.return_origins)
        tags = config.return_origins if config.tag_origins is None else config.tag_origins
        self.tags = OriginPolicy(config.target_url, tags)
        target = parse_web_url(config.target_url)
        self.target = config.target_url if target is None else target.text()
        """Where a released visitor goes without an accepted return URL."""
        self.recheck_sec = min(RECHECK_MAX_SEC, max(RECHECK_MIN_SEC, config.session_ttl_sec // 3))
        self.json_id = f',"roomId":"{room.id}"'
        """The member ``roomId`` of every answer, with its comma."""
        self._json_name = ujson.dumps(config.name, ensure_ascii=False, escape_forward_slashes=False)
        self.spare_doors: list[tuple[str, bytes]] = []
        """Door keys made for checks that admitted nobody, with their digests: never shown, so as good as new."""
        self._heads: dict[tuple[ViewState, RoomState], bytes] = {}
        self._origins: dict[bytes, bool] = {}
        self._returns: dict[str, tuple[str | None, str]] = {}
        self._covered: dict[str | None, Covered] = {}
        self._rule_keys = {rule.id: RuleKey(room, rule) for rule in config.rules}

    def state_head(self, state: ViewState, room_state: RoomState) -> bytes:
        """Beginning of a visitor state: ``state``, ``roomId``, ``name``, ``roomState``, without a closing brace."""
        head = self._heads.get((state, room_state))
        if head is None:
            text = f'{{"state":"{state.word}"{self.json_id},"name":{self._json_name},"roomState":"{room_state.word}"'
            head = self._heads[state, room_state] = text.encode()
        return head

    def allows_tag(self, origin: bytes) -> bool:
        """Tell whether the browser tag may ask about this room on a page of ``origin`` (an ``Origin`` header)."""
        allowed = self._origins.get(origin)
        if allowed is None:
            parsed = parse_origin(origin.decode("latin-1"))
            allowed = parsed is not None and self.tags.covers(parsed)
            if len(self._origins) >= _MEMO_MAX:
                self._origins.clear()
            self._origins[origin] = allowed
        return allowed

    def covers(self, url: str | None) -> Covered:
        """Tell whether the rules cover a page; one whose address cannot be read is covered."""
        verdict = self._covered.get(url)
        if verdict is None:
            page = page_of(url)
            covered, rule = self.rules.judge(page)
            verdict = covered, page is not None, None if rule is None else self._rule_keys[rule]
            if url is None or len(url) <= _MEMO_URL_MAX:
                if len(self._covered) >= _MEMO_MAX:
                    self._covered.clear()
                self._covered[url] = verdict
        return verdict

    def waiting_page(self, base: str, url: str | None) -> str:
        """Absolute address of the waiting page, with ``qm_return`` when the return policy covers ``url``.

        ``base``: ``scheme://host`` by which visitors reach this server (VIS-126). An inline room's page is at the
        site's own URLs (PAG-017).
        """
        if self.room.config.is_inline:
            return self.destination(url)
        return f"{base}/w/{self.id}{self._judge(url)[1]}" if url else f"{base}/w/{self.id}"

    def accepted_return(self, url: str) -> str | None:
        """A return URL as it may be sent, None when the return policy refuses it (ENG-209)."""
        return self._judge(url)[0]

    def destination(self, return_url: str | None) -> str:
        """Where a released visitor goes, without a token: the accepted return URL or the target (VIS-153)."""
        return (self.accepted_return(return_url) if return_url else None) or self.target

    def destination_with_token(self, return_url: str | None, token: str) -> str:
        """``destination`` with ``qm_token`` in its query."""
        return self.tokened(self.destination(return_url), token)

    def tokened(self, url: str, token: str) -> str:
        """``url`` with ``qm_token``; of an inline room as it is, since no token stands in a URL there (INL-214)."""
        return url if self.room.config.is_inline else with_token(url, token)

    def _judge(self, url: str) -> tuple[str | None, str]:
        """The accepted form of a return URL, and the query that takes it to the waiting page."""
        judged = self._returns.get(url)
        if judged is None:
            accepted = self.returns.judge(url)
            judged = accepted, "" if accepted is None else "?qm_return=" + quote(accepted, safe="")
            if len(url) <= _MEMO_URL_MAX:
                if len(self._returns) >= _MEMO_MAX:
                    self._returns.clear()
                self._returns[url] = judged
        return judged


class VisitorRooms:
    """Finds the room a visitor asks about, and asks again when the copy was old."""

    __slots__ = ("_cookies", "_rooms", "public_base")

    def __init__(self, *, rooms: Rooms, cookies: CookiePolicy, public_url: str | None) -> None:
        self._rooms = rooms
        self._cookies = cookies
        self.public_base = public_url.rstrip("/") if public_url else None
        """``PUBLIC_URL`` without a slash at its end; None = by the request (VIS-020)."""

    def peek(self, room_id: str) -> VisitorRoom | None:
        """The room if this process knows it; costs no trip."""
        room = self._rooms.get(room_id)  # type: ignore[arg-type]  # any text may be asked for
        return None if room is None else room.compiled.get(_KEY) or self._compile(room)

    def is_current(self, room: VisitorRoom) -> bool:
        """Tell whether this process still has this copy of the room. Costs no trip."""
        return self._rooms.get(room.id) is room.room

    def generation(self, room_id: str) -> int | None:
        """Generation of the room as this process knows it; None = not known here. Costs no trip."""
        room = self._rooms.get(room_id)  # type: ignore[arg-type]  # any text may be asked for
        return None if room is None else room.generation

    async def find(self, room_id: str) -> VisitorRoom:
        """The room; the live store is asked before it is called unknown, since it may be seconds old (ENG-002).

        Raises NoRoom, StorageUnavailable.
        """
        known = self.peek(room_id)
        if known is not None:
            return known
        return await self.reload(room_id)

    async def reload(self, room_id: str) -> VisitorRoom:
        """The room read anew. Raises NoRoom, StorageUnavailable."""
        room = await self._rooms.refresh(RoomId(room_id)) if is_room_id(room_id) else None
        if room is None:
            raise NoRoom
        return room.compiled.get(_KEY) or self._compile(room)

    async def current(self, room: VisitorRoom, ask: Callable[[VisitorRoom], Awaitable[T]]) -> T:
        """``ask`` with ``room``, and once more with a new copy when the engine says that it is old."""
        try:
            return await ask(room)
        except StaleRoom:
            return await self.again(room, ask)

    async def again(self, room: VisitorRoom, ask: Callable[[VisitorRoom], Awaitable[T]]) -> T:
        """``ask`` with a new copy of ``room``, which the engine said is old. Raises NoRoom, StorageUnavailable."""
        fresh = await self.reload(room.id)
        try:
            return await ask(fresh)
        except StaleRoom:
            raise StorageUnavailable from None

    def _compile(self, room: Room) -> VisitorRoom:
        compiled = room.compiled[_KEY] = VisitorRoom(room, self._cookies)
        return compiled
