"""How the instance and its rooms stand: health, metrics, alerts, reports of a web worker, wired once at its start."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.runtime import Runtime
from app.core.settings import Settings
from app.domain.keyring import Keyring
from app.infrastructure.alert_store import AlertLog, AlertStore
from app.infrastructure.fleet_records import FleetRecords
from app.infrastructure.hook_client import HookClient
from app.infrastructure.hour_store import HourStore, LiveHours
from app.infrastructure.journal_size import JournalSizes
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.postgres import Postgres
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.seal_store import SealStore
from app.infrastructure.valkey import Valkey
from app.services.access_services import AccessServices
from app.services.admin_health import AdminHealth
from app.services.alert_log import Attempts
from app.services.alerts import Alerts
from app.services.commit import CommitWaiter
from app.services.edge_watch import ConnectionCap, EdgeWatch
from app.services.fleet_counts import FleetCounts
from app.services.inline import Inline
from app.services.instances import Instances
from app.services.metrics import MetricsPage
from app.services.notes import audit_line
from app.services.reports import Reports
from app.services.rooms import RoomService
from app.services.standing import Standing
from app.services.stop_guard import StopGuard
from app.services.undeclared import UndeclaredPeers


@dataclass(frozen=True, slots=True, eq=False)
class WatchServices:
    """What operators, monitoring and on-call people look at."""

    health: AdminHealth
    metrics: MetricsPage
    alerts: Alerts
    reports: Reports
    stop_guard: StopGuard
    edge_watch: EdgeWatch
    connections: ConnectionCap

    @classmethod
    def build(
        cls,
        *,
        runtime: Runtime,
        book: MetricBook,
        limiter: RateLimiter,
        valkey: Valkey,
        postgres: Postgres,
        keyring: Keyring,
        directory: RoomDirectory,
        rooms: RoomService,
        commits: CommitWaiter,
        undeclared: UndeclaredPeers,
        fleet: FleetCounts,
        inline: Inline,
        doors: AccessServices,
    ) -> WatchServices:
        """Wire it; opens nothing."""
        settings, prefix = runtime.settings, runtime.settings.valkey_prefix
        loader = LuaLoader(valkey)
        edge_watch = EdgeWatch(limiter, settings, undeclared)
        connections = ConnectionCap(limiter, settings)
        standing = Standing(
            runtime=runtime,
            book=book,
            is_full=lambda: connections.is_full,
            own_valkey=lambda: (valkey.shown_state == "down", valkey.ever_connected),
            refusing=commits.refusing,
        )
        instances = Instances(FleetRecords(valkey, prefix, runtime.run_name), JournalSizes(postgres, valkey, prefix))
        return cls(
            health=AdminHealth(
                runtime=runtime, book=book, standing=standing, postgres=postgres, rooms=rooms, limiter=limiter,
                keyring=keyring, undeclared=undeclared, edge_watch=edge_watch, connections=connections, fleet=fleet,
                instances=instances, with_access=doors.people.numbers,
                locked_addresses=doors.lockout.locked_addresses, seals=SealStore(postgres, audit_line), inline=inline,
            ),
            metrics=MetricsPage(
                runtime=runtime, book=book, limiter=limiter, connections=connections, views=rooms.views,
                room_count=lambda: len(directory.all()),
            ),
            alerts=Alerts(
                runtime=runtime, valkey=valkey, store=AlertStore(valkey, prefix, loader),
                attempts=Attempts(AlertLog(valkey, prefix, runtime.run_name), book), book=book,
                trail=doors.audit_trail, client=hook_of(settings), limiter=limiter,
            ),
            reports=Reports(rooms=directory, live=LiveHours(prefix, loader), store=HourStore(postgres)),
            stop_guard=StopGuard(runtime, instances),
            edge_watch=edge_watch,
            connections=connections,
        )  # fmt: skip


def hook_of(settings: Settings) -> HookClient | None:
    """The way to whoever is told of alerts; in a drill nobody is (CFG-026)."""
    url = None if settings.drill else settings.alert_webhook_url
    return None if url is None else HookClient(url)
