"""Being the leader: duties run while the lease is held, and stop before it ends.

A duty is a loop for ever. It asks ``Term.check`` before each act, and gives the term's epoch to whatever it writes. Not
here: the lease (infrastructure/leader_lease.py), the duties themselves. Source: FLT-012, FLT-022 … FLT-026.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import structlog

from app.core.clock import mono
from app.core.errors import StorageUnavailable

ASK_SEC: Final = 1.0
"""How often an instance that does not lead asks for the lease; also the longest pause between renewals."""
AGAIN_SEC: Final = 5.0
"""Pause of a duty that failed."""

log = structlog.get_logger(__name__)


class TermOver(Exception):
    """This process is not the leader any more; nothing may be written in the name of its term."""


class Hold(Protocol):
    """What is needed of LeaderLease."""

    epoch: int
    until: float

    @property
    def is_held(self) -> bool:
        """True while this process may act as the leader."""
        ...

    async def take(self) -> bool:
        """Begin a term if nobody else leads."""
        ...

    async def renew(self) -> bool:
        """Go on with the term; False: it is over."""
        ...

    async def give(self) -> None:
        """End the term."""
        ...


class Term:
    """One term of this process as the leader."""

    def __init__(self, lease: Hold) -> None:
        self._lease = lease
        self.epoch = lease.epoch

    def check(self) -> int:
        """The epoch, for the act that follows at once. Raises TermOver."""
        if not self._lease.is_held or self._lease.epoch != self.epoch:
            raise TermOver
        return self.epoch


LastAct = Callable[[Term], Awaitable[None]]
"""Something a leader does last. Raises TermOver."""


class Duty(Protocol):
    """One of the leader's jobs."""

    @property
    def name(self) -> str:
        """For the log."""
        ...

    async def run(self, term: Term) -> None:
        """Work until cancelled, or until TermOver, which ends the whole term. Other errors: it is begun again later."""
        ...


class Leadership:
    """Takes the lease when it can be had, and runs the duties while it holds.

    ``show`` is told until when it holds (seconds of ``clock.mono``), 0 at the end. ``last_acts`` are done at an orderly
    stop, before the lease is given back, within the seconds that ``left`` tells.
    """

    def __init__(
        self,
        lease: Hold,
        duties: Sequence[Duty],
        *,
        lease_ms: int,
        show: Callable[[float], None],
        last_acts: Sequence[LastAct] = (),
        left: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._lease = lease
        self._duties = duties
        self._last_acts = last_acts
        self._left = left
        self._renew_sec = min(ASK_SEC, lease_ms / 1000 / 4)
        self._show = show
        self._running: list[asyncio.Task[None]] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Until ``stop`` is set; then the lease is given back at once (FLT-023)."""
        try:
            while not stop.is_set():
                await self._step()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), self._pause())
        finally:
            await self._end()
            if self._lease.is_held:
                if stop.is_set():
                    await self._do_last_acts()
                self._show(0.0)
                with contextlib.suppress(StorageUnavailable):
                    await self._lease.give()

    async def _do_last_acts(self) -> None:
        """What cannot be done in time is left to the next leader: no stop waits for it (CFG-192, CFG-196)."""
        term = Term(self._lease)
        try:
            async with asyncio.timeout(max(0.0, self._left())):
                for act in self._last_acts:
                    await act(term)
        except (StorageUnavailable, TimeoutError, TermOver) as error:
            log.warning("last_acts_not_done", why=type(error).__name__)
        except Exception:
            log.exception("last_acts_failed")

    def _pause(self) -> float:
        """Until the next renewal or question, and never beyond the end of the hold."""
        if not self._running:
            return ASK_SEC
        return max(0.0, min(self._renew_sec, self._lease.until - mono()))

    async def _step(self) -> None:
        try:
            async with asyncio.timeout(max(0.0, self._lease.until - mono()) if self._running else None):
                held = await (self._lease.renew() if self._running else self._lease.take())
        except (StorageUnavailable, TimeoutError):
            held = self._lease.is_held
        except Exception:
            log.exception("leader_lease_failed")
            held = self._lease.is_held
        if held and any(task.done() for task in self._running):
            # A later term has written: this one's number is too low, so the next one has to be higher.
            held = False
            with contextlib.suppress(StorageUnavailable):
                await self._lease.give()
        if held and not self._running:
            log.info("leader_begun", epoch=self._lease.epoch)
            term = Term(self._lease)
            self._running = [asyncio.create_task(_serve(duty, term), name=f"duty-{duty.name}") for duty in self._duties]
        elif not held and self._running:
            log.warning("leader_ended", epoch=self._lease.epoch)
            await self._end()
        self._show(self._lease.until if held else 0.0)

    async def _end(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)  # each has logged its own failures
        self._running = []


async def _serve(duty: Duty, term: Term) -> None:
    """Run a duty for one term; one that fails is begun again, so that it never ends the others."""
    while True:
        try:
            await duty.run(term)
        except TermOver:
            return
        except StorageUnavailable:
            log.debug("duty_waits_for_the_stores", duty=duty.name)
            await asyncio.sleep(ASK_SEC)
        except Exception:
            log.exception("duty_failed", duty=duty.name)
            await asyncio.sleep(AGAIN_SEC)
