"""What is known of alerts, in the live store: their state, notices on their way, what was sent lately.

The state carries the leader's epoch, so that a leader whose term is over changes nothing (OBS-147, FLT-026). A notice
is written in the same step as the alert that it tells of: after a crash neither is known without the other.
Not here: what follows from the state (domain/alerts.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
import ujson

from app.domain.alert_delivery import Delivery
from app.domain.alerts import Alert, Looked
from app.infrastructure.engine_auto import Overtaken
from app.infrastructure.keys import alert_log_key, alerts_key
from app.infrastructure.lua_loader import Commands, LuaLoader

LOG_MAX: Final = 20
"""Attempts that are shown (OBS-155)."""
LOG_LIFE_MS: Final = 86_400_000

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Kept:
    """All that is kept."""

    looked: Looked
    deliveries: dict[str, Delivery] = field(default_factory=dict)
    """By id."""
    rooms: dict[str, Any] = field(default_factory=dict)
    """What was remembered of rooms, by their ids, and of the fleet, by an empty one."""


@dataclass(slots=True)
class Changes:
    """What one write changes; None = gone."""

    alerts: Mapping[str, Alert | None] = field(default_factory=dict)
    deliveries: Mapping[str, Delivery | None] = field(default_factory=dict)
    rooms: Mapping[str, Any] = field(default_factory=dict)
    at: int | None = None

    def pairs(self) -> list[str]:
        """Fields and values for the store."""
        pairs = [] if self.at is None else ["at", str(self.at)]
        for key, alert in self.alerts.items():
            pairs += ["a" + key, "" if alert is None else alert.to_text()]
        for delivery_id, delivery in self.deliveries.items():
            pairs += ["n" + delivery_id, "" if delivery is None else delivery.to_text()]
        for room_id, remembered in self.rooms.items():
            pairs += ["r" + room_id, "" if remembered is None else ujson.dumps(remembered)]
        return pairs


class AlertStore:
    """Reads and writes. Calls raise StorageUnavailable; ``put`` raises Overtaken when a later leader has written."""

    def __init__(self, valkey: Commands, prefix: str, loader: LuaLoader) -> None:
        self._valkey = valkey
        self._loader = loader
        self._key = alerts_key(prefix)

    async def read(self) -> Kept:
        """All of it. Alerts of events that this build does not know are left out, and what it cannot read."""
        flat = await self._valkey.execute("HGETALL", self._key)
        alerts: dict[str, Alert] = {}
        kept = Kept(Looked(alerts))
        for name, text in zip(flat[::2], flat[1::2], strict=True):
            try:
                _take(kept, alerts, name, text)
            except (LookupError, TypeError, ValueError):
                # What a later release keeps in another form is not this one's to judge; the rest is.
                log.warning("alert_state_not_read", field=name.decode(errors="replace"))
        return kept

    async def put(self, epoch: int, changes: Changes) -> None:
        """Write changes in one step."""
        pairs = changes.pairs()
        if not pairs:
            return
        reply = await self._loader.call("leader_put", self._key, epoch, *pairs)
        if reply[1] != 1:
            raise Overtaken


def _take(kept: Kept, alerts: dict[str, Alert], name: bytes, text: bytes) -> None:
    """One field of the hash."""
    kind, rest = chr(name[0]), name[1:].decode()
    if name == b"at":
        kept.looked = Looked(alerts, int(text))
    elif name == b"epoch":
        return
    elif kind == "a":
        alert = Alert.from_text(text)
        if alert is not None:
            alerts[rest] = alert
    elif kind == "n":
        kept.deliveries[rest] = Delivery.from_text(text)
    elif kind == "r":
        kept.rooms[rest] = ujson.loads(text)


class AlertLog:
    """The last attempts of one run of an instance. Calls raise StorageUnavailable."""

    def __init__(self, valkey: Commands, prefix: str, run: str) -> None:
        """``run``: name of this run of the instance."""
        self._valkey = valkey
        self._key = alert_log_key(prefix, run)

    async def add(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Put attempts, oldest first, before those that are there."""
        texts = [ujson.dumps(entry, ensure_ascii=False) for entry in entries]
        await self._valkey.pipeline(
            [
                ("LPUSH", self._key, *texts),
                ("LTRIM", self._key, 0, LOG_MAX - 1),
                ("PEXPIRE", self._key, LOG_LIFE_MS),
            ]
        )

    async def latest(self) -> list[dict[str, Any]]:
        """The last attempts, the latest first."""
        return [dict(ujson.loads(text)) for text in await self._valkey.execute("LRANGE", self._key, 0, -1)]
