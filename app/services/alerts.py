"""Alerts as the admin API shows them, and the test that tells whether the way to the receiver works.

Not here: finding and telling of alerts (alert_duty.py). Source: OBS-154 … OBS-158, ADM-273 … ADM-275.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from app.core import metrics
from app.core.clock import wall_ms
from app.core.errors import QmError, RateLimited, StorageUnavailable
from app.core.runtime import Runtime
from app.domain.actor import Actor
from app.domain.alert_delivery import Delivery
from app.domain.alerts import GENERAL, OF_FIGURES, Alert, Looked, Notice, Status, Trouble, kinds_json
from app.infrastructure.alert_store import LOG_MAX, AlertStore
from app.infrastructure.hook_client import HookClient
from app.infrastructure.leader_lease import leader_name
from app.infrastructure.lua_loader import Commands
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rate_limiter import RateLimiter
from app.services.alert_duty import pace_of
from app.services.alert_log import Attempts
from app.services.audit_trail import AuditTrail

TESTS_A_MINUTE: Final = 6
_BUDGET: Final = "pages", b"alerts.test"
"""The table of some budget, and a key in it that is no address."""


class NoWebhook(QmError):
    """409 ``alert_webhook_not_set``."""

    status = 409
    code = "alert_webhook_not_set"
    sentence = "ALERT_WEBHOOK_URL is not set, so there is nowhere to send a test."


class Alerts:
    """Answers of one web worker."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        valkey: Commands,
        store: AlertStore,
        attempts: Attempts,
        book: MetricBook,
        trail: AuditTrail,
        client: HookClient | None,
        limiter: RateLimiter,
    ) -> None:
        """``client``: of ALERT_WEBHOOK_URL; None when it is not set."""
        self._runtime = runtime
        self._valkey = valkey
        self._store = store
        self._attempts = attempts
        self._book = book
        self._trail = trail
        self._client = client
        self._limiter = limiter
        self._known: tuple[Looked, str | None, list[dict[str, Any]]] = Looked({}), None, []

    async def overview(self) -> dict[str, Any]:
        """The whole answer; what was last known while the live store is away."""
        looked, leader, deliveries = await self._read()
        settings, pace = self._runtime.settings, pace_of(self._runtime.settings)
        return {
            "configured": self._client is not None,
            "webhookHost": None if self._client is None else self._client.host,
            "everyMs": settings.alert_every_ms,
            "holdSec": settings.alert_hold_sec,
            "repeatSec": settings.alert_repeat_sec,
            "instance": self._runtime.instance_id,
            "leader": self._runtime.is_leader,
            "leaderInstance": leader,
            "firing": [_firing(alert) for alert in [*self._own(), *looked.firing]],
            "pending": [{**_shown(alert), "firesAt": pace.fires_at(alert)} for alert in looked.pending],
            "deliveries": deliveries,
            "sent": self._attempts.total("sent"),
            "failed": self._attempts.total("failed"),
            "events": kinds_json(),
        }

    async def firing_only(self) -> dict[str, Any]:
        """What a monitor link reads: no names of instances, and general sentences (OBS-156, ADM-238)."""
        looked, *_ = await self._read()
        return {"firing": [_reduced(alert) for alert in [*self._own(), *looked.firing]]}

    async def test(self, actor: Actor) -> dict[str, Any]:
        """Send a test notice at once, in one attempt, while a store is away too. Raises NoWebhook, RateLimited."""
        if self._client is None:
            raise NoWebhook
        budget = self._limiter.take(*_BUDGET, TESTS_A_MINUTE)
        if not budget.allowed:
            raise RateLimited(
                f"At most {TESTS_A_MINUTE} test alerts a minute", headers={"Retry-After": str(budget.retry_after_sec)}
            )
        now = wall_ms()
        trouble = Trouble("test", f"Test alert, sent by instance {self._runtime.instance_id}")
        delivery = Delivery.of(Notice(Alert(trouble, now, now, now), Status.FIRING, now))
        outcome = await self._client.send(delivery)
        entry = delivery.attempt_json(outcome)
        self._attempts.note(entry)
        detail = "delivered" if outcome.is_ok else f"not delivered: {outcome.error}"
        await self._trail.note(actor, "alerts.test", detail, ok=outcome.is_ok)
        with contextlib.suppress(StorageUnavailable):
            await self._attempts.hand_over()
        return {"ok": outcome.is_ok, "delivery": entry}

    def _own(self) -> list[Alert]:
        """What this instance alone knows, since nobody can be told of it by way of Valkey (OBS-150)."""
        since, fired, told = (
            self._book.latest(fact)
            for fact in (metrics.VALKEY_ALERT_SINCE, metrics.VALKEY_ALERT_FIRED, metrics.VALKEY_ALERT_TOLD)
        )
        if not since:
            return []
        name = self._runtime.instance_id
        trouble = Trouble("valkey_unreachable", f"{name} cannot reach Valkey", None, (name,), alone=True)
        return [Alert(trouble, since, fired, told or None)]

    async def _read(self) -> tuple[Looked, str | None, list[dict[str, Any]]]:
        """Alerts, name of the leader, last attempts; as last known while the live store is away."""
        try:
            kept = await self._store.read()
            leader = await leader_name(self._valkey, self._runtime.settings.valkey_prefix)
            self._known = kept.looked, leader, await self._attempts.latest()
        except StorageUnavailable:
            looked, _, deliveries = self._known
            return looked, None, [*self._attempts.waiting, *deliveries][:LOG_MAX]
        return self._known


def _shown(alert: Alert) -> dict[str, Any]:
    what = alert.trouble
    return {
        "event": what.event,
        "severity": what.severity.value,
        "roomId": what.room_id,
        "instances": list(what.instances),
        "message": what.message,
        "since": alert.since,
    }


def _firing(alert: Alert) -> dict[str, Any]:
    return {**_shown(alert), "firedAt": alert.fired_at, "lastSentAt": alert.told_at}


def _reduced(alert: Alert) -> dict[str, Any]:
    what = alert.trouble
    shown = {name: value for name, value in _firing(alert).items() if name != "instances"}
    is_plain = what.event in OF_FIGURES
    return shown if is_plain else {**shown, "message": GENERAL.get(what.event, what.event.replace("_", " "))}
