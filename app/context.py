"""Everything one web worker works with: adapters and services, opened once at its start, closed in reverse.

The only place where the parts are put together. Handlers find it as ``request.app.ctx.qm``.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from app.core.clock import wall_ms
from app.core.runtime import Runtime, web_worker_index
from app.core.settings import Settings
from app.domain.keyring import Keyring
from app.infrastructure.audit_store import AuditStore
from app.infrastructure.chart_store import ChartStore
from app.infrastructure.counter_board import CounterBoard
from app.infrastructure.engine_counts import EngineCounts
from app.infrastructure.heavy_link import HeavyLink
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.notes_store import NotesStore
from app.infrastructure.origin_failures import OriginFailures
from app.infrastructure.page_files import PageFiles
from app.infrastructure.pages_seen import PagesSeen
from app.infrastructure.postgres import Postgres
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.refused_tokens import RefusedTokens
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.valkey import Valkey
from app.infrastructure.valkey_cluster import connect_valkey
from app.infrastructure.wishes import WishStore
from app.services.access import Access
from app.services.access_services import AccessServices
from app.services.admin_health import AdminHealth
from app.services.alerts import Alerts
from app.services.asset_share import AssetShare
from app.services.assets import Assets
from app.services.audit_trail import AuditTrail
from app.services.commit import CommitWaiter
from app.services.docs import Docs
from app.services.edge_watch import ConnectionCap, EdgeWatch
from app.services.fleet_counts import FleetCounts
from app.services.heavy_asking import HeavyAsking
from app.services.history import History
from app.services.inline import Inline
from app.services.install_check import InstallCheck
from app.services.instance_life import InstanceLife
from app.services.line import LineService
from app.services.live import LiveFeed
from app.services.loop_meter import LoopMeter, web_process
from app.services.memory_guard import MemoryGuard
from app.services.metrics import MetricsPage
from app.services.monitor_links import MonitorLinks
from app.services.notes import Notes
from app.services.operators import Operators
from app.services.people import People
from app.services.plain import PlainService
from app.services.plain_page import PlainPage
from app.services.refused_tokens import ManyRefused
from app.services.reports import Reports
from app.services.room_services import RoomServices
from app.services.rooms import RoomService
from app.services.sessions import Sessions
from app.services.step_up import StepUps
from app.services.stop_guard import StopGuard
from app.services.tally import Tally
from app.services.tickets import TicketLookup
from app.services.visitor_counts import VisitorCounts
from app.services.visitor_services import VisitorServices
from app.services.waiting_page import WaitingPage
from app.services.watch_services import WatchServices


@dataclass(frozen=True, slots=True, eq=False)
class AppContext:
    """Adapters and services of one web worker."""

    runtime: Runtime
    settings: Settings
    book: MetricBook
    limiter: RateLimiter
    valkey: Valkey
    postgres: Postgres
    rooms: RoomDirectory
    commits: CommitWaiter
    visitor: VisitorServices
    fleet_counts: FleetCounts
    room_service: RoomService
    line_service: LineService
    tickets: TicketLookup
    notes: Notes
    history: History
    heavy: HeavyAsking
    install_check: InstallCheck
    sessions: Sessions
    step_ups: StepUps
    access: Access
    audit_trail: AuditTrail
    people: People
    operators: Operators
    monitor_links: MonitorLinks
    admin_health: AdminHealth
    alerts: Alerts
    reports: Reports
    metrics: MetricsPage
    edge_watch: EdgeWatch
    connections: ConnectionCap
    live: LiveFeed
    assets: Assets
    asset_share: AssetShare
    memory_guard: MemoryGuard
    life: InstanceLife
    stop_guard: StopGuard
    waiting_page: WaitingPage
    plain: PlainService
    docs: Docs
    inline: Inline
    _closing: AsyncExitStack = field(repr=False)

    @classmethod
    async def open(cls, runtime: Runtime) -> AppContext:
        """Connect, load what a worker keeps in memory, and start what listens in the background.

        Stores that are away do not stop it: the worker starts degraded and answers 503 where it needs them.
        """
        settings = runtime.settings
        closing = AsyncExitStack()
        limiter = RateLimiter.attach(runtime.rate_table_name, web_worker_index())
        closing.callback(limiter.close)
        book = MetricBook.attach(runtime.metrics_name, web_worker_index())
        valkey = await connect_valkey(
            runtime.valkey_url, timeout_ms=settings.valkey_timeout_ms, is_cluster=settings.valkey_cluster
        )
        closing.push_async_callback(valkey.close)
        postgres = Postgres(
            runtime.database_url, max_size=runtime.pg_share, statement_timeout_ms=settings.pg_statement_timeout_ms
        )
        closing.push_async_callback(postgres.close)
        self = cls._wire(_Base(runtime, book, limiter, valkey, postgres, _keyring(settings)), closing)
        for part in (self.commits, self.rooms, self.people):
            await part.start()
            closing.push_async_callback(part.stop)
        tally = Tally(
            counts=self.visitor.counts,
            engine=EngineCounts(settings.valkey_prefix, LuaLoader(valkey)),
            fleet=self.fleet_counts,
            pages=PagesSeen(valkey, settings.valkey_prefix),
            inline=(self.inline.counts, OriginFailures(valkey, settings.valkey_prefix)),
        )
        await tally.start()
        closing.push_async_callback(tally.stop)
        await self.memory_guard.start()
        closing.push_async_callback(self.memory_guard.stop)
        await self.asset_share.start()
        closing.push_async_callback(self.asset_share.stop)
        closing.push_async_callback(self.live.stop)
        closing.push_async_callback(self.visitor.streams.stop)
        meter = LoopMeter(book, web_process(web_worker_index()))
        meter.start()
        closing.callback(meter.stop)
        return self

    async def close(self) -> None:
        """Stop and close everything, last opened first."""
        await self._closing.aclose()

    @classmethod
    def _wire(cls, base: _Base, closing: AsyncExitStack) -> AppContext:
        runtime, settings, book, limiter = base.runtime, base.runtime.settings, base.book, base.limiter
        valkey, postgres, prefix = base.valkey, base.postgres, base.prefix
        rooms = RoomServices.build(runtime=runtime, book=book, valkey=valkey, postgres=postgres)
        doors = _doors(base, rooms, closing)
        visitor, fleet = _visitors(base, rooms, doors, closing)
        inline = _inline(base, rooms, visitor, closing)
        watch = WatchServices.build(
            runtime=runtime, book=book, limiter=limiter, valkey=valkey, postgres=postgres, keyring=base.keyring,
            directory=rooms.directory, rooms=rooms.service, commits=rooms.commits, undeclared=visitor.undeclared,
            fleet=fleet, inline=inline, doors=doors,
        )  # fmt: skip
        assets = Assets()
        return cls(
            runtime=runtime, settings=settings, book=book, limiter=limiter, valkey=valkey, postgres=postgres,
            rooms=rooms.directory, commits=rooms.commits, visitor=visitor, fleet_counts=fleet,
            room_service=rooms.service, line_service=rooms.line, tickets=rooms.tickets,
            notes=Notes(NotesStore(postgres), rooms.directory),
            history=History(rooms=rooms.directory, store=ChartStore(valkey, prefix)),
            heavy=HeavyAsking(HeavyLink(runtime.heavy_path), book),
            install_check=InstallCheck(rooms=rooms.service, pages=PagesSeen(valkey, prefix)),
            sessions=doors.sessions, step_ups=doors.step_ups, access=doors.access, audit_trail=doors.audit_trail,
            people=doors.people, operators=doors.operators, monitor_links=doors.monitor_links,
            admin_health=watch.health, metrics=watch.metrics, alerts=watch.alerts, reports=watch.reports,
            edge_watch=watch.edge_watch, connections=watch.connections,
            live=_live(rooms.service, watch.health, doors, limiter, book),
            assets=assets,
            asset_share=AssetShare(assets, PageFiles(valkey, prefix), workers=settings.workers or 1),
            memory_guard=rooms.memory_guard,
            life=InstanceLife(AuditStore(postgres), runtime, now=wall_ms),
            stop_guard=watch.stop_guard,
            waiting_page=WaitingPage(assets=assets, offers_mail=settings.offers_mail),
            plain=PlainService(page=PlainPage(assets), join=visitor.join, status=visitor.status),
            docs=Docs(assets),
            inline=inline,
            _closing=closing,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Base:
    """What every service is made of."""

    runtime: Runtime
    book: MetricBook
    limiter: RateLimiter
    valkey: Valkey
    postgres: Postgres
    keyring: Keyring

    @property
    def prefix(self) -> str:
        return self.runtime.settings.valkey_prefix


def _doors(base: _Base, rooms: RoomServices, closing: AsyncExitStack) -> AccessServices:
    """Who may do what."""
    doors = AccessServices.build(
        runtime=base.runtime, keyring=base.keyring, limiter=base.limiter, valkey=base.valkey, postgres=base.postgres,
        send_hint=rooms.directory.send_hint,
    )  # fmt: skip
    closing.push_async_callback(doors.audit_trail.stop)
    return doors


def _visitors(
    base: _Base, rooms: RoomServices, doors: AccessServices, closing: AsyncExitStack
) -> tuple[VisitorServices, FleetCounts]:
    """What visitors are answered by, and what is counted of it over the fleet."""
    many_refused = ManyRefused(RefusedTokens(base.valkey, base.prefix))
    closing.push_async_callback(many_refused.stop)
    counts = VisitorCounts(many_refused, base.book, base.limiter.lists["bad_tokens"])
    board = CounterBoard(base.valkey, base.prefix, base.runtime.run_name, web_worker_index())
    visitor = VisitorServices.build(
        settings=base.runtime.settings, keyring=base.keyring, engine=rooms.engine, engine_admin=rooms.engine_admin,
        commits=rooms.commits, rooms=rooms.directory, limiter=base.limiter, counts=counts, lockout=doors.lockout,
        wishes=WishStore(base.valkey, base.prefix),
    )  # fmt: skip
    return visitor, FleetCounts(counts, board)


def _inline(base: _Base, rooms: RoomServices, visitor: VisitorServices, closing: AsyncExitStack) -> Inline:
    """The gate in front of sites whose traffic comes through here."""
    inline = Inline.build(
        settings=base.runtime.settings, guard=rooms.addresses, directory=rooms.directory, visitor=visitor,
        limiter=base.limiter, book=base.book, valkey=base.valkey, lookup=rooms.lookup,
    )  # fmt: skip
    closing.push_async_callback(inline.close)
    return inline


def _keyring(settings: Settings) -> Keyring:
    previous = settings.secret_previous.reveal() if settings.secret_previous else None
    return Keyring(settings.secret.reveal(), previous, sign_v2=settings.token_sign_v2)


def _live(
    rooms: RoomService, health: AdminHealth, doors: AccessServices, limiter: RateLimiter, book: MetricBook
) -> LiveFeed:
    return LiveFeed(
        rooms=rooms, health=health, sessions=doors.sessions, people=doors.people, limiter=limiter, book=book
    )
