"""The copies of the rooms that a background process keeps."""

from __future__ import annotations

from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.room_directory import RoomDirectory
from workers.runner import Background


def directory_of(background: Background) -> RoomDirectory:
    """This process's copies; to be started and stopped by the caller."""
    valkey, settings = background.valkey, background.settings
    return RoomDirectory(
        postgres=background.postgres,
        live=EngineAdmin(valkey, settings.valkey_prefix, LuaLoader(valkey)),
        valkey=valkey,
        prefix=settings.valkey_prefix,
        resync_ms=settings.resync_ms,
    )
