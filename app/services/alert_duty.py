"""Watching over the deployment: a duty of the leader, who looks every ALERT_EVERY_MS and alone tells of it.

Everything that decides about telling is in the live store, written in one step with the notice itself, so that a new
leader neither announces an alert again nor forgets its end. Not here: what is looked at (alert_sight.py), sending
(alert_outbox.py). Source: OBS-111, OBS-112, OBS-146, OBS-147, OBS-151 … OBS-153, FLT-012, FLT-026.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol

import structlog

from app.core.clock import mono, wall_ms
from app.core.settings import Settings
from app.domain.alert_delivery import Delivery
from app.domain.alerts import Looked, Pace, changes, look
from app.infrastructure.alert_store import AlertStore, Changes
from app.infrastructure.engine_auto import Overtaken
from app.services.alert_log import Attempts
from app.services.alert_outbox import Outbox, Sends
from app.services.alert_sight import Seen
from app.services.leadership import Term, TermOver

GAP_LOOKS: Final = 3
"""Looks that may be missed without breaking a hold; a change of the leader misses one or two."""
GAP_LEAST_MS: Final = 30_000

log = structlog.get_logger(__name__)


class Sight(Protocol):
    """Who looks (alert_sight.AlertSight)."""

    def recall(self, remembered: Any) -> None:
        """Go on from what an earlier leader remembered."""
        ...

    async def look(self, now: int, open_events: Collection[str]) -> Seen:
        """Look at everything. ``open_events``: those that fire now. Raises StorageUnavailable."""
        ...


def pace_of(settings: Settings) -> Pace:
    """The pace that the settings ask for."""
    return Pace(
        hold_ms=settings.alert_hold_sec * 1000,
        repeat_ms=settings.alert_repeat_sec * 1000,
        gap_ms=max(GAP_LEAST_MS, GAP_LOOKS * settings.alert_every_ms),
    )


class AlertDuty:
    """The duty. ``client`` None: there is nobody to tell."""

    name = "alerts"

    def __init__(
        self,
        *,
        sight: Sight,
        store: AlertStore,
        client: Sends | None,
        settings: Settings,
        attempts: Attempts,
        now: Callable[[], int] = wall_ms,
    ) -> None:
        self._sight = sight
        self._store = store
        self._client = client
        self._every_sec = settings.alert_every_ms / 1000
        self._pace = pace_of(settings)
        self._attempts = attempts
        self._now = now
        self._looked = Looked({})
        self.outbox: Outbox | None = None
        """What is to be sent; None: there is nobody to tell."""

    async def run(self, term: Term) -> None:
        """Look and tell until the term is over."""
        await self.begin(term)
        try:
            async with asyncio.TaskGroup() as tasks:
                if self.outbox is not None:
                    tasks.create_task(self.outbox.run())
                while True:
                    began = mono()
                    await self.frame(term)
                    await asyncio.sleep(max(0.0, began + self._every_sec - mono()))
        except ExceptionGroup as group:
            raise group.exceptions[0] from group

    async def begin(self, term: Term) -> None:
        """Go on where the last leader stopped."""
        kept = await self._store.read()
        self._looked = kept.looked
        self._sight.recall(kept.rooms)
        if self._client is None:
            return

        async def save(delivery_id: str, delivery: Delivery | None) -> None:
            await self._put(term, Changes(deliveries={delivery_id: delivery}))

        self.outbox = Outbox(self._client, save=save, noted=self._attempts.note, now=self._now)
        self.outbox.put(kept.deliveries.values())

    async def frame(self, term: Term) -> None:
        """One look, and what follows from it. Raises StorageUnavailable, TermOver; nothing is done then."""
        now = self._now()
        seen = await self._sight.look(now, {alert.trouble.event for alert in self._looked.firing})
        looked, notices = look(
            self._looked, seen.troubles, now, self._pace, tells=self.outbox is not None, is_judged=seen.is_judged
        )
        new = [Delivery.of(notice) for notice in notices]
        older = [] if self.outbox is None else self.outbox.take_older(new)
        await self._put(
            term,
            Changes(
                alerts=changes(self._looked, looked),
                deliveries={**dict.fromkeys(older), **{each.id: each for each in new}},
                rooms=seen.remembered,
                at=now,
            ),
        )
        _tell_log(self._looked, looked)
        self._looked = looked
        if self.outbox is not None:
            self.outbox.put(new)
        await self._attempts.hand_over()

    async def _put(self, term: Term, change: Changes) -> None:
        try:
            await self._store.put(term.check(), change)
        except Overtaken as error:
            raise TermOver from error


def _tell_log(before: Looked, after: Looked) -> None:
    """A line for each alert that began or ended to fire, also where nobody else is told."""
    fired = {a.trouble.key: a for a in before.firing}, {a.trouble.key: a for a in after.firing}
    for key in fired[1].keys() - fired[0].keys():
        what = fired[1][key].trouble
        log.warning("alert_fired", alert=what.event, room=what.room_id, message=what.message)
    for key in fired[0].keys() - fired[1].keys():
        what = fired[0][key].trouble
        log.info("alert_resolved", alert=what.event, room=what.room_id)
