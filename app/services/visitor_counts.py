"""What this process has refused, missed or decided on the visitor's side, for health and metrics.

Belongs here: bounded counters of one process. Not here: their sum over instances (tally.py), their place in an answer.
Source: VIS-214, ENG-093, ENG-202, ENG-203, ENG-210, ENG-211.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from app.core import metrics
from app.core.clock import wall_ms
from app.core.metrics import Metric
from app.domain.room import Room, UrlRule
from app.domain.tokens import Cause
from app.infrastructure.metric_book import MetricBook, Tally
from app.infrastructure.shared_notes import PeerList
from app.services.refused_origins import OTHER as OTHER_ORIGIN
from app.services.refused_origins import RefusedOrigins, shown_origin
from app.services.refused_tokens import ManyRefused

MAX_ORIGIN_PAIRS: Final = 500
MAX_UNKNOWN_ROOMS: Final = 50
MAX_DECISIONS: Final = 50
PROTECTION: Final = "protection."
"""Beginning of the names under which a room's counts of bot protection are handed over."""
MAX_ROOM_CHARS: Final = 64


class Counted(StrEnum):
    """Names as in ``counters`` of the health answer."""

    UNKNOWN_ROOM_CHECKS = "unknownRoomChecks"
    BLOCKED_RETURN_URLS = "blockedReturnUrls"
    REFUSED_ORIGIN_CHECKS = "refusedOriginChecks"
    REFUSED_KEY_CHECKS = "refusedKeyChecks"
    RATE_LIMITED_CHECKS = "rateLimitedChecks"
    REJECTED_TOKENS = "rejectedTokens"
    CHECKS_WITHOUT_URL = "checksWithoutUrl"
    SHARED_SESSIONS = "sharedSessions"
    BLOCKED = "blocked"
    """Joins that bot protection refused; counted by hour too (ENG-237)."""
    WARNED = "warned"
    """Joins with a score from PROTECTION_WARN_AT on (VIS-193); counted by hour too."""


_TOTALS: Final[Mapping[Counted, Metric]] = {
    Counted.UNKNOWN_ROOM_CHECKS: metrics.UNKNOWN_ROOMS,
    Counted.BLOCKED_RETURN_URLS: metrics.BLOCKED_RETURN_URLS,
    Counted.REFUSED_KEY_CHECKS: metrics.REFUSED_KEYS_ALL,
    Counted.RATE_LIMITED_CHECKS: metrics.LIMITED_CHECKS_ALL,
    Counted.REJECTED_TOKENS: metrics.REJECTED_TOKENS_ALL,
}
"""Series without a room."""
_BY_ROOM: Final[Mapping[Counted, Metric]] = {
    Counted.REFUSED_ORIGIN_CHECKS: metrics.REFUSED_ORIGINS,
    Counted.REFUSED_KEY_CHECKS: metrics.REFUSED_KEYS,
    Counted.RATE_LIMITED_CHECKS: metrics.LIMITED_CHECKS,
    Counted.SHARED_SESSIONS: metrics.SHARED_SESSIONS,
}
_JUDGED_MAX: Final = 1024
_HOURLY: Final = frozenset({Counted.WARNED.value, Counted.BLOCKED.value})


class RuleKey:
    """One rule of one copy of a room; its checks are counted under it. Equal only to itself, so that it hashes fast."""

    __slots__ = ("cfg_ver", "field", "generation", "room_id")

    def __init__(self, room: Room, rule: UrlRule) -> None:
        self.room_id = room.id
        self.generation = room.generation
        self.cfg_ver = room.cfg_ver
        self.field = rule_field(rule)


def rule_field(rule: UrlRule) -> str:
    """What a rule is counted under (lua/lib/tallies.lua): another pattern or action is another rule (ENG-203)."""
    return f"{rule.id}\n{rule.action}\n{rule.pattern}"


