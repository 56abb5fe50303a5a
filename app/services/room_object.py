"""A room as the admin API shows it: settings, and the read-only facts that this build can tell (ADM-113, ADM-114).

A fact that is not known is ``null``, never a number that nobody counted (CON-080). Not here: reading rooms and
figures (rooms.py, live.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.domain.estimate import estimated_wait_sec
from app.domain.fold_marks import LastChange
from app.domain.origin_errors import WINDOW_SEC
from app.domain.room import Room, RoomState, UrlRule
from app.domain.room_fields import settings_json
from app.infrastructure.engine_results import RoomFigures
from app.infrastructure.site_store import SiteShown
from app.services.fleet_counts import OUTCOMES
from app.services.room_details import Details
from app.services.visitor_counts import rule_field

FIGURES: Final = (
    "waiting", "preQueue", "active", "pendingEntry", "occupancy", "passesOutstanding", "joinsPerMin",
    "passedLastMinute", "oldestWaitSec", "lastTicket", "estWaitSec", "estWaitIsFloor", "estWaitInfinite",
    "checksWithoutUrl", "blockedReturnUrls", "sharedSessions", "topAddressSlots",
)  # fmt: skip
"""Members that come from the live state; ``null`` while it cannot be read."""
_UNKNOWN: Final = ("origins", "originsTotal", "originsInRotation")
"""Members whose feature or count is not in this build."""


@dataclass(frozen=True, slots=True)
class RoomView:
    """One room at one moment. ``figures`` None: its live state cannot be read; ``stale_since`` then says why:
    epoch ms since when Valkey is away, or None when only this room is being rebuilt."""

    room: Room
    figures: RoomFigures | None
    stale_since: int | None = None
    details: Details | None = None
    """None: never read."""
    site: SiteShown | None = None
    """None: not knocked at, or not lately."""

    @property
    def is_recovering(self) -> bool:
        """The room is known, Valkey answers, and its live state is not there (ADM-123)."""
        return self.figures is None and self.stale_since is None


def room_object(view: RoomView) -> dict[str, Any]:
    """The JSON object of a room."""
    room, figures = view.room, view.figures
    settings = settings_json(room.config)
    if figures is not None:
        settings["state"] = figures.state.word
        settings["rate"] = figures.rate_per_minute
    answer = {
        **settings,
        "autoActivate": _auto_activate(settings["autoActivate"], figures),
        "generation": room.generation,
        "etag": etag(settings, room.generation),
        "createdAt": room.created_at,
        "updatedAt": room.updated_at,
        "mode": "inline" if room.config.is_inline else "snippet",
        "effectiveState": settings["state"] if figures is None else figures.effective_state.word,
        "drawnAt": None if figures is None or figures.phase else figures.drawn_at or None,
        **(_figures_json(figures) if figures is not None else dict.fromkeys(FIGURES)),
        **dict.fromkeys(_UNKNOWN),
        "lastChange": None if figures is None else _last_change(figures.last_change),
        "waitP50Sec": None if view.details is None else view.details.wait_p50_sec,
        "waitP90Sec": None if view.details is None else view.details.wait_p90_sec,
        "refusedOriginChecks": _refused_origins(view.details),
        "protectionCounts": _protection(view.details),
        "site": _site_json(view),
        "origin": _origin(view),
        "recovering": view.is_recovering,
        "stale": view.stale_since is not None,
    }
    answer["rules"] = _rules_json(room.config.rules, settings["rules"], view.details)
    if view.stale_since is not None:
        answer["staleSince"] = view.stale_since
    return answer


def _rules_json(
    rules: Sequence[UrlRule], shown: Sequence[dict[str, Any]], details: Details | None
) -> list[dict[str, Any]]:
    """Rules with the checks that they decided (ENG-203); ``hits`` null: not read."""
    if details is None:
        return [{**one, "hits": None, "lastMatchedAt": None} for one in shown]
    counted = [details.rules.get(rule_field(rule), (0, None)) for rule in rules]
    return [{**one, "hits": hits, "lastMatchedAt": at} for one, (hits, at) in zip(shown, counted, strict=True)]


def _last_change(mark: bytes | None) -> dict[str, Any] | None:
    """Who changed state or rate last (ADM-121)."""
    if mark is None:
        return None
    last = LastChange.read(mark)
    return {"at": last.at, "by": last.by, "kind": last.kind, "text": last.text}


def _refused_origins(details: Details | None) -> list[dict[str, Any]] | None:
    """Refused checks by origin, most first (ENG-211)."""
    if details is None:
        return None
    pairs = sorted(details.refused_origins.items(), key=lambda pair: (-pair[1], pair[0]))
    return [{"origin": origin, "count": count} for origin, count in pairs]


def _protection(details: Details | None) -> dict[str, int] | None:
    """What bot protection made of the room's newcomers (VIS-205)."""
    return None if details is None else {name: details.protection.get(name, 0) for name in OUTCOMES}


