"""Part of process ``jobs``: watches its instance, for every process of it and for the fleet.

Belongs here: the loops and their wiring. Not here: what is looked at (services/instance_watch.py, storage_watch.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from app.core import metrics
from app.core.errors import StorageUnavailable
from app.core.settings import Settings
from app.domain.contention import WINDOW_SEC
from app.domain.keyring import Keyring
from app.infrastructure.alert_store import AlertLog, AlertStore
from app.infrastructure.cpu_files import CpuFiles, ticks_a_second
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.fleet_records import FleetRecords
from app.infrastructure.hook_client import HookClient
from app.infrastructure.journal import Journal
from app.infrastructure.journal_size import EVERY_SEC, JournalSizes
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.process_memory import resident_bytes
from app.infrastructure.rate_limiter import InstanceNumbers
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.site_store import SiteStore
from app.services.alert_local import LocalAlerts
from app.services.alert_log import Attempts
from app.services.capacity_watch import CapacityWatch
from app.services.cpu_watch import CpuWatch
from app.services.heavy_state import running_kinds
from app.services.instance_watch import LOOK_SEC, RECORD_SEC, InstanceWatch
from app.services.sites import Sites
from app.services.standing import Standing
from app.services.storage_watch import StorageWatch
from workers.runner import Background

MEMORY_SEC = 10.0

log = structlog.get_logger(__name__)


async def watch_instance(background: Background, rooms: RoomDirectory) -> None:
    """Watch until the process is stopped; then tell the fleet that this instance has gone in order."""
    settings = background.settings
    records = FleetRecords(background.valkey, settings.valkey_prefix, background.runtime.run_name)
    cpu = _cpu(background)
    capacity = CapacityWatch(runtime=background.runtime, book=background.book, cpu=cpu)
    watch, storage = _watch(background, records, rooms, capacity), _storage(background, records)

    alerts = _own_alerts(background, rooms)
    sizes = JournalSizes(background.postgres, background.valkey, settings.valkey_prefix)

    async def weigh_journal() -> None:
        if background.runtime.is_leader:
            await sizes.weigh()

    async def weigh() -> None:
        background.book.put(metrics.MEMORY, await asyncio.to_thread(resident_bytes, background.runtime.main_pid))

    try:
        await asyncio.gather(
            alerts.run(background.stop),
            _every(background, LOOK_SEC, watch.look),
            _every(background, RECORD_SEC, watch.tell),
            _every(background, settings.alert_every_ms / 1000, storage.frame),
            _every(background, MEMORY_SEC, weigh),
            _every(background, WINDOW_SEC, cpu.look),
            _every(background, EVERY_SEC, weigh_journal),
        )
    finally:
        capacity.tell_stop()
        with contextlib.suppress(StorageUnavailable):
            await records.leave()


async def _every(background: Background, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
    stopping = False
    while not stopping:
        try:
            await act()
        except StorageUnavailable:
            log.debug("instance_not_looked_at", act=act.__qualname__)
        except Exception:
            log.exception("instance_watch_failed", act=act.__qualname__)
        stopping = await background.pause(seconds)


def _cpu(background: Background) -> CpuWatch:
    files = CpuFiles(background.runtime.main_pid)
    return CpuWatch(
        runtime=background.runtime,
        book=background.book,
        read=files.read,
        ticks_a_sec=ticks_a_second(),
        heavy=partial(running_kinds, background.book),
    )


def _watch(
    background: Background, records: FleetRecords, rooms: RoomDirectory, capacity: CapacityWatch
) -> InstanceWatch:
    runtime, settings, valkey = background.runtime, background.settings, background.valkey
    loader, prefix = LuaLoader(valkey), settings.valkey_prefix
    numbers = InstanceNumbers(runtime.rate_table_name)
    most = settings.max_connections
    standing = Standing(
        runtime=runtime,
        book=background.book,
        is_full=lambda: 0 < most <= numbers.gauge_total("connections"),
        own_valkey=lambda: (valkey.shown_state == "down", valkey.ever_connected),
    )
    return InstanceWatch(
        runtime=runtime,
        book=background.book,
        valkey=valkey,
        records=records,
        rooms=rooms,
        engine=EngineAdmin(valkey, prefix, loader),
        sites=Sites(
            SiteStore(valkey, prefix, loader), every_ms=settings.mesh_knock_ms, timeout_ms=settings.mesh_timeout_ms
        ),
        numbers=numbers,
        stand=standing.now,
        kids=_kids(settings),
        capacity=capacity,
    )


def _storage(background: Background, records: FleetRecords) -> StorageWatch:
    return StorageWatch(
        book=background.book,
        probe=Journal(background.postgres).probe,
        records=records,
        instance=background.runtime.instance_id,
        every_ms=background.settings.alert_every_ms,
        is_private=background.runtime.is_private,
    )


def _own_alerts(background: Background, rooms: RoomDirectory) -> LocalAlerts:
    runtime, settings, valkey = background.runtime, background.settings, background.valkey
    prefix, url = settings.valkey_prefix, None if settings.drill else settings.alert_webhook_url
    return LocalAlerts(
        instance=runtime.instance_id,
        settings=settings,
        ping=lambda: valkey.execute("PING"),
        rooms=rooms.all,
        store=AlertStore(valkey, prefix, LuaLoader(valkey)),
        book=background.book,
        attempts=Attempts(AlertLog(valkey, prefix, runtime.run_name), background.book),
        client=None if url is None else HookClient(url),
    )


def _kids(settings: Settings) -> tuple[str, ...]:
    previous = settings.secret_previous.reveal() if settings.secret_previous else None
    return Keyring(settings.secret.reveal(), previous, sign_v2=settings.token_sign_v2).kids
