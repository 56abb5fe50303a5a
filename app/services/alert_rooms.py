"""What is wrong with rooms at this moment: the conditions of alerts that belong to one room.

Belongs here: the conditions and their sentences. Not here: how long one has to hold (domain/alerts.py), reading what is
judged (alert_sight.py). Source: OBS-116 … OBS-124, OBS-127, OBS-190, OBS-191, CAP-100.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from app.domain.alerts import Trouble
from app.domain.room import RoomState
from app.infrastructure.engine_results import RoomFigures
from app.services.origin_watch import Met
from app.services.room_object import RoomView

MINUTE_MS: Final = 60_000
SLOW_RATE: Final = 3
"""Below this pace per minute a minute without a pass means nothing: three turns are waited for."""
HISTORY_MIN: Final = 60
RECENT_MIN: Final = 5
"""Minutes that belong to a surge itself, not to what is usual."""
DOORS_LATE_MS: Final = 15_000
ACTIVATED_MS: Final = 900_000
REFUSED_WITHIN_MS: Final = 300_000
REFUSED_CHECKS: Final = 10
HOARD_SLOTS: Final = 10
HOARD_PART: Final = 4


@dataclass(slots=True)
class Past:
    """What has to be remembered of a room from one look to the next."""

    quiet_from: int = 0
    """Epoch ms since which no pass was given, as far as is known; 0 = one was given within the last minute."""
    minute: int = 0
    """The last minute (epoch) whose joins are in ``joins``."""
    joins: list[int] = field(default_factory=list)
    """Joins of each minute up to that one, oldest first; -1 = nobody looked."""
    refused: list[tuple[int, int]] = field(default_factory=list)
    """(epoch ms, refused checks counted up to then), oldest first."""

    def to_json(self) -> list[Any]:
        """As it is kept."""
        return [self.quiet_from, self.minute, self.joins, self.refused]

    @classmethod
    def from_json(cls, raw: list[Any]) -> Past:
        """The reverse."""
        quiet_from, minute, joins, refused = raw
        return cls(quiet_from, minute, list(joins), [(at, count) for at, count in refused])

    def saw(self, figures: RoomFigures, now: int) -> bool:
        """Remember this look; True when a minute has ended, so that it is worth keeping elsewhere too."""
        if figures.passed_last_minute:
            self.quiet_from = 0
        elif not self.quiet_from:
            self.quiet_from = now - MINUTE_MS
        minute = now // MINUTE_MS - 1
        if minute <= self.minute:
            return False
        missed = min(minute - self.minute - 1, HISTORY_MIN) if self.minute else 0
        self.joins = [*self.joins, *([-1] * missed), figures.joins_per_min][-HISTORY_MIN:]
        self.minute = minute
        return True

    def saw_refused(self, count: int, now: int) -> None:
        """Remember how many checks of the room were refused since it exists."""
        if self.refused and count < self.refused[-1][1]:
            self.refused.clear()  # counted anew: another generation, or a live store that was lost
        if not self.refused or count != self.refused[-1][1]:
            self.refused.append((now, count))
        while len(self.refused) > 1 and self.refused[1][0] <= now - REFUSED_WITHIN_MS:
            del self.refused[0]

    @property
    def refused_lately(self) -> int:
        """Checks refused within the last five minutes, or since they are counted."""
        return self.refused[-1][1] - self.refused[0][1] if self.refused else 0

    def usual_joins(self, now: int, created_at: int) -> float | None:
        """Mean joins of minutes 5 to 60 before; None = not known, since nobody looked at them."""
        before = self.joins[: max(0, len(self.joins) - (RECENT_MIN - 1))]
        known = [count for count in before if count >= 0]
        if known:
            return sum(known) / len(known)
        return 0.0 if now - created_at < RECENT_MIN * MINUTE_MS * 2 else None


@dataclass(frozen=True, slots=True)
class Look:
    """One room as one look sees it, with what it goes by."""

    view: RoomView
    figures: RoomFigures
    past: Past
    now: int
    surge_min: int
    surge_factor: int
    met: Met | None = None
    """What visitors of an inline room met at its site within the last minute; None = nothing is known."""

    @property
    def name(self) -> str:
        """What people call the room."""
        return self.view.room.config.name

    @property
    def cap(self) -> int | None:
        """Slots of the room; None = as many as come."""
        return self.view.room.config.max_concurrent

    @property
    def is_full(self) -> bool:
        """No slot is free."""
        return self.cap is not None and self.figures.occupancy >= self.cap


def troubles_of(look: Look) -> Iterator[Trouble]:
    """Everything that is wrong with a room whose figures are known."""
    for event, judge in _JUDGES.items():
        message = judge(look)
        if message is not None:
            yield Trouble(event, f"{look.name}: {message}", look.view.room.id)


def recovering(view: RoomView) -> Trouble:
    """The trouble of a room whose live state is not there (OBS-127)."""
    message = f"{view.room.config.name}: being rebuilt from the journal; it answers nobody until that is done"
    return Trouble("rooms_recovering", message, view.room.id)


def _outflow_stalled(look: Look) -> str | None:
    figures, rate = look.figures, look.figures.rate_per_minute
    if figures.effective_state is not RoomState.ACTIVE or rate <= 0 or not figures.waiting or look.is_full:
        return None
    window = MINUTE_MS if rate >= SLOW_RATE else 3 * MINUTE_MS // rate
    if not look.past.quiet_from or look.now - look.past.quiet_from < window:
        return None
    return f"{figures.waiting} waiting and nobody let through in the last {_minutes(window)}"


def _queue_frozen(look: Look) -> str | None:
    figures = look.figures
    if not figures.waiting:
        return None
    if figures.effective_state is RoomState.PAUSED:
        return f"{figures.waiting} waiting while the room is paused"
    if figures.effective_state is RoomState.ACTIVE and figures.rate_per_minute == 0:
        return f"{figures.waiting} waiting and the rate is 0/min"
    return None


def _capacity_full(look: Look) -> str | None:
    figures = look.figures
    if not figures.waiting or not look.is_full or figures.passed_last_minute:
        return None
    return (
        f"{figures.waiting} waiting and all {look.cap} places are taken; nobody was let through in the last minute. "
        "A higher rate will not help: people have to leave first, or maxConcurrent has to be raised"
    )


def _surge(look: Look) -> str | None:
    joins = look.figures.joins_per_min
    if look.figures.effective_state is RoomState.SCHEDULED or not 0 < look.surge_min <= joins:
        return None
    usual = look.past.usual_joins(look.now, look.view.room.created_at)
    if usual is None or joins < look.surge_factor * max(1.0, usual):
        return None
    return f"{joins} joins in the last minute; usual are {max(1.0, usual):.0f}"


def _target_down(look: Look) -> str | None:
    return None if look.view.room.config.is_inline else _site_down(look)


def _origin_down(look: Look) -> str | None:
    """What visitors meet outweighs the knocks: one may be answered while every real page fails (OBS-048)."""
    if not look.view.room.config.is_inline:
        return None
    met = look.met
    if met is not None and met.is_down:
        return f"{met.failed} of {met.proxied} requests failed at the site behind the room in the last minute"
    return _site_down(look)


def _site_down(look: Look) -> str | None:
    site = look.view.site
    if site is None or site.is_up is not False:
        return None
    reason = site.failure or "no answer"
    return f"the site behind the room does not answer ({reason}, seen by {site.by})"


def _doors_late(look: Look) -> str | None:
    figures = look.figures
    late = figures.now - figures.opens_at
    if not figures.phase or not figures.opens_at or late <= DOORS_LATE_MS:
        return None
    return f"the doors should have opened {late // 1000} s ago and the order of the line is not drawn"


def _room_auto_activated(look: Look) -> str | None:
    figures = look.figures
    at = figures.last_switch_at
    if figures.last_switch != "opened" or at is None or figures.now - at >= ACTIVATED_MS:
        return None
    return "threshold activation turned the queue on"


def _unprotected_pages(look: Look) -> str | None:
    refused = look.past.refused_lately
    if refused < REFUSED_CHECKS:
        return None
    return (
        f"{refused} checks refused in the last 5 minutes, for a wrong key or an origin that the tag policy does not "
        "cover: pages with your tag or connector may run unprotected"
    )


def _joins_refused(look: Look) -> str | None:
    bounds = {
        "line": "the line is as long as QM_LINE_MAX allows",
        "memory": "Valkey is short of memory",
    }
    bound = look.figures.joins_refused
    return None if bound is None else f"takes nobody new: {bounds.get(bound, bound)}"


def _slots_hoarded(look: Look) -> str | None:
    held, cap = look.figures.top_address_slots, look.cap
    if cap is None or held < HOARD_SLOTS or held * HOARD_PART < cap:
        return None
    return f"one visitor address holds {held} of {cap} places; sessionMaxPerIp would bound it"


def _minutes(ms: int) -> str:
    minutes = ms / MINUTE_MS
    return "minute" if minutes == 1 else f"{minutes:g} minutes"


_JUDGES: Final[dict[str, Callable[[Look], str | None]]] = {
    "outflow_stalled": _outflow_stalled,
    "queue_frozen": _queue_frozen,
    "capacity_full": _capacity_full,
    "surge": _surge,
    "target_down": _target_down,
    "origin_down": _origin_down,
    "doors_late": _doors_late,
    "room_auto_activated": _room_auto_activated,
    "unprotected_pages": _unprotected_pages,
    "joins_refused": _joins_refused,
    "slots_hoarded": _slots_hoarded,
}