def etag(settings: dict[str, Any], generation: int) -> str:
    """Short text that changes with every change of the settings, the same in every process (ADM-125)."""
    text = json.dumps([settings, generation], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _figures_json(figures: RoomFigures) -> dict[str, Any]:
    wait = line_wait(figures)
    return {
        "waiting": figures.waiting,
        "preQueue": figures.pre_queue,
        "active": figures.active,
        "pendingEntry": figures.pending_entry,
        "occupancy": figures.occupancy,
        "passesOutstanding": figures.passes_outstanding,
        "joinsPerMin": figures.joins_per_min,
        "passedLastMinute": figures.passed_last_minute,
        "oldestWaitSec": figures.oldest_wait_sec,
        "lastTicket": figures.last_ticket,
        "estWaitSec": wait,
        "estWaitIsFloor": figures.est_is_floor and bool(wait),
        "estWaitInfinite": wait is None,
        "checksWithoutUrl": figures.checks_without_url,
        "blockedReturnUrls": figures.blocked_return_urls,
        "sharedSessions": figures.shared_sessions,
        "topAddressSlots": figures.top_address_slots,
    }


_SITE_STATES: Final = {None: "unknown", True: "up", False: "down"}


def _origin(view: RoomView) -> dict[str, Any] | None:
    """What visitors of an inline room met lately (ADM-120)."""
    if not view.room.config.is_inline or view.details is None:
        return None
    errors = view.details.origin
    return {
        "errorPages": errors.error_pages,
        "windowSec": WINDOW_SEC,
        "lastAt": errors.last_at,
        "classes": dict(errors.classes),
    }


def _site_json(view: RoomView) -> dict[str, Any]:
    """How the site answers its knocks; what real visitors meet outweighs it (ADM-119)."""
    site = view.site
    is_failing = view.room.config.is_inline and view.details is not None and view.details.origin.is_failing
    if site is None:
        status = "failing" if is_failing else "unknown"
        return {"status": status, "checkedAt": None, "httpStatus": None, "ms": None}
    return {
        "status": "failing" if is_failing else _SITE_STATES[site.is_up],
        "checkedAt": site.checked_at,
        "httpStatus": site.http_status,
        "ms": site.ms,
    }


def _auto_activate(settings: dict[str, Any] | None, figures: RoomFigures | None) -> dict[str, Any] | None:
    """The setting with its two facts (ENG-221)."""
    if settings is None:
        return None
    at, what = (None, None) if figures is None else (figures.last_switch_at, figures.last_switch)
    return {**settings, "lastSwitchAt": at, "lastSwitch": what}


def line_wait(figures: RoomFigures) -> int | None:
    """Seconds until everyone now in line is released; None = people wait and nobody is let in (ADM-118).

    In bypass nobody has to wait: whoever still holds a place is told to go in.
    """
    if figures.waiting == 0 or figures.effective_state is RoomState.BYPASS:
        return 0
    if figures.effective_state is not RoomState.ACTIVE or figures.rate_per_minute == 0:
        return None
    return estimated_wait_sec(figures.waiting, figures.release_per_min)
