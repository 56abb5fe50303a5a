"""Bot protection: who asks for a place is scored from what this server sees, and what the score leads to.

It refuses places, never the way into the site. Belongs here: mode, memory of addresses, outcome, counting. Not here:
the signs and their weights (domain/bot_signals.py), the refusal itself (join.py). It asks no store; its memory is that
of the rate limiter, of the size RATE_LIMIT_MAX_KEYS. Source: VIS-191 … VIS-207.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple
from zlib import crc32

from app.core.clock import wall_ms
from app.domain.bot_signals import (
    BURST,
    CADENCE_JOINS,
    REPEATS,
    SPREAD_TICKETS,
    Look,
    Signal,
    is_machine_cadence,
    is_spread,
    score_of,
)
from app.domain.client_address import Note
from app.domain.net_ranges import Network, RangeSet
from app.domain.protection_mode import ProtectionMode
from app.infrastructure.engine_results import JoinAnswer, JoinCode, ViewState
from app.infrastructure.rate_limiter import RateLimiter
from app.services.visitor_counts import VisitorCounts
from app.services.visitor_proof import Visitor
from app.services.visitor_room import VisitorRoom

REPEATS_WITHIN_MS: Final = 600_000
_BURST_BUDGET: Final = "join"
_COUNT_ONLY: Final = 1_000_000
"""A limit that nobody reaches, to count joins where JOIN_LIMIT_PER_MIN is off."""
_COOKIE: Final = 1 << 16
_AGENT: Final = _COOKIE - 1
_TIME_SHIFT: Final = 17
_AGENT_SHOWN: Final = 200
_JUDGED_MAX: Final = 1024
_LEAST_EARLIER: Final = min(REPEATS - 1, CADENCE_JOINS - 1, SPREAD_TICKETS)
"""Asks before this one from which on the address may give a sign by what it did."""


class Outcome(StrEnum):
    """What became of a scored join; also the names of its counters."""

    OK = "ok"
    WARNED = "warned"
    WOULD_BLOCK = "wouldBlock"
    BLOCKED = "blocked"
    CRAWLER = "crawlers"
    ALLOW_LISTED = "allowListed"


class Asker:
    """What a join brings besides its visitor. One object for one join, however often it is judged."""

    __slots__ = ("is_alike", "joins", "look", "of_address")

    def __init__(self, look: Look, *, is_alike: bool, joins: int | None) -> None:
        """``is_alike``: visitors of this peer cannot be told apart, an undeclared proxy (VIS-023).

        ``joins``: of the address in this minute, this one included; None = not counted, the limit is off.
        """
        self.look = look
        self.is_alike = is_alike
        self.joins = joins
        self.of_address: tuple[Signal, ...] | None = None
        """The signs that its address gave; None = not looked for yet."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What is thought of one join, before it is known whether it asks for a new place. Made once for all alike."""

    outcome: Outcome
    score: int = 0
    signals: tuple[Signal, ...] = ()
    names: tuple[Outcome, ...] = ()
    """What it is counted under."""
    is_barred: bool = field(init=False)
    """No new place is given."""
    is_scored: bool = field(init=False)
    is_told: bool = field(init=False)
    """It stands in the list of recent decisions, which plain visitors would push out (VIS-205)."""

    def __post_init__(self) -> None:
        """What follows from the rest."""
        is_scored = self.outcome not in (Outcome.CRAWLER, Outcome.ALLOW_LISTED)
        object.__setattr__(self, "is_barred", self.outcome is Outcome.BLOCKED)
        object.__setattr__(self, "is_scored", is_scored)
        object.__setattr__(self, "is_told", self.outcome is not Outcome.OK or bool(self.signals))


class Decision(NamedTuple):
    """One line of the list of recent decisions. Most are never shown, so it is only noted what it is made from."""

    at: int
    """Epoch ms."""
    room_id: str
    address: str
    agent: bytes
    assessed: Assessment

    def to_json(self) -> dict[str, object]:
        """Members as the admin API shows them (ADM-198)."""
        return {
            "ts": self.at,
            "roomId": self.room_id,
            "address": self.address,
            "userAgent": self.agent[:_AGENT_SHOWN].decode("utf-8", "replace"),
            "score": self.assessed.score,
            "outcome": self.assessed.outcome,
            "signals": list(self.assessed.signals),
        }


_ALLOWED: Final = Assessment(Outcome.ALLOW_LISTED, names=(Outcome.ALLOW_LISTED,))
_CRAWLER: Final = Assessment(Outcome.CRAWLER, names=(Outcome.CRAWLER,))
# Asking an enum for a member costs as much as a call.
_OFF, _WAITING = ProtectionMode.OFF, ViewState.WAITING
_NEW_PLACE: Final = frozenset(
    {
        JoinCode.CREATED, JoinCode.BARRED, JoinCode.IDENTITY_LIMIT, JoinCode.PRE_IDENTITY_LIMIT, JoinCode.LINE_FULL,
    }
)  # fmt: skip
"""Outcomes of joins that asked for a place; the others had one, or need none."""


