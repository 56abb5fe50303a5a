"""The attempts of one process at telling of alerts: counted, and put where everybody of the instance can read them.

While the live store is away they wait here, the latest of them. Source: OBS-105, OBS-155.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from app.core import metrics
from app.infrastructure.alert_store import LOG_MAX, AlertLog
from app.infrastructure.metric_book import MetricBook


class Attempts:
    """Takes attempts and hands them over."""

    def __init__(self, log: AlertLog, book: MetricBook) -> None:
        self._log = log
        self._book = book
        self._waiting: deque[dict[str, Any]] = deque(maxlen=LOG_MAX)
        self._handing = asyncio.Lock()

    def note(self, entry: dict[str, Any]) -> None:
        """An attempt was made (``Delivery.attempt_json``)."""
        self._book.add(metrics.ALERT_DELIVERIES, "sent" if entry["ok"] else "failed")
        self._waiting.append(entry)

    async def hand_over(self) -> None:
        """Put what waits into the live store. Raises StorageUnavailable; nothing is lost by it."""
        async with self._handing:
            entries = list(self._waiting)
            if not entries:
                return
            await self._log.add(entries)
            for entry in entries:
                # An attempt made meanwhile may have pushed the oldest out.
                if self._waiting[0] is entry:
                    self._waiting.popleft()

    async def latest(self) -> list[dict[str, Any]]:
        """The last attempts of the instance, the latest first. Raises StorageUnavailable."""
        await self.hand_over()
        return await self._log.latest()

    @property
    def waiting(self) -> list[dict[str, Any]]:
        """Those that were not handed over, the latest first."""
        return list(reversed(self._waiting))

    def total(self, result: str) -> int:
        """The instance's number of attempts that were ``sent``, or ``failed``."""
        return self._book.total(metrics.ALERT_DELIVERIES, result)
