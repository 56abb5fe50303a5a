"""A leader that watches over one room, with a clock of the test's own and a receiver on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.core.clock import wall_ms
from app.core.settings import Settings
from app.domain.alerts import Alert
from app.domain.capacity import Declared
from app.infrastructure.alert_store import AlertLog, AlertStore
from app.infrastructure.fleet_records import FleetRecords
from app.infrastructure.hook_client import HookClient
from app.infrastructure.leader_lease import LeaderLease
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.migrate import migrate
from app.infrastructure.postgres import Postgres
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.site_store import SiteStore
from app.infrastructure.valkey import Valkey
from app.services.alert_duty import AlertDuty
from app.services.alert_fleet import FleetSight
from app.services.alert_log import Attempts
from app.services.alert_sight import AlertSight, RoomSight
from app.services.leadership import Term
from app.services.sites import Sites
from tests.alerts.receiver import Receiver, receiving
from tests.engine.world import ROOM, World

SETTINGS: dict[str, Any] = {
    "alert_every_ms": 10_000, "alert_hold_sec": 120, "alert_repeat_sec": 1800, "alert_surge_min": 60,
    "alert_surge_factor": 5,
}  # fmt: skip


class Watch:
    """The leader's watch: ``frame`` looks once, ``hold`` looks every ten seconds while time passes."""

    def __init__(self, valkey: Valkey, postgres: Postgres, prefix: str, receiver: Receiver) -> None:
        self.valkey, self.postgres, self.prefix, self.receiver = valkey, postgres, prefix, receiver
        self.loader = LuaLoader(valkey)
        self.world = World(valkey, prefix)
        self.rooms = RoomDirectory(
            postgres=postgres, live=self.world.admin, valkey=valkey, prefix=prefix, resync_ms=60_000
        )
        self.store = AlertStore(valkey, prefix, self.loader)
        self.sites = SiteStore(valkey, prefix, self.loader)
        self.log = AlertLog(valkey, prefix, "i:one.1")
        self.book = MetricBook.alone()
        self.attempts = Attempts(self.log, self.book)
        self.records = FleetRecords(valkey, prefix, "i:one.1")
        self.now = int(wall_ms())
        self._sending: list[asyncio.Task[None]] = []

    async def begin(self, *, told: bool = True, holder: str = "i:one", limit_sec: float = 2, **settings: Any) -> None:
        """Lead from now on; ``told``: there is a receiver, and an attempt at it takes ``limit_sec`` at most."""
        await self.end()
        lease = LeaderLease(
            loader=self.loader, postgres=self.postgres, prefix=self.prefix, holder=holder, lease_ms=60_000
        )
        assert await lease.take()
        self.lease, self.term = lease, Term(lease)
        chosen = Settings(**{**SETTINGS, "valkey_prefix": self.prefix, **settings})
        room_sight = RoomSight(
            rooms=self.rooms, engine=self.world.admin, valkey=self.valkey,
            sites=Sites(self.sites, every_ms=600_000, timeout_ms=5000), settings=chosen,
        )  # fmt: skip
        declared = Declared.of(chosen, frozenset(name.upper() for name in settings))
        sight = AlertSight(room_sight, FleetSight(self.records, self.book, chosen.alert_every_ms, declared))
        client = HookClient(self.receiver.url, limit_sec=limit_sec) if told else None
        self.duty = AlertDuty(
            sight=sight, store=self.store, client=client, settings=chosen, attempts=self.attempts,
            now=lambda: self.now,
        )  # fmt: skip
        await self.duty.begin(self.term)
        if self.duty.outbox is not None:
            self._sending.append(asyncio.ensure_future(self.duty.outbox.run()))

    async def end(self) -> None:
        """Lead no more, as after a crash: nothing is said of it."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        self._sending.clear()

    async def give_up(self) -> None:
        """Let somebody else lead."""
        await self.end()
        await self.lease.give()

    async def frame(self, *, after_sec: float = 0) -> None:
        """One look, ``after_sec`` later."""
        self.now += round(after_sec * 1000)
        await self.duty.frame(self.term)

    async def hold(self, sec: int, *, ticks: bool = False) -> None:
        """Look every ten seconds for so long. ``ticks``: the room's own time passes too, with its ticks."""
        for _ in range(sec // 10):
            if ticks:
                await self.world.tick(10)
            await self.frame(after_sec=10)

    async def create(self, **fields: Any) -> None:
        """Make the room."""
        await self.world.create(**{"queue_max_per_ip": None, "presence_sec": 3600, **fields})
        await self.rooms.reload(ROOM)

    async def change(self, **changes: Any) -> None:
        """Change the room, as an operator does."""
        await self.world.update(**changes)
        await self.rooms.reload(ROOM)

    async def firing(self) -> list[str]:
        """Events that fire now, as every instance reads them."""
        return [alert.trouble.event for alert in (await self.store.read()).looked.firing]

    async def pending(self) -> list[str]:
        """Events that may fire soon."""
        return [alert.trouble.event for alert in (await self.store.read()).looked.pending]

    async def alert(self, event: str) -> Alert:
        """The alert of an event."""
        found = [a for a in (await self.store.read()).looked.alerts.values() if a.trouble.event == event]
        assert len(found) == 1, found
        return found[0]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Who is told."""
    async with receiving() as made:
        yield made


@pytest.fixture
async def watch(valkey_url: str, fresh_schema: str, fresh_prefix: str, receiver: Receiver) -> AsyncIterator[Watch]:
    """A leader with a receiver, and no room yet."""
    valkey, postgres = await Valkey.connect(valkey_url, timeout_ms=2000), Postgres(fresh_schema, max_size=3)
    await migrate(postgres)
    made = Watch(valkey, postgres, fresh_prefix, receiver)
    await made.rooms.start()
    await made.begin()
    yield made
    await made.end()
    await made.rooms.stop()
    await postgres.close()
    await valkey.close()
