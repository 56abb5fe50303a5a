"""Alerts: which there are, when one fires, is told again and is over. Pure: what is wrong now is found elsewhere.

A trouble is something that is wrong at this moment; it becomes an alert that fires once it has held without a break
for long enough. Not here: finding troubles (services/alert_rooms.py), telling of them (alert_notice.py).
Source: OBS-111 … OBS-115, OBS-142, OBS-147.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import ujson


class Severity(StrEnum):
    """How much it matters."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Status(StrEnum):
    """What a notice says of its alert."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of alert. ``waits``: it has to hold for ALERT_HOLD_SEC (OBS-113 names the others)."""

    event: str
    severity: Severity
    waits: bool = True


_KINDS: Final = (
    Kind("outflow_stalled", Severity.CRITICAL),
    Kind("queue_frozen", Severity.WARNING),
    Kind("capacity_full", Severity.WARNING),
    Kind("surge", Severity.WARNING),
    Kind("target_down", Severity.WARNING),
    Kind("doors_late", Severity.CRITICAL),
    Kind("room_auto_activated", Severity.INFO),
    Kind("unprotected_pages", Severity.WARNING),
    Kind("rooms_recovering", Severity.CRITICAL),
    Kind("joins_refused", Severity.CRITICAL),
    Kind("slots_hoarded", Severity.WARNING),
    Kind("origin_down", Severity.CRITICAL),
    Kind("storage_failing", Severity.CRITICAL, waits=False),
    Kind("valkey_unreachable", Severity.CRITICAL),
    Kind("tokens_rejected", Severity.CRITICAL),
    Kind("clock_jump", Severity.WARNING),
    Kind("connection_limit", Severity.CRITICAL),
    Kind("proxy_undeclared", Severity.WARNING),
    Kind("edge_mismatch", Severity.CRITICAL),
    Kind("valkey_policy", Severity.CRITICAL),
    Kind("valkey_memory", Severity.WARNING),
    Kind("instance_lost", Severity.WARNING),
    Kind("cpu_contention", Severity.WARNING),
    Kind("fleet_below_min", Severity.CRITICAL),
    Kind("cpus_below_min", Severity.CRITICAL),
    Kind("connector_locked", Severity.CRITICAL, waits=False),
    Kind("test", Severity.INFO, waits=False),
)
KINDS: Final[Mapping[str, Kind]] = {kind.event: kind for kind in _KINDS}
"""Every event of this build, in the order of the documentation."""
OF_FIGURES: Final = frozenset(
    {
        "outflow_stalled", "queue_frozen", "capacity_full", "surge", "doors_late", "room_auto_activated",
        "rooms_recovering",
    }
)  # fmt: skip
"""Events whose message tells nothing but a room's name and figures."""
GENERAL: Final[Mapping[str, str]] = {
    "target_down": "the site behind the room does not answer",
    "origin_down": "the site behind the room does not answer",
    "unprotected_pages": "checks are refused: pages run unprotected",
    "joins_refused": "the room takes nobody new",
    "slots_hoarded": "one visitor address holds many places of the room",
    "storage_failing": "the journal takes no commits",
    "valkey_unreachable": "Valkey cannot be reached",
    "tokens_rejected": "many visitor tokens are refused",
    "clock_jump": "the clock of a server jumped",
    "connection_limit": "a server holds as many connections as it may",
    "proxy_undeclared": "a proxy is not declared",
    "edge_mismatch": "requests are refused that do not come through the CDN as they should",
    "valkey_policy": "Valkey is not set up as it must be",
    "valkey_memory": "Valkey is short of memory",
    "instance_lost": "a server stopped telling of itself",
    "connector_locked": "a connector is locked out",
    "cpu_contention": "a server does not get the CPU that it needs",
    "fleet_below_min": "fewer servers run than the deployment needs",
    "cpus_below_min": "a server is smaller than the deployment needs",
}
"""Sentences in place of messages that name instances, addresses or settings, for readers with a link (ADM-238)."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong now. Two of one event and subject are the same trouble, whatever their messages."""

    event: str
    message: str
    room_id: str | None = None
    instances: tuple[str, ...] = ()
    """Names of the instances it belongs to; for a trouble of the whole fleet they are part of what is told only."""
    alone: bool = False
    """True: there is one alert for each instance (OBS-114), so ``instances`` is its subject."""

    @property
    def severity(self) -> Severity:
        """That of its kind."""
        return KINDS[self.event].severity

    @property
    def key(self) -> str:
        """Event and subject."""
        subject = self.room_id or (f"@{','.join(self.instances)}" if self.alone else "")
        return f"{self.event} {subject}"


