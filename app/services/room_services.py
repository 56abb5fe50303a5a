"""Rooms as operators and visitors use them: engine, copies, commits, acts of a web worker, wired once at its start."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.runtime import Runtime
from app.infrastructure.address_guard import AddressGuard
from app.infrastructure.engine import Engine
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_lookup import EngineLookup
from app.infrastructure.heavy_link import HeavyLink
from app.infrastructure.hour_store import HourStore, LiveHours
from app.infrastructure.inline_turn import InlineTurn
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.memory_limits import container_limit
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.origin_failures import OriginFailures
from app.infrastructure.postgres import Postgres
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.site_store import SiteStore
from app.infrastructure.valkey import Valkey
from app.services.commit import CommitWaiter
from app.services.hour_keeper import HourKeeper
from app.services.inline import guard_of
from app.services.inline_saves import InlineSaves
from app.services.line import LineService
from app.services.memory_guard import MemoryGuard
from app.services.ref_search import RefsElsewhere, RefsHere
from app.services.rooms import RoomService
from app.services.sites import Sites
from app.services.tickets import TicketLookup


@dataclass(frozen=True, slots=True, eq=False)
class RoomServices:
    """The engine's two hands, and what is done to rooms with them."""

    engine: Engine
    engine_admin: EngineAdmin
    lookup: EngineLookup
    directory: RoomDirectory
    commits: CommitWaiter
    service: RoomService
    line: LineService
    tickets: TicketLookup
    memory_guard: MemoryGuard
    addresses: AddressGuard
    """Where inline rooms may lead."""

    @classmethod
    def build(cls, *, runtime: Runtime, book: MetricBook, valkey: Valkey, postgres: Postgres) -> RoomServices:
        """Wire it; opens nothing."""
        settings, prefix = runtime.settings, runtime.settings.valkey_prefix
        loader = LuaLoader(valkey)
        guard = MemoryGuard(valkey, container_limit=container_limit() if runtime.is_private else None)
        engine = Engine(valkey, prefix, loader, line_max=settings.line_max, is_short=lambda: guard.is_short)
        engine_admin, lookup = EngineAdmin(valkey, prefix, loader), EngineLookup(prefix, loader)
        directory = RoomDirectory(
            postgres=postgres, live=engine_admin, valkey=valkey, prefix=prefix, resync_ms=settings.resync_ms
        )
        commits = CommitWaiter(valkey=valkey, prefix=prefix, jobs=EngineJobs(prefix, loader), name=runtime.run_name)
        sites = SiteStore(valkey, prefix, loader)
        keeper = HourKeeper(rooms=directory, live=LiveHours(prefix, loader), store=HourStore(postgres))
        addresses = guard_of(runtime, settings)
        service = RoomService(
            engine=engine_admin,
            rooms=directory,
            commits=commits,
            sites=Sites(sites, every_ms=settings.mesh_knock_ms, timeout_ms=settings.mesh_timeout_ms),
            keep_hours=keeper.keep_last,
            inline=InlineSaves(settings=settings, guard=addresses, rooms=directory.all),
            turn=InlineTurn(loader, prefix),
            failures=OriginFailures(valkey, prefix),
        )
        refs = RefsElsewhere(HeavyLink(runtime.heavy_path), RefsHere(lookup))
        tickets = TicketLookup(rooms=directory, engine=lookup, refs=refs)
        return cls(
            engine=engine,
            engine_admin=engine_admin,
            lookup=lookup,
            directory=directory,
            commits=commits,
            service=service,
            line=LineService(
                service=service, engine=engine_admin, rooms=directory, commits=commits, tickets=tickets, book=book
            ),
            tickets=tickets,
            memory_guard=guard,
            addresses=addresses,
        )
