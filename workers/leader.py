"""The leader's duties of process ``jobs``: done once per deployment, by whichever instance holds the lease."""

from __future__ import annotations

from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_auto import EngineAuto
from app.infrastructure.leader_lease import LeaderLease
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.room_directory import RoomDirectory
from app.services.activation import Activation
from app.services.leadership import Leadership
from workers.runner import Background


async def lead(background: Background) -> None:
    """Take part in leading until the process is stopped; in a drill not at all (CFG-026)."""
    if background.settings.drill:
        await background.stop.wait()
        return
    rooms = _directory(background)
    await rooms.start()
    try:
        await _leadership(background, rooms).run(background.stop)
    finally:
        await rooms.stop()


def _leadership(background: Background, rooms: RoomDirectory) -> Leadership:
    settings, runtime = background.settings, background.runtime
    prefix, loader = settings.valkey_prefix, LuaLoader(background.valkey)
    lease = LeaderLease(
        loader=loader,
        postgres=background.postgres,
        prefix=prefix,
        # One name for each run of an instance: its process that was started again goes on with the lease at once.
        holder=f"{runtime.instance_id} {runtime.rate_table_name}",
        lease_ms=settings.leader_lease_ms,
    )
    duties = [Activation(rooms=rooms, engine=EngineAuto(prefix, loader))]
    return Leadership(lease, duties, lease_ms=settings.leader_lease_ms, show=runtime.leads_until.set)


def _directory(background: Background) -> RoomDirectory:
    """This process's copies of the rooms."""
    valkey, settings = background.valkey, background.settings
    return RoomDirectory(
        postgres=background.postgres,
        live=EngineAdmin(valkey, settings.valkey_prefix, LuaLoader(valkey)),
        valkey=valkey,
        prefix=settings.valkey_prefix,
        resync_ms=settings.resync_ms,
    )