@dataclass(frozen=True, slots=True)
class Alert:
    """A trouble over time; all times are epoch ms."""

    trouble: Trouble
    since: int
    """When it began."""
    fired_at: int | None = None
    """None: it has not held long enough."""
    told_at: int | None = None
    """When a notice of it was last decided; None: never, also while there is nobody to tell."""

    def to_text(self) -> str:
        """As it is kept."""
        what = self.trouble
        members = [what.event, what.message, what.room_id, list(what.instances), what.alone]
        return ujson.dumps([*members, self.since, self.fired_at, self.told_at], ensure_ascii=False)

    @classmethod
    def from_text(cls, text: bytes | str) -> Alert | None:
        """The reverse; None for an event that this build does not know."""
        event, message, room_id, instances, alone, *times = ujson.loads(text)
        if event not in KINDS:
            return None
        return cls(Trouble(event, message, room_id, tuple(instances), alone), *times)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell about an alert."""

    alert: Alert
    status: Status
    at: int
    """When it was decided (``ts``)."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long an alert waits and how often it is told, in ms."""

    hold_ms: int
    repeat_ms: int
    """0 = never again."""
    gap_ms: int
    """Longest time between two looks that does not break a hold."""

    def fires_at(self, alert: Alert) -> int:
        """When the alert fires if it goes on."""
        return alert.since + (self.hold_ms if KINDS[alert.trouble.event].waits else 0)


@dataclass(frozen=True, slots=True)
class Looked:
    """Where things stand after a look: alerts by the key of their trouble, and when it was (0 = never)."""

    alerts: Mapping[str, Alert]
    at: int = 0

    @property
    def firing(self) -> list[Alert]:
        """Alerts that have fired, the first to begin first."""
        return sorted((a for a in self.alerts.values() if a.fired_at is not None), key=_by_since)

    @property
    def pending(self) -> list[Alert]:
        """Those that have not held long enough."""
        return sorted((a for a in self.alerts.values() if a.fired_at is None), key=_by_since)


def look(
    before: Looked,
    troubles: Iterable[Trouble],
    now: int,
    pace: Pace,
    *,
    tells: bool,
    is_judged: Callable[[Trouble], bool] = lambda trouble: True,
) -> tuple[Looked, list[Notice]]:
    """Go on from the last look with what is wrong now.

    ``tells``: there is somebody to tell. ``is_judged``: whether this look could see if a trouble still holds; one that
    it could not see stays as it is, so that not knowing never looks like all being well.
    """
    broken = now - before.at > pace.gap_ms
    found = {trouble.key: trouble for trouble in troubles}
    alerts: dict[str, Alert] = {}
    notices: list[Notice] = []
    for key, trouble in found.items():
        known = before.alerts.get(key)
        if known is None or (known.fired_at is None and broken):
            known = Alert(trouble, now)
        alert = replace(known, trouble=trouble)
        if alert.fired_at is None and now >= pace.fires_at(alert):
            alert = replace(alert, fired_at=now)
        if tells and _is_due(alert, now, pace):
            alert = replace(alert, told_at=now)
            notices.append(Notice(alert, Status.FIRING, now))
        alerts[key] = alert
    for key, alert in before.alerts.items():
        if key in found:
            continue
        if not is_judged(alert.trouble):
            alerts[key] = alert
        elif tells and alert.told_at is not None:
            notices.append(Notice(alert, Status.RESOLVED, now))
    return Looked(alerts, now), notices


def _is_due(alert: Alert, now: int, pace: Pace) -> bool:
    if alert.fired_at is None:
        return False
    return alert.told_at is None or (pace.repeat_ms > 0 and now - alert.told_at >= pace.repeat_ms)


def _by_since(alert: Alert) -> tuple[int, str]:
    return alert.since, alert.trouble.key


def changes(before: Looked, after: Looked) -> dict[str, Alert | None]:
    """Alerts of ``after`` that are new or other than in ``before``; None for those that are gone."""
    gone: dict[str, Alert | None] = {key: None for key in before.alerts if key not in after.alerts}
    return gone | {key: alert for key, alert in after.alerts.items() if before.alerts.get(key) != alert}


def kinds_json() -> list[dict[str, Any]]:
    """``events`` of ``GET /api/admin/alerts``."""
    return [{"event": kind.event, "severity": kind.severity.value} for kind in KINDS.values()]