class VisitorCounts:
    """Counters of one worker process. Rooms are those that exist, so made-up ids grow nothing."""

    def __init__(
        self,
        many_refused: ManyRefused | None = None,
        book: MetricBook | None = None,
        bad_tokens: PeerList | None = None,
    ) -> None:
        """``many_refused`` hears of every refused token. ``book``: where the series of ``/metrics`` are kept.

        ``bad_tokens``: list of the addresses that refused tokens came from.
        """
        self._bad_tokens = bad_tokens
        self._many_refused = many_refused
        self.book = book or MetricBook.alone()
        self.totals: Counter[Counted] = Counter()
        self.by_room: Counter[tuple[str, str]] = Counter()
        self.refused_origins: Counter[tuple[str, str]] = Counter()
        """(room id, origin) of refused checks; at most 500 pairs, further ones under ``other``."""
        self.origins = RefusedOrigins()
        """The same for health, which lists those seen last."""
        self.pages: set[tuple[str, bytes, str | None]] = set()
        """Room, origin and version of the tag of checks since they were last handed over; at most 500."""
        self.unknown_rooms: dict[str, tuple[int, int]] = {}
        """Checks of ids that no room has, and when the last one was (epoch ms); the latest 50 ids, latest last."""
        self.rejected_tokens: Counter[Cause] = Counter()
        self.inline: Counter[str] = Counter()
        """What was forwarded on inline hosts, and what failed there (inline_counts.py)."""
        self.protected: Counter[str] = Counter()
        """Joins by what bot protection made of them, in all rooms: ``scored`` and the names of Outcome."""
        self._judged: dict[tuple[str, tuple[str, ...], tuple[str, ...], bool], Any] = {}
        self.signals: Counter[str] = Counter()
        """How often each sign of an automated client was seen."""
        self.decisions: deque[Any] = deque(maxlen=MAX_DECISIONS)
        """Decisions of bot protection (protection.Decision) since they were last handed over."""
        self.rules: dict[RuleKey, tuple[int, int]] = {}
        """Checks that a rule decided and time of the last one (epoch ms), since they were last handed over."""

    def count(self, what: Counted, room_id: str | None = None) -> None:
        """One more of ``what``; ``room_id`` of a room that exists."""
        self.totals[what] += 1
        if (metric := _TOTALS.get(what)) is not None:
            self.book.add(metric)
        if room_id is not None:
            self.by_room[room_id, what] += 1
            if (metric := _BY_ROOM.get(what)) is not None:
                self.book.add(metric, room_id)

    def joined(self, room_id: str, *, is_passed: bool) -> None:
        """A join gave a new place, ``is_passed``: with a pass at once."""
        self.book.add(metrics.JOINS, room_id)
        if is_passed:
            self.book.add(metrics.PASSES, room_id)

    def join_refused(self, room_id: str, *, is_memory: bool) -> None:
        """A join was refused for want of room: in the line, or in the live store."""
        self.book.add(metrics.JOINS_REFUSED, room_id, "memory" if is_memory else "line_max")

    def admitted(self, room_id: str) -> None:
        """A session began."""
        self.book.add(metrics.ADMISSIONS, room_id)

    def rule_hit(self, key: RuleKey, now_ms: int) -> None:
        """A check was decided by a rule."""
        hits = self.rules.get(key)
        self.rules[key] = (1, now_ms) if hits is None else (hits[0] + 1, now_ms)

    def take_back(self, rules: Mapping[RuleKey, tuple[int, int]]) -> None:
        """Rule hits that could not be handed over."""
        for key, (number, at) in rules.items():
            more, later = self.rules.get(key, (0, at))
            self.rules[key] = (number + more, later)

    def page_seen(self, room_id: str, origin: bytes | None, tag: str | None) -> None:
        """A direct check came from a page whose origin the room's tag policy covers."""
        if origin is not None and len(self.pages) < MAX_ORIGIN_PAIRS:
            self.pages.add((room_id, origin, tag))

    def unknown_room(self, room_id: str) -> None:
        """A check of a room that there is not; what was made up pushes out only what was asked for longest ago."""
        self.count(Counted.UNKNOWN_ROOM_CHECKS)
        room_id = room_id[:MAX_ROOM_CHARS]
        checks, _ = self.unknown_rooms.pop(room_id, (0, 0))
        if len(self.unknown_rooms) >= MAX_UNKNOWN_ROOMS:
            del self.unknown_rooms[next(iter(self.unknown_rooms))]
        self.unknown_rooms[room_id] = checks + 1, wall_ms()

    def refused_origin(self, room_id: str, origin: str) -> None:
        """A direct check from a page whose origin the room's tag policy does not cover."""
        self.count(Counted.REFUSED_ORIGIN_CHECKS, room_id)
        self.origins.add(room_id, shown_origin(origin), wall_ms())
        pair = (room_id, origin[:300])
        if pair not in self.refused_origins and len(self.refused_origins) >= MAX_ORIGIN_PAIRS:
            pair = (room_id, OTHER_ORIGIN)
        self.refused_origins[pair] += 1

    def protection(self, room_id: str, outcomes: tuple[str, ...], signals: tuple[str, ...], *, is_scored: bool) -> None:
        """A newcomer of ``room_id`` was judged by bot protection."""
        key = room_id, outcomes, signals, is_scored
        counted = self._judged.get(key)
        if counted is None:
            if len(self._judged) >= _JUDGED_MAX:
                self._judged.clear()
            counted = self._judged[key] = self._judgement(*key)
        tally, names, of_room = counted
        tally.add()
        for name in names:
            self.protected[name] += 1
        for signal in signals:
            self.signals[signal] += 1
        for each in of_room:
            self.by_room[each] += 1

    def _judgement(
        self, room_id: str, outcomes: tuple[str, ...], signals: tuple[str, ...], is_scored: bool
    ) -> tuple[Tally, list[str], list[tuple[str, str]]]:
        """Where judgements of this kind are counted: newcomers differ little."""
        names = [*outcomes, "scored"] if is_scored else list(outcomes)
        # Two of them stand in the hours of the room under names of their own (Counted).
        of_room = [(room_id, name if name in _HOURLY else PROTECTION + name) for name in names]
        of_room += [(room_id, f"{PROTECTION}signal.{signal}") for signal in signals]
        return self.book.tally(metrics.PROTECTION, room_id, _decision(names)), names, of_room

    def rejected_token(self, room_id: str, cause: Cause, packed: bytes = b"") -> None:
        """A visitor token of ``room_id`` was refused (ENG-093). ``packed``: address that brought it, 16 bytes."""
        if self._bad_tokens is not None and packed:
            self._bad_tokens.note(packed)
        self.count(Counted.REJECTED_TOKENS, room_id)
        self.rejected_tokens[cause] += 1
        self.book.add(metrics.REJECTED_TOKENS, room_id, cause.value)
        if self._many_refused is not None:
            self._many_refused.note(room_id, cause)


def _decision(names: Iterable[str]) -> str:
    """What was decided about a newcomer: a score that would block in another mode is a warning here."""
    found = set(names)
    if "blocked" in found:
        return "block"
    return "warn" if found & {"warned", "wouldBlock"} else "ok"
