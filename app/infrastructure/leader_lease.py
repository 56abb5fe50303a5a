"""The leader's lease: at most one instance of a deployment holds it, and every term has a higher number than the last.

The lease itself is economy and order; what keeps an old leader from doing harm is its number (epoch), which every write
of a leader carries (FLT-026). Not here: what a leader does (services/leadership.py).
"""

from __future__ import annotations

from typing import Final

import structlog

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.infrastructure.keys import leader_epoch, leader_lease
from app.infrastructure.lua_loader import Commands, LuaLoader
from app.infrastructure.postgres import Postgres
from app.infrastructure.queries import QUERIES

MARGIN: Final = 0.1
"""Part of a lease that its holder does not count on: two clocks never run quite alike."""

log = structlog.get_logger(__name__)


async def leader_name(valkey: Commands, prefix: str) -> str | None:
    """Name of the instance that leads; None when nobody does. Raises StorageUnavailable."""
    holder = await valkey.execute("GET", leader_lease(prefix))
    return None if holder is None else holder.decode().partition(" ")[0]


class LeaderLease:
    """One process's hold of the lease. ``holder``: a name that no other run of an instance has; its first word
    is the instance's."""

    def __init__(self, *, loader: LuaLoader, postgres: Postgres, prefix: str, holder: str, lease_ms: int) -> None:
        self._loader = loader
        self._postgres = postgres
        self._lease_key, self._epoch_key = leader_lease(prefix), leader_epoch(prefix)
        self._holder = holder
        self._lease_ms = lease_ms
        self._is_recorded = False
        self.until = 0.0
        """Moment of this process's monotonic clock at which the hold ends."""
        self.epoch = 0
        """Number of the present or last term."""

    @property
    def is_held(self) -> bool:
        """True while this process may act as the leader. A process that was frozen finds it false (FLT-024)."""
        return mono() < self.until

    async def take(self) -> bool:
        """Begin a term if nobody else leads. Raises StorageUnavailable when Valkey cannot be reached."""
        asked = mono()
        if not await self._hold():
            return False
        seen = await self._seen()
        reply = await self._loader.call("leader_epoch", self._epoch_key, seen or 0)
        self.epoch, self._is_recorded = int(reply[1]), False
        if seen is not None and not await self._record():
            await self.give()
            return False
        self.until = asked + self._lease_ms / 1000 * (1 - MARGIN)
        return self.is_held

    async def renew(self) -> bool:
        """Go on with the term; False: it is over. Raises StorageUnavailable, and then the hold ends by itself."""
        asked = mono()
        if not self.is_held or not await self._hold():
            self.until = 0.0
            return False
        if not self._is_recorded and not await self._record():
            await self.give()
            return False
        self.until = asked + self._lease_ms / 1000 * (1 - MARGIN)
        return True

    async def give(self) -> None:
        """End the term and let another instance begin one at once."""
        self.until = 0.0
        await self._loader.call("lease_give", self._lease_key, self._holder)

    async def _hold(self) -> bool:
        reply = await self._loader.call("lease_take", self._lease_key, self._holder, self._lease_ms)
        return bool(reply[1] == 1)

    async def _seen(self) -> int | None:
        """Highest number that Postgres has seen; None while it cannot be asked."""
        try:
            return int(await self._postgres.fetchval(QUERIES["leader_epoch_seen"]) or 0)
        except StorageUnavailable:
            return None

    async def _record(self) -> bool:
        """Note the term in Postgres (FLT-149); False when it has seen this number before, so that it is no good.

        While Postgres is away the number of Valkey stands alone, and what needs Postgres cannot be done anyway.
        """
        try:
            self._is_recorded = await self._postgres.fetchval(QUERIES["leader_epoch_record"], self.epoch) is not None
        except StorageUnavailable:
            return True
        if not self._is_recorded:
            log.warning("leader_epoch_used_before", epoch=self.epoch)
        return self._is_recorded
