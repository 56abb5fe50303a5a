"""Operators and monitor links as this process knows them: a copy that is confirmed before it is relied on.

A credential that depends on the copy is let through only when the copy was confirmed within RESYNC_MS, and, once
anybody told of a change, only when it was confirmed after that (FLT-031 … FLT-033, ADM-042). Not here: judging
credentials (access.py), changing them (operators.py, monitor_links.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

import structlog

from app.core.clock import mono, wall_ms
from app.core.errors import StorageUnavailable
from app.domain.operators import LINK_KEPT_MS, MonitorLink, Operator
from app.infrastructure.access_store import AccessStore, Everyone

HINT: Final = "access"
"""Kind of the hint by which processes tell each other of a change."""
READ_SEC: Final = 2.0
"""How long a look at Postgres may take before the caller is told that nothing can be said."""
LOOKUPS_PER_SEC: Final = 20
"""Fresh look-ups of ids that the copy does not have, per instance (ADM-302)."""
_KNOWN_USES_MAX: Final = 4096

log = structlog.get_logger(__name__)


class Changes(Protocol):
    """A counter that the workers of an instance share: how often one of them changed something."""

    def add(self, name: str) -> None:
        """Count one more."""

    def total(self, name: str) -> int:
        """The instance's number."""


class People:
    """The copy. ``operator`` and ``link`` raise StorageUnavailable while it cannot be confirmed."""

    def __init__(
        self,
        store: AccessStore,
        *,
        resync_ms: int,
        changes: Changes,
        send_hint: Callable[[str, str], Awaitable[None]],
        workers: int = 1,
        now: Callable[[], int] = wall_ms,
    ) -> None:
        """``send_hint``: tells every process of the deployment. ``workers``: processes of the instance, which share its
        look-ups. ``now``: wall clock in epoch ms."""
        self._store = store
        self._send_hint = send_hint
        self._now = now
        self._max_age = resync_ms / 1000
        self._changes = changes
        self._everyone = Everyone(0, {}, {})
        self._confirmed_at = float("-inf")
        """When the look began that confirmed the copy last."""
        self._told_at = float("-inf")
        """When somebody told of a change last: only a look that began after it confirms the copy."""
        self._seen_changes = -1
        self._looking = asyncio.Lock()
        self._last_look = float("-inf")
        """When the look began that came to an end last, with or without an answer; one broken off is none."""
        self._last_error: StorageUnavailable | None = None
        self._rate = max(1.0, LOOKUPS_PER_SEC / workers)
        self._tokens = self._rate
        self._tokens_at = mono()
        self._task: asyncio.Task[None] | None = None
        self._uses: dict[str, int] = {}
        self._noting: set[asyncio.Task[None]] = set()

    async def operator(self, ident: str) -> Operator | None:
        """An operator, revoked or not; None = there is none of this id."""
        await self.confirm()
        if ident not in self._everyone.operators and self._may_look_up():
            await self.refresh()
        return self._everyone.operators.get(ident)

    async def link(self, ident: str) -> MonitorLink | None:
        """A monitor link, over or not; None = there is none of this id."""
        await self.confirm()
        if ident not in self._everyone.links and self._may_look_up():
            await self.refresh()
        return self._everyone.links.get(ident)

    def numbers(self) -> tuple[int, int]:
        """Operators that are not revoked and links that are live, as last known."""
        now = self._now()
        operators = sum(one.revoked_at is None for one in self._everyone.operators.values())
        return operators, sum(one.state(now) == "live" for one in self._everyone.links.values())

    async def confirm(self) -> None:
        """Return when the copy may be relied on. Raises StorageUnavailable when nothing can be said."""
        is_fresh = self._confirmed_at >= max(self._told_at, mono() - self._max_age)
        if not is_fresh or self._changes.total("access_changes") != self._seen_changes:
            await self.refresh()

    async def refresh(self) -> None:
        """Confirm the copy by a look that begins now. Callers of one moment share it, its failure too."""
        asked = mono()
        async with self._looking:
            if self._last_look < asked:
                await self._look()
            if self._last_error is not None:
                raise StorageUnavailable from self._last_error

    async def tell_changed(self) -> None:
        """This process changed something, and it is committed: nobody relies on an older copy from now on.

        Workers of the instance see it at their next request, other instances by the hint, which says no more than
        that something changed (FLT-029).
        """
        self._changes.add("access_changes")
        self._told_at = mono()
        await self._try()
        await self._send_hint(HINT, "")

    async def hear(self) -> None:
        """Some process changed something."""
        self._told_at = mono()
        await self._try()

    def note_operator_used(self, ident: str, address: str) -> None:
        """Keep in the background when and where an operator was seen, to the minute (ADM-219)."""
        if at := self._minute_to_note(ident):
            self._note(self._store.note_operator_used(ident, at, address))

    def note_link_used(self, ident: str) -> None:
        """Keep in the background when a link was used, to the minute."""
        if at := self._minute_to_note(ident):
            self._note(self._store.note_link_used(ident, at))

    async def start(self) -> None:
        """Look once, and begin to keep the copy fresh. With Postgres away it starts all the same."""
        await self._try()
        self._task = asyncio.get_running_loop().create_task(self._keep_fresh(), name="people")

    async def stop(self) -> None:
        """End looking; what is being noted is finished."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._noting:
            await asyncio.wait(self._noting, timeout=READ_SEC)

    async def _keep_fresh(self) -> None:
        """Twice as often as the copy must be confirmed, so that requests hardly ever have to wait for it."""
        while True:
            await asyncio.sleep(self._max_age / 2)
            await self._try()

    async def _try(self) -> None:
        try:
            await self.refresh()
        except StorageUnavailable:
            log.debug("people_not_confirmed")
        except Exception:
            log.exception("people_resync_failed")

    async def _look(self) -> None:
        begun = mono()
        changes = self._changes.total("access_changes")
        try:
            async with asyncio.timeout(READ_SEC):
                if await self._store.version() != self._everyone.version:
                    self._everyone = await self._store.everyone(self._now() - LINK_KEPT_MS)
        except StorageUnavailable as error:
            self._last_error = error
        except TimeoutError:
            self._last_error = StorageUnavailable()
        else:
            self._last_error, self._confirmed_at, self._seen_changes = None, begun, changes
        self._last_look = begun

    def _may_look_up(self) -> bool:
        now = mono()
        self._tokens = min(self._rate, self._tokens + (now - self._tokens_at) * self._rate)
        self._tokens_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _minute_to_note(self, ident: str) -> int:
        """Epoch ms of this minute when it was not noted yet; else 0."""
        minute = self._now() // 60_000 * 60_000
        if self._uses.get(ident) == minute:
            return 0
        if len(self._uses) >= _KNOWN_USES_MAX:
            self._uses.clear()
        self._uses[ident] = minute
        return minute

    def _note(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(_quietly(work))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    """A use that cannot be kept is not worth a refusal."""
    try:
        await work
    except StorageUnavailable:
        log.debug("use_not_noted")
