"""Everything one web worker works with: adapters and services, opened once at its start, closed in reverse.

The only place where the parts are put together. Handlers find it as ``request.app.ctx.qm``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from app.core.clock import wall_ms
from app.core.runtime import Runtime, web_worker_index
from app.core.settings import Settings
from app.domain.actor import SYSTEM, Actor
from app.domain.keyring import Keyring
from app.infrastructure.access_store import AccessStore
from app.infrastructure.admin_store import AdminStore
from app.infrastructure.alert_store import AlertLog, AlertStore
from app.infrastructure.audit_store import AuditStore
from app.infrastructure.chart_store import ChartStore
from app.infrastructure.counter_board import CounterBoard
from app.infrastructure.engine import Engine
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_counts import EngineCounts
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_lookup import EngineLookup
from app.infrastructure.fleet_records import FleetRecords
from app.infrastructure.hook_client import HookClient
from app.infrastructure.hour_store import HourStore, LiveHours
from app.infrastructure.journal_size import JournalSizes
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.memory_limits import container_limit
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.notes_store import NotesStore
from app.infrastructure.origin_failures import OriginFailures
from app.infrastructure.page_files import PageFiles
from app.infrastructure.pages_seen import PagesSeen
from app.infrastructure.postgres import Postgres
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.refused_tokens import RefusedTokens
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.seal_store import SealStore
from app.infrastructure.site_store import SiteStore
from app.infrastructure.valkey import Valkey
from app.infrastructure.valkey_cluster import connect_valkey
from app.infrastructure.wishes import WishStore
from app.services.access import Access
from app.services.admin_health import AdminHealth
from app.services.alert_log import Attempts
from app.services.alerts import Alerts
from app.services.asset_share import AssetShare
from app.services.assets import Assets
from app.services.audit_trail import AuditTrail
from app.services.commit import CommitWaiter
from app.services.edge_watch import ConnectionCap, EdgeWatch
from app.services.fleet_counts import FleetCounts
from app.services.history import History
from app.services.hour_keeper import HourKeeper
from app.services.inline import Inline, guard_of
from app.services.inline_saves import InlineSaves
from app.services.install_check import InstallCheck
from app.services.instance_life import InstanceLife
from app.services.instances import Instances
from app.services.line import LineService
from app.services.live import LiveFeed
from app.services.lockout import Lockout
from app.services.memory_guard import MemoryGuard
from app.services.metrics import MetricsPage
from app.services.monitor_links import MonitorLinks
from app.services.named_keys import NamedKeys
from app.services.notes import Notes, audit_line
from app.services.operators import Operators
from app.services.people import People
from app.services.refused_tokens import ManyRefused
from app.services.reports import Reports
from app.services.rooms import RoomService
from app.services.sessions import Sessions
from app.services.sites import Sites
from app.services.standing import Standing
from app.services.tally import Tally
from app.services.tickets import TicketLookup
from app.services.visitor_counts import VisitorCounts
from app.services.visitor_services import VisitorServices
from app.services.waiting_page import WaitingPage


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
    install_check: InstallCheck
    sessions: Sessions
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
    waiting_page: WaitingPage
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
        self = cls._wire(runtime, book, limiter, valkey, postgres, closing)
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
        return self

    async def close(self) -> None:
        """Stop and close everything, last opened first."""
        await self._closing.aclose()

    @classmethod
    def _wire(
        cls,
        runtime: Runtime,
        book: MetricBook,
        limiter: RateLimiter,
        valkey: Valkey,
        postgres: Postgres,
        closing: AsyncExitStack,
    ) -> AppContext:
        settings = runtime.settings
        prefix, admin_key = settings.valkey_prefix, settings.admin_key
        previous = settings.secret_previous.reveal() if settings.secret_previous else None
        keyring = Keyring(settings.secret.reveal(), previous, sign_v2=settings.token_sign_v2)
        loader = LuaLoader(valkey)
        guard = MemoryGuard(valkey, container_limit=container_limit() if runtime.is_private else None)
        engine = Engine(valkey, prefix, loader, line_max=settings.line_max, is_short=lambda: guard.is_short)
        engine_admin = EngineAdmin(valkey, prefix, loader)
        rooms = RoomDirectory(
            postgres=postgres, live=engine_admin, valkey=valkey, prefix=prefix, resync_ms=settings.resync_ms
        )
        commits = CommitWaiter(valkey=valkey, prefix=prefix, jobs=EngineJobs(prefix, loader), name=runtime.run_name)
        sites = Sites(
            SiteStore(valkey, prefix, loader), every_ms=settings.mesh_knock_ms, timeout_ms=settings.mesh_timeout_ms
        )
        keeper = HourKeeper(rooms=rooms, live=LiveHours(prefix, loader), store=HourStore(postgres))
        addresses = guard_of(runtime, settings)
        room_service = RoomService(
            engine=engine_admin, rooms=rooms, commits=commits, sites=sites, keep_hours=keeper.keep_last,
            inline=InlineSaves(settings=settings, guard=addresses, rooms=rooms.all),
            failures=OriginFailures(valkey, prefix),
        )  # fmt: skip
        store = AdminStore(valkey, prefix)
        audit_trail = AuditTrail(postgres)
        closing.push_async_callback(audit_trail.stop)
        lockout = Lockout(
            store, limiter, limit=settings.admin_auth_fail_per_min, on_lock=_lock_noted(audit_trail, runtime)
        )
        records = AccessStore(postgres)
        people = People(
            records,
            resync_ms=settings.resync_ms,
            changes=limiter.counters,
            send_hint=rooms.send_hint,
            workers=settings.workers or 1,
        )
        named = NamedKeys(keyring=keyring, people=people, records=records, store=store, limiter=limiter, now=wall_ms)
        sessions = Sessions(keyring=keyring, admin_key=admin_key, store=store, people=people, now=wall_ms)
        many_refused = ManyRefused(RefusedTokens(valkey, prefix))
        closing.push_async_callback(many_refused.stop)
        counts = VisitorCounts(many_refused, book, limiter.lists["bad_tokens"])
        fleet = FleetCounts(counts, CounterBoard(valkey, prefix, runtime.run_name, web_worker_index()))
        visitor = VisitorServices.build(
            settings=settings,
            keyring=keyring,
            engine=engine,
            engine_admin=engine_admin,
            commits=commits,
            rooms=rooms,
            limiter=limiter,
            counts=counts,
            lockout=lockout,
            wishes=WishStore(valkey, prefix),
        )
        inline = Inline.build(
            settings=settings, guard=addresses, directory=rooms, visitor=visitor, limiter=limiter, book=book,
            valkey=valkey, lookup=EngineLookup(prefix, loader),
        )  # fmt: skip
        closing.push_async_callback(inline.close)
        edge_watch = EdgeWatch(limiter, settings, visitor.undeclared)
        connections = ConnectionCap(limiter, settings)
        health = AdminHealth(
            runtime=runtime,
            book=book,
            standing=Standing(
                runtime=runtime,
                book=book,
                is_full=lambda: connections.is_full,
                own_valkey=lambda: (valkey.shown_state == "down", valkey.ever_connected),
                refusing=commits.refusing,
            ),
            postgres=postgres,
            rooms=room_service,
            limiter=limiter,
            keyring=keyring,
            undeclared=visitor.undeclared,
            edge_watch=edge_watch,
            connections=connections,
            fleet=fleet,
            instances=Instances(FleetRecords(valkey, prefix, runtime.run_name), JournalSizes(postgres, valkey, prefix)),
            with_access=people.numbers,
            seals=SealStore(postgres, audit_line),
            inline=inline,
        )
        assets = Assets()
        tickets = TicketLookup(rooms=rooms, engine=EngineLookup(prefix, loader))
        return cls(
            runtime=runtime,
            settings=settings,
            book=book,
            limiter=limiter,
            valkey=valkey,
            postgres=postgres,
            rooms=rooms,
            commits=commits,
            visitor=visitor,
            fleet_counts=fleet,
            room_service=room_service,
            notes=Notes(NotesStore(postgres), rooms),
            install_check=InstallCheck(rooms=room_service, pages=PagesSeen(valkey, prefix)),
            history=History(rooms=rooms, store=ChartStore(valkey, prefix)),
            line_service=LineService(
                service=room_service,
                engine=engine_admin,
                rooms=rooms,
                commits=commits,
                tickets=tickets,
                book=book,
            ),
            tickets=tickets,
            sessions=sessions,
            access=Access(
                admin_key=admin_key,
                public_key=settings.public_api_key,
                named=named,
                sessions=sessions,
                lockout=lockout,
            ),
            audit_trail=audit_trail,
            people=people,
            operators=Operators(store=records, people=people, verifiers=named.verifiers, now=wall_ms),
            monitor_links=MonitorLinks(
                store=records, people=people, tokens=named.tokens, ttl_sec=settings.monitor_token_ttl_sec, now=wall_ms
            ),
            admin_health=health,
            metrics=MetricsPage(
                runtime=runtime,
                book=book,
                limiter=limiter,
                connections=connections,
                views=room_service.views,
                room_count=lambda: len(rooms.all()),
            ),
            reports=Reports(rooms=rooms, live=LiveHours(prefix, loader), store=HourStore(postgres)),
            alerts=Alerts(
                runtime=runtime,
                valkey=valkey,
                store=AlertStore(valkey, prefix, loader),
                attempts=Attempts(AlertLog(valkey, prefix, runtime.run_name), book),
                book=book,
                trail=audit_trail,
                client=_hook(settings),
                limiter=limiter,
            ),
            edge_watch=edge_watch,
            connections=connections,
            live=LiveFeed(
                rooms=room_service,
                health=health,
                sessions=sessions,
                people=people,
                limiter=limiter,
                book=book,
            ),
            assets=assets,
            memory_guard=guard,
            life=InstanceLife(AuditStore(postgres), runtime, now=wall_ms),
            asset_share=AssetShare(assets, PageFiles(valkey, prefix), workers=settings.workers or 1),
            waiting_page=WaitingPage(assets=assets, offers_mail=settings.offers_mail),
            inline=inline,
            _closing=closing,
        )


def _lock_noted(trail: AuditTrail, runtime: Runtime) -> Callable[[str, int], None]:
    """What writes the start of a lock into the audit trail (ADM-057)."""
    server = Actor(SYSTEM, kind=SYSTEM, instance=runtime.instance_id)

    def note(address: str, failures: int) -> None:
        trail.note_soon(server, "auth.lockout", f"{address}: {failures} failed sign-ins in a minute")

    return note


def _hook(settings: Settings) -> HookClient | None:
    """The way to whoever is told of alerts; in a drill nobody is (CFG-026)."""
    url = None if settings.drill else settings.alert_webhook_url
    return None if url is None else HookClient(url)
