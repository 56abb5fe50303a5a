"""Counts of all living instances together: each web worker shows its own, whoever is asked adds them up.

Belongs here: the form in which counts stand on the board, their sums, and handing over. Not here: counting
(visitor_counts.py), the counts by room (tally.py), their place in an answer.
Source: VIS-205, VIS-214, OBS-033, OBS-039.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.domain.tokens import Cause
from app.infrastructure.counter_board import CounterBoard
from app.services.visitor_counts import MAX_ORIGIN_PAIRS, MAX_UNKNOWN_ROOMS, Counted, VisitorCounts

EVERY_SEC: Final = 5.0
"""How often counts that did not change are shown again, lest they count as those of a dead instance."""
OTHERS_SEC: Final = 15.0
"""How long the counts of the other workers serve while they cannot be read (FLT-043)."""
SHOWN: Final = (
    Counted.UNKNOWN_ROOM_CHECKS, Counted.BLOCKED_RETURN_URLS, Counted.REFUSED_ORIGIN_CHECKS,
    Counted.REFUSED_KEY_CHECKS, Counted.RATE_LIMITED_CHECKS, Counted.REJECTED_TOKENS, Counted.CHECKS_WITHOUT_URL,
)  # fmt: skip
"""Members of ``counters`` (OBS-033)."""
OUTCOMES: Final = ("scored", "warned", "wouldBlock", "blocked", "crawlers", "allowListed")


@dataclass(slots=True)
class Sums:
    """Counts of one or of many processes."""

    counters: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    protection: Counter[str] = field(default_factory=Counter)
    signals: Counter[str] = field(default_factory=Counter)
    inline: Counter[str] = field(default_factory=Counter)
    rooms: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Ids that no room has → checks, time of the last."""
    origins: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """(room, origin) of refused checks → how many, time of the last."""

    def add(self, other: Sums) -> None:
        """Take the counts of another process in."""
        for mine, theirs in (
            (self.counters, other.counters), (self.tokens, other.tokens), (self.protection, other.protection),
            (self.signals, other.signals), (self.inline, other.inline),
        ):  # fmt: skip
            mine.update(theirs)
        _merge(self.rooms, other.rooms)
        _merge(self.origins, other.origins)

    def to_json(self) -> dict[str, Any]:
        """The form on the board."""
        return {
            "counters": self.counters, "tokens": self.tokens, "protection": self.protection, "signals": self.signals,
            "inline": self.inline,
            "rooms": [[room, *found] for room, found in self.rooms.items()],
            "origins": [[*pair, *found] for pair, found in self.origins.items()],
        }  # fmt: skip

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Sums:
        """The reverse; members that another release does not write are empty."""
        counters, tokens, protection, signals, inline = (
            Counter(raw.get(name, {})) for name in ("counters", "tokens", "protection", "signals", "inline")
        )
        rooms = {room: (count, at) for room, count, at in raw.get("rooms", [])}
        origins = {(room, origin): (count, at) for room, origin, count, at in raw.get("origins", [])}
        return cls(counters, tokens, protection, signals, inline, rooms, origins)

    @classmethod
    def of(cls, counts: VisitorCounts) -> Sums:
        """What one process has counted."""
        return cls(
            Counter({name.value: counts.totals[name] for name in SHOWN}),
            Counter({cause.value: number for cause, number in counts.rejected_tokens.items()}),
            Counter(counts.protected),
            Counter(counts.signals),
            Counter(counts.inline),
            dict(counts.unknown_rooms),
            dict(counts.origins.pairs),
        )

    def health_blocks(self) -> dict[str, Any]:
        """``counters``, ``checks`` and ``tokens`` of the health answer."""
        rooms = _latest(self.rooms, MAX_UNKNOWN_ROOMS)
        origins = _latest(self.origins, MAX_ORIGIN_PAIRS)
        return {
            "counters": {name.value: self.counters[name.value] for name in SHOWN},
            "checks": {
                "unknownRooms": [{"roomId": room, "count": count, "lastAt": at} for room, (count, at) in rooms],
                "refusedOrigins": [
                    {"roomId": room, "origin": origin, "count": count, "lastAt": at}
                    for (room, origin), (count, at) in origins
                ],
            },
            "tokens": {"rejected": {cause.value: self.tokens[cause.value] for cause in Cause}},
        }


class FleetCounts:
    """Shows the counts of one web worker to the fleet, and the fleet's to whoever asks."""

    def __init__(self, counts: VisitorCounts, board: CounterBoard) -> None:
        self._counts = counts
        self._board = board
        self._base: Sums | None = None
        """Counts of a worker that died in this one's place."""
        self._shown: tuple[float, Any] = (-EVERY_SEC, None)
        self._others: tuple[float, Sums] = (-OTHERS_SEC, Sums())
        """Sums of all other workers when they were last read."""

    async def hand_over(self) -> None:
        """Show what was counted, if there is news, and pass decisions on. Raises StorageUnavailable."""
        own = await self._own()
        text = own.to_json()
        if text != self._shown[1] or mono() - self._shown[0] >= EVERY_SEC:
            await self._board.put(text)
            self._shown = (mono(), text)
        decisions = list(self._counts.decisions)
        if not decisions:
            return
        self._counts.decisions.clear()
        try:
            await self._board.add_decisions([one.to_json() for one in decisions])
        except StorageUnavailable:
            self._counts.decisions.extendleft(reversed(decisions))
            raise

    async def sums(self) -> Sums:
        """The fleet's counts, this process's up to now. Raises StorageUnavailable."""
        await self.hand_over()
        self._others = mono(), _sum(map(Sums.from_json, await self._board.others()))
        return self.known()

    async def decisions(self) -> Sequence[Mapping[str, Any]]:
        """The last 50 decisions of bot protection, latest first. Raises StorageUnavailable."""
        await self.hand_over()
        return await self._board.decisions()

    def known(self) -> Sums:
        """What is known without the live store: this process's counts, and the others' as read up to 15 s ago."""
        read_at, others = self._others
        return _sum([self._counted(), others if mono() - read_at < OTHERS_SEC else Sums()])

    def _counted(self) -> Sums:
        return _sum([self._base or Sums(), Sums.of(self._counts)])

    async def _own(self) -> Sums:
        if self._base is None:
            self._base = Sums.from_json(await self._board.own())
        return self._counted()


def _sum(parts: Iterable[Sums]) -> Sums:
    found = Sums()
    for one in parts:
        found.add(one)
    return found


def _merge(mine: dict[Any, tuple[int, int]], theirs: Mapping[Any, tuple[int, int]]) -> None:
    for key, (count, at) in theirs.items():
        known, last = mine.get(key, (0, 0))
        mine[key] = known + count, max(last, at)


def _latest(found: Mapping[Any, tuple[int, int]], limit: int) -> list[tuple[Any, tuple[int, int]]]:
    return sorted(found.items(), key=lambda item: -item[1][1])[:limit]
