"""What an instance does about alerts by itself: saying that it cannot reach Valkey, and showing how many fire.

While Valkey is away nobody leads, so each instance tells of that itself, directly and from its own memory; when it is
back, the instance tells that too. Source: OBS-081, OBS-126, OBS-150, FLT-025, WHK-173.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from app.core import metrics
from app.core.clock import mono, wall_ms
from app.core.errors import StorageUnavailable
from app.core.settings import Settings
from app.domain.alert_delivery import Delivery
from app.domain.alerts import Looked, Pace, Severity, Trouble, look
from app.domain.room import Room
from app.infrastructure.alert_store import AlertStore
from app.infrastructure.metric_book import MetricBook
from app.services.alert_log import Attempts
from app.services.alert_outbox import Outbox, Sends

LOOK_SEC: Final = 1.0
NAMED: Final = 10

log = structlog.get_logger(__name__)


class LocalAlerts:
    """The loop of one instance. ``client`` None: there is nobody to tell."""

    def __init__(
        self,
        *,
        instance: str,
        settings: Settings,
        ping: Callable[[], Awaitable[object]],
        rooms: Callable[[], Sequence[Room]],
        store: AlertStore,
        book: MetricBook,
        attempts: Attempts,
        client: Sends | None,
        now: Callable[[], int] = wall_ms,
    ) -> None:
        """``ping`` raises StorageUnavailable while Valkey cannot be reached; ``rooms``: as last known."""
        self._instance = instance
        self._settings = settings
        self._ping = ping
        self._rooms = rooms
        self._store = store
        self._book = book
        self._attempts = attempts
        self._now = now
        self._looked = Looked({})
        # A look that takes long because Valkey does breaks no hold: the time in between was no better.
        gap_ms = settings.valkey_alert_after_ms + 3_600_000
        self._pace = Pace(settings.valkey_alert_after_ms, settings.alert_repeat_sec * 1000, gap_ms)
        self._counted = float("-inf")
        self.outbox = None if client is None else Outbox(client, save=_nowhere, noted=attempts.note, now=now)

    async def run(self, stop: asyncio.Event) -> None:
        """Look once a second until ``stop`` is set."""
        sending = None if self.outbox is None else asyncio.create_task(self.outbox.run(), name="own-alerts")
        try:
            while not stop.is_set():
                try:
                    await self.look()
                except Exception:
                    log.exception("own_alerts_failed")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), LOOK_SEC)
        finally:
            if sending is not None:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def look(self) -> None:
        """One look at Valkey; with it, every now and then, at what fires."""
        troubles: list[Trouble] = []
        try:
            await self._ping()
        except StorageUnavailable:
            troubles.append(Trouble("valkey_unreachable", self._message(), None, (self._instance,), alone=True))
        self._looked, notices = look(self._looked, troubles, self._now(), self._pace, tells=self.outbox is not None)
        self._show()
        if self.outbox is not None and notices:
            new = [Delivery.of(notice) for notice in notices]
            self.outbox.take_older(new)
            self.outbox.put(new)
        if not troubles:
            with contextlib.suppress(StorageUnavailable):
                await self._attempts.hand_over()
                await self._count()

    def _show(self) -> None:
        """Leave what fires for the web workers, who show it while Valkey cannot."""
        firing = self._looked.firing
        since, fired, told = (firing[0].since, firing[0].fired_at, firing[0].told_at) if firing else (0, 0, 0)
        self._book.put(metrics.VALKEY_ALERT_SINCE, since)
        self._book.put(metrics.VALKEY_ALERT_FIRED, fired or 0)
        self._book.put(metrics.VALKEY_ALERT_TOLD, told or 0)

    def _message(self) -> str:
        """Who gets in meanwhile (OBS-126)."""
        configs = [room.config for room in self._rooms()]
        names = [config.name for config in configs if config.is_inline and config.on_backend_down == "open"]
        shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
        inline = f"inline rooms that let everybody in meanwhile: {shown}; " if names else ""
        return (
            f"{self._instance} cannot reach Valkey: nobody is let through by the line; {inline}"
            "tags and connectors let visitors through unqueued"
        )

    async def _count(self) -> None:
        """Numbers of alerts for /metrics and health, as every instance reads them."""
        if mono() - self._counted < self._settings.alert_every_ms / 1000:
            return
        looked = (await self._store.read()).looked
        self._counted = mono()
        fired = Counter(alert.trouble.severity for alert in looked.firing)
        for severity in Severity:
            self._book.put(metrics.ALERTS_FIRING, fired[severity], severity.value)
        self._book.put(metrics.ALERTS_PENDING, len(looked.pending))


async def _nowhere(_: str, __: Delivery | None) -> None:
    """What is told directly is kept in memory alone (WHK-174)."""
