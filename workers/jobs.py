"""Process ``jobs``: one per instance, compares rooms with their journal and rebuilds those that Valkey lost.

Beside that it draws the order of pre-queues, makes checkpoints, keeps the function libraries of past releases from
piling up, and takes part in leading (leader.py).
"""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from app.core.clock import wall_ms
from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.notes import rebuilt_note
from app.infrastructure.chart_store import ChartStore
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.fleet_records import FleetRecords
from app.infrastructure.journal import Journal
from app.infrastructure.keys import ack_channel, control_channel, rooms_key
from app.infrastructure.lua_bundle import engine_bundle
from app.infrastructure.lua_libraries import NOTE_SEC, LuaLibraries
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.notes_store import NotesStore
from app.infrastructure.rebuild import Rebuilder, Rebuilt
from app.infrastructure.valkey import Valkey
from app.services.checkpoints import Checkpoints
from app.services.draws import Draws
from app.services.heavy_pauses import HeavyPauses
from app.services.recovery import Recovery
from app.services.room_details import RoomDetails
from app.services.sampler import Sampler
from workers.directory import directory_of
from workers.instance import watch_instance
from workers.leader import lead
from workers.pauses import pauses_of
from workers.runner import Background

log = structlog.get_logger(__name__)


async def run(background: Background) -> None:
    """Watch over the rooms until the process is stopped."""
    valkey, settings = background.valkey, background.settings
    prefix = settings.valkey_prefix
    recovery = make_recovery(background, valkey, prefix)
    draws = Draws(EngineJobs(prefix, LuaLoader(valkey)), background.book)
    pauses = pauses_of(background)

    def hear(message: bytes) -> None:
        verb, _, room = message.decode().partition(" ")
        if verb == "rebuild" and room:
            recovery.ask(RoomId(room))
        elif verb == "draw" and room:
            draws.ask(RoomId(room))

    valkey.on_reconnect(recovery.ask_all)
    async with valkey.listen({control_channel(prefix): hear}, on_resync=recovery.ask_all):
        watch = asyncio.ensure_future(recovery.run(background.stop))
        checkpoints = Checkpoints(
            background.postgres, events=settings.checkpoint_events, rest=pauses.let_pass, book=background.book
        )
        stop = background.stop
        beside = asyncio.gather(
            watch_libraries(background),
            checkpoints.run(stop),
            draws.run(stop),
            make_sampler(background).run(stop),
            with_rooms(background, pauses),
        )
        await asyncio.wait(
            [watch, asyncio.ensure_future(recovery.compared.wait())], return_when=asyncio.FIRST_COMPLETED
        )
        background.ready()
        await asyncio.gather(watch, beside)


async def with_rooms(background: Background, pauses: HeavyPauses) -> None:
    """Lead and watch the instance, both by the same copies of the rooms, until the process is stopped."""
    rooms = directory_of(background)
    await rooms.start()
    try:
        await asyncio.gather(lead(background, rooms, pauses.let_pass), watch_instance(background, rooms))
    finally:
        await rooms.stop()


async def watch_libraries(background: Background) -> None:
    """Note the use of this build's library, and remove those nobody uses, until the process is stopped."""
    libraries = LuaLibraries(background.valkey, background.settings.valkey_prefix, engine_bundle().name)
    stopping = False
    while not stopping:
        try:
            await libraries.note_use()
            await libraries.drop_unused()
        except StorageUnavailable:
            log.debug("libraries_not_looked_at")
        except Exception:
            log.exception("libraries_not_looked_at")
        stopping = await background.pause(NOTE_SEC)


def make_sampler(background: Background) -> Sampler:
    """What measures for the charts."""
    valkey, prefix = background.valkey, background.settings.valkey_prefix

    async def rooms() -> list[RoomId]:
        return [RoomId(name.decode()) for name in await valkey.execute("SMEMBERS", rooms_key(prefix))]

    details = RoomDetails(EngineAdmin(valkey, prefix, LuaLoader(valkey)))
    return Sampler(details=details, store=ChartStore(valkey, prefix), rooms=rooms)


def make_recovery(background: Background, valkey: Valkey, prefix: str) -> Recovery:
    """The recovery of this process, wired to its stores."""
    jobs = EngineJobs(prefix, LuaLoader(valkey))

    async def now_ms() -> int:
        seconds, micros = await valkey.execute("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def known() -> list[RoomId]:
        return [RoomId(name.decode()) for name in await valkey.execute("SMEMBERS", rooms_key(prefix))]

    async def announce(room: RoomId) -> None:
        await valkey.execute("SADD", rooms_key(prefix), room)
        await valkey.execute("PUBLISH", control_channel(prefix), f"room {room}")

    async def note_rebuilt(room: RoomId, rebuilt: Rebuilt) -> None:
        mark = rebuilt_note(wall_ms(), facts=rebuilt.head.seq, tickets=rebuilt.tickets, seconds=rebuilt.seconds)
        with contextlib.suppress(StorageUnavailable):  # a mark for people: the room answers without it
            await NotesStore(background.postgres).add_mark(room, mark)
        with contextlib.suppress(StorageUnavailable):
            await FleetRecords(valkey, prefix, background.runtime.run_name).note_rebuilt(room)

    return Recovery(
        journal=Journal(background.postgres),
        live=jobs,
        rebuilder=Rebuilder(postgres=background.postgres, live=jobs, now_ms=now_ms),
        known=known,
        publish=lambda text: valkey.execute("PUBLISH", ack_channel(prefix), text),
        announce=announce,
        resync_sec=background.settings.resync_ms / 1000,
        noted=note_rebuilt,
        book=background.book,
    )