class Protection:
    """Judges joins of one web worker."""

    def __init__(
        self,
        *,
        mode: str,
        warn_at: int,
        block_at: int,
        allowed: Iterable[Network],
        limiter: RateLimiter,
        counts: VisitorCounts,
    ) -> None:
        """The settings PROTECTION_MODE, _WARN_AT, _BLOCK_AT and _ALLOW_IPS."""
        self._mode = ProtectionMode(mode)
        self._warn_at = warn_at
        self._block_at = block_at
        self._allowed = RangeSet(allowed)
        self._limiter = limiter
        self._counts = counts
        self._lines: dict[str, tuple[int, int, int]] = {}
        """By room: generation, latest number, and people before it when it was given."""
        self._judged: dict[tuple[Look, tuple[Signal, ...], bool, ProtectionMode], Assessment] = {}
        """Judgements by what they rest on: browsers of one build all look alike."""

    def assess(self, room: VisitorRoom, visitor: Visitor, asker: Asker, *, has_cookie: bool) -> Assessment | None:
        """Think about one join. ``has_cookie``: it brings a good token of the room (VIS-202).

        None: nothing is scored.
        """
        own = room.room.config.protection
        mode = self._mode if own is None else own.mode
        if mode is _OFF:
            return None
        if self._allowed and visitor.client.packed in self._allowed:
            return _ALLOWED
        if asker.look.crawler and not asker.look.is_declared:
            return _CRAWLER
        of_address = asker.of_address
        if of_address is None:
            of_address = asker.of_address = self._of_address(room, visitor, asker, has_cookie=has_cookie)
        key = asker.look, of_address, has_cookie, mode
        judged = self._judged.get(key)
        if judged is None:
            if len(self._judged) >= _JUDGED_MAX:
                self._judged.clear()
            judged = self._judged[key] = self._judge(*key)
        return judged

    def _judge(self, look: Look, of_address: tuple[Signal, ...], has_cookie: bool, mode: ProtectionMode) -> Assessment:
        score, signals = score_of(look, of_address, has_cookie=has_cookie, block_at=self._block_at)
        outcome = Outcome.OK if score < self._warn_at else Outcome.WARNED
        if score > self._block_at:
            outcome = Outcome.BLOCKED if mode is ProtectionMode.ENFORCE else Outcome.WOULD_BLOCK
        names = {outcome, Outcome.WARNED if score >= self._warn_at else outcome} - {Outcome.OK}
        return Assessment(outcome, score, tuple(signals), names=tuple(sorted(names)))

    def note(self, room: VisitorRoom, visitor: Visitor, assessed: Assessment, answer: JoinAnswer) -> None:
        """Count a join that asked for a new place, and remember the ticket it got."""
        if answer.code not in _NEW_PLACE:
            return
        view = answer.view
        if view is not None and view.state is _WAITING:
            self._lines[room.id] = (answer.generation, view.ticket, view.ahead)
            self._limiter.note_ticket(visitor.client.key, room.mark, view.ticket)
        self._counts.protection(room.id, assessed.names, assessed.signals, is_scored=assessed.is_scored)
        if assessed.is_told:
            self._counts.decisions.append(Decision(wall_ms(), room.id, visitor.client.address, visitor.agent, assessed))

    def _of_address(self, room: VisitorRoom, visitor: Visitor, asker: Asker, *, has_cookie: bool) -> tuple[Signal, ...]:
        """The signs that the address gives by what it did before."""
        key, limiter = visitor.client.key, self._limiter
        now_ms = limiter.now_ms()
        mark = crc32(visitor.agent) & _AGENT | (_COOKIE if has_cookie else 0)
        earlier = limiter.note_ask(key, now_ms << _TIME_SHIFT | mark)
        joins = asker.joins
        if joins is None:
            joins = _COUNT_ONLY - limiter.take(_BURST_BUDGET, key, _COUNT_ONLY).remaining
        note = visitor.client.note
        if not note and len(earlier) < _LEAST_EARLIER and joins <= BURST:
            return ()  # as of nearly everybody
        found: list[Signal] = []
        if note and note & Note.FORWARDED and not asker.is_alike:
            found.append(Signal.FORGED_FORWARDED)
        since = now_ms - REPEATS_WITHIN_MS
        alike = sum(word & (_COOKIE | _AGENT) == mark and word >> _TIME_SHIFT >= since for word in earlier)
        if not has_cookie and alike >= REPEATS - 1:
            found.append(Signal.COOKIELESS_REPEAT)
        if is_machine_cadence((now_ms, *(word >> _TIME_SHIFT for word in earlier)), now_ms):
            found.append(Signal.MACHINE_CADENCE)
        if self._is_spread(room, key):
            found.append(Signal.ADDRESS_SPREAD)
        if joins > BURST:
            found.append(Signal.JOIN_BURST)
        return tuple(found)

    def _is_spread(self, room: VisitorRoom, key: bytes) -> bool:
        generation, last, ahead = self._lines.get(room.id, (0, 0, 0))
        if generation != room.room.generation:
            return False
        return is_spread(self._limiter.tickets_of(key, room.mark), last, ahead)
