"""Process ``drainer``: one per instance, moves the facts of all rooms from Valkey into Postgres."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from app.core.clock import wall_ms
from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.infrastructure.audit_store import AuditStore
from app.infrastructure.drain import Drainer
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.journal import Journal
from app.infrastructure.keys import ack_channel, control_channel, poke_channel, rooms_key
from app.infrastructure.leases import DrainLeases
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.valkey import Valkey
from app.services.instance_life import InstanceLife
from app.services.recovery import RebuildRequests
from workers.runner import Background


async def run(background: Background) -> bool:
    """Drain until the process is stopped; True when all that was there is stored then."""
    valkey, prefix = background.valkey, background.settings.valkey_prefix
    journal = Journal(background.postgres)
    shared = not background.runtime.is_private
    drainer = Drainer(
        outboxes=EngineJobs(prefix, LuaLoader(valkey)),
        journal=journal,
        publish=lambda text: valkey.execute("PUBLISH", ack_channel(prefix), text),
        ask_rebuild=RebuildRequests(lambda text: valkey.execute("PUBLISH", control_channel(prefix), text)).ask,
        rooms=RoomList(valkey, prefix, journal).read,
        lease=DrainLeases(valkey, prefix, background.runtime.instance_id).hold if shared else None,
        book=background.book,
        name=background.runtime.run_name,
    )

    async def resync() -> None:
        drainer.sweep_soon()

    pokes = valkey.listen({poke_channel(prefix): lambda room: drainer.poke(room.decode())}, on_resync=resync)
    life = InstanceLife(AuditStore(background.postgres), background.runtime, now=wall_ms)
    telling = asyncio.ensure_future(life.tell_start())
    async with pokes:
        background.ready()
        # Who has never reached Valkey has acknowledged nothing.
        is_clean = await drainer.run(background.stop) or not valkey.ever_connected
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)
    await life.tell_stop(is_clean=is_clean)
    return is_clean


class RoomList:
    """Ids of all rooms that may have facts: those of Valkey, and those of Postgres as last read."""

    def __init__(self, valkey: Valkey, prefix: str, journal: Journal) -> None:
        self._valkey = valkey
        self._key = rooms_key(prefix)
        self._journal = journal
        self._journaled: list[RoomId] = []

    async def read(self) -> Iterable[RoomId]:
        """The ids; a Postgres that is away does not keep the rooms of Valkey from being named."""
        live = await self._valkey.execute("SMEMBERS", self._key)
        with contextlib.suppress(StorageUnavailable):
            self._journaled = await self._journal.room_ids()
        return {*(RoomId(name.decode()) for name in live), *self._journaled}
