"""Sending notices: each at its times, one attempt of an incident at a time, a newer notice in place of an older one.

Nothing waits for a receiver but the notices behind it. Not here: where notices are kept (infrastructure/alert_store.py,
or the memory of a process while the live store is away). Source: OBS-142 … OBS-145, WHK-058 … WHK-063, WHK-163.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

import structlog

from app.core.clock import wall_ms
from app.domain.alert_delivery import Delivery, Outcome

AT_ONCE: Final = 8
"""Attempts under way at a time."""
LOOK_SEC: Final = 0.5
"""Longest pause between two looks at what is due."""

log = structlog.get_logger(__name__)

Save = Callable[[str, Delivery | None], Awaitable[None]]
"""Keeps a delivery after an attempt, or forgets it (None); what it raises ends ``Outbox.run``."""


class Sends(Protocol):
    """Who makes an attempt (infrastructure/hook_client.HookClient)."""

    async def send(self, delivery: Delivery) -> Outcome:
        """Try once; failures are outcomes."""
        ...


class Outbox:
    """The notices of one sender."""

    def __init__(
        self,
        client: Sends,
        *,
        save: Save,
        noted: Callable[[dict[str, Any]], None],
        now: Callable[[], int] = wall_ms,
    ) -> None:
        """``noted`` is told of every attempt (``Delivery.attempt_json``)."""
        self._client = client
        self._save = save
        self._noted = noted
        self._now = now
        self._waiting: dict[str, Delivery] = {}
        self._under_way: set[str] = set()
        """Incidents."""
        self._news = asyncio.Event()

    def put(self, deliveries: Iterable[Delivery]) -> None:
        """Send these when they are due."""
        self._waiting.update((each.id, each) for each in deliveries)
        self._news.set()

    def take_older(self, deliveries: Iterable[Delivery]) -> list[str]:
        """Drop those that wait and tell of the same incidents; their ids. An attempt under way is finished."""
        incidents = {each.incident for each in deliveries}
        ids = [each.id for each in self._waiting.values() if each.incident in incidents]
        for delivery_id in ids:
            del self._waiting[delivery_id]
        return ids

    async def run(self) -> None:
        """Send until cancelled. Raises what ``save`` raises."""
        try:
            async with asyncio.TaskGroup() as attempts:
                while True:
                    self._news.clear()
                    for delivery in self._due():
                        self._under_way.add(delivery.incident)
                        attempts.create_task(self._attempt(delivery))
                    # Not wait_for: in Python 3.11 news that come together with a cancellation make it forget that.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_SEC):
                            await self._news.wait()
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
        finally:
            self._under_way.clear()

    def _due(self) -> list[Delivery]:
        now, free = self._now(), AT_ONCE - len(self._under_way)
        due: dict[str, Delivery] = {}
        for each in sorted(self._waiting.values(), key=lambda one: one.due):
            if each.due <= now and each.incident not in self._under_way:
                due.setdefault(each.incident, each)
        return list(due.values())[:free]

    async def _attempt(self, delivery: Delivery) -> None:
        outcome = await self._client.send(delivery)
        self._under_way.discard(delivery.incident)
        self._news.set()
        self._noted(delivery.attempt_json(outcome))
        if not outcome.is_ok:
            log.warning(
                "alert_not_delivered", alert=delivery.event, room=delivery.room_id, attempt=delivery.attempts + 1,
                error=outcome.error,
            )  # fmt: skip
        if delivery.id not in self._waiting:
            return
        after = delivery.after(outcome, self._now())
        if after is None:
            del self._waiting[delivery.id]
        else:
            self._waiting[delivery.id] = after
        await self._save(delivery.id, after)
