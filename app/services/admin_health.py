"""What ``GET /api/admin/health`` and the console's frames tell about this server: states, incidents, values in use.

Only what this build really knows: a block whose feature is missing is absent, a number that is not known is absent or
null. Not here: how the instance stands (standing.py), single blocks (health_of_stores.py, health_of_settings.py), what
is said of them (health_warnings.py), the public ``/healthz``. Source: OBS-031 … OBS-041.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from app.core.clock import wall_ms
from app.core.errors import StorageUnavailable
from app.core.runtime import Runtime
from app.core.version import VERSION
from app.domain.incidents import Incident
from app.domain.keyring import Keyring
from app.infrastructure.fleet_records import Fleet
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.postgres import Postgres
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.seal_store import SealStore
from app.services.edge_watch import ConnectionCap, EdgeWatch
from app.services.fleet_counts import FleetCounts, Sums
from app.services.hardening import running_advice
from app.services.health_of_capacity import HealthOfCapacity
from app.services.health_of_settings import HealthOfSettings
from app.services.health_of_stores import HealthOfStores, audit_block, audit_warnings
from app.services.health_warnings import HealthWarnings
from app.services.heavy_state import heavy_block
from app.services.inline import Inline
from app.services.instances import Instances
from app.services.room_object import RoomView
from app.services.rooms import RoomService
from app.services.standing import Stand, Standing
from app.services.undeclared import UndeclaredPeers

FLEET_SEC: Final = 4.0


class AdminHealth:
    """Answers of one web worker about its instance."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        book: MetricBook,
        standing: Standing,
        postgres: Postgres,
        rooms: RoomService,
        limiter: RateLimiter,
        keyring: Keyring,
        undeclared: UndeclaredPeers,
        edge_watch: EdgeWatch,
        connections: ConnectionCap,
        fleet: FleetCounts,
        instances: Instances,
        with_access: Callable[[], tuple[int, int]] = lambda: (0, 0),
        locked_addresses: Callable[[], Awaitable[int | None]] | None = None,
        seals: SealStore | None = None,
        now: Callable[[], int] = wall_ms,
        inline: Inline | None = None,
    ) -> None:
        """``with_access``: numbers of operators and of monitor links that are good now. ``locked_addresses``: how many
        are locked after wrong keys, None = not known. ``seals``: of the audit trail. None: nothing is told of them."""
        self._runtime = runtime
        self._book = book
        self._standing = standing
        self._rooms = rooms
        self._undeclared = undeclared
        self._edge_watch = edge_watch
        self._connections = connections
        self._fleet = fleet
        self._instances = instances
        self._with_access = with_access
        self._locked_addresses = locked_addresses
        self._now = now
        self._inline = inline
        self._stores = HealthOfStores(runtime=runtime, book=book, postgres=postgres, seals=seals, now=now)
        self._settings = HealthOfSettings(
            runtime=runtime, book=book, limiter=limiter, keyring=keyring, undeclared=undeclared
        )
        self._capacity = HealthOfCapacity(runtime=runtime, book=book)
        self._said = HealthWarnings(
            runtime=runtime, book=book, keyring=keyring, undeclared=undeclared, instances=instances, inline=inline
        )

    def stand(self) -> Stand:
        """How the instance stands now; asks no store."""
        return self._standing.now()

    async def look_around(self) -> None:
        """Read the other instances and the seals of the trail anew if that was not done lately; for frames."""
        await self._instances.refresh(FLEET_SEC)
        await self._stores.refresh_seals()

    def incidents(self) -> Sequence[Incident]:
        """What is wrong now, most serious first (OBS-045)."""
        return self.stand().incidents

    def server_block(self) -> dict[str, Any]:
        """``server`` of a stream frame. ``instances`` is absent while they were never counted.

        ``autotune``, ``protectionMode``: what holds for rooms that set nothing of their own (ADM-093).
        """
        runtime, fleet = self._runtime, self._instances.last
        settings = runtime.settings
        count = 1 if runtime.is_private else None if fleet is None else len(fleet.live)
        return {
            "instance": runtime.instance_id,
            **({} if count is None else {"instances": count}),
            "partial": self._instances.is_partial,
            "version": VERSION,
            "startedAt": runtime.started_at,
            "uptimeSec": self._uptime_sec(),
            "status": self.stand().status,
            "insecureConfig": len(self._warnings()),
            "autotune": settings.autotune,
            "protectionMode": settings.protection_mode,
            "publicUrl": settings.public_url,
        }

    def backend_block(self, views: Sequence[RoomView]) -> dict[str, Any]:
        """``backend`` of a stream frame."""
        recovering = sum(view.is_recovering for view in views)
        return {"ok": self.stand().valkey == "up" and not recovering, "recovering": recovering}

    async def report(self) -> dict[str, Any]:
        """The full answer; it is given whatever is down (OBS-032)."""
        views, postgres, counted, fleet, seals, locked = await asyncio.gather(
            self._views(),
            self._stores.try_postgres(),
            self._sums(),
            self._instances.read(),
            self._stores.seal_state(),
            self._locked(),
        )
        sums, is_stale = counted
        stand, size = self.stand(), await self._instances.journal_size()
        inline = None if self._inline is None else self._inline.block(sums.inline)
        return {
            **self._identity(),
            **_standing_block(stand),
            "fleet": self._fleet_block(fleet),
            "rooms": None if views is None else _rooms_block(views),
            "sse": self._settings.sse_block(),
            "connections": self._connections.connections_block(),
            "limits": self._settings.limits_block(),
            "waitingPage": self._settings.waiting_page_block(),
            "storage": self._stores.storage_block(stand, postgres, views, size),
            "backend": self._stores.backend_block(stand, postgres),
            "proxy": self._undeclared.proxy_block(),
            "edge": self._edge_watch.edge_block(),
            **_marked(sums.health_blocks(), stale=is_stale),
            **({} if inline is None else {"inline": _marked_one(inline, stale=is_stale)}),
            "protection": _marked_one(self._settings.protection_block(sums), stale=is_stale),
            "access": {**self._access_block(), "lockedAddresses": locked},
            "alerting": self._settings.alerting_block(),
            "audit": audit_block(seals),
            "mesh": self._capacity.mesh_block(views),
            "cpu": self._capacity.cpu_block(),
            "capacity": self._capacity.capacity_block(fleet),
            "heavy": heavy_block(self._book),
            "memory": self._stores.memory_block(),
            "clock": self._stores.clock_block(),
            "keys": self._settings.keys_block(),
            "config": self._settings.config_block(),
            "incidents": [incident.to_json() for incident in stand.incidents],
            "warnings": self._warnings(),
            "configWarnings": [_warning(warning) for warning in self._said.config()],
            "hardening": [
                *self._runtime.hardening,
                *running_advice(self._runtime, views, None if self._instances.is_partial else fleet),
            ],
        }

    def _identity(self) -> dict[str, Any]:
        runtime, now = self._runtime, self._now()
        settings = runtime.settings
        return {
            "version": VERSION,
            "build": VERSION,
            "instance": runtime.instance_id,
            "role": "all",
            "pid": runtime.main_pid,
            "workers": settings.workers,
            "now": now,
            "nowIso": datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "startedAt": runtime.started_at,
            "uptimeSec": self._uptime_sec(),
            "store": settings.store,
            "sidestore": settings.sidestore,
            "drill": settings.drill,
            "leader": runtime.is_leader,
            "leaderEpoch": self._instances.leader_epoch,
        }

    async def _locked(self) -> int | None:
        return None if self._locked_addresses is None else await self._locked_addresses()

    async def _views(self) -> list[RoomView] | None:
        try:
            return await self._rooms.views()
        except StorageUnavailable:
            return None

    def _warnings(self) -> list[str]:
        """Sentences that raise the badge of the console (CFG-116)."""
        return [
            *self._said.sentences(),
            *self._capacity.sentences(self._instances.last),
            *audit_warnings(self._stores.last_seals),
        ]

    def _uptime_sec(self) -> int:
        return max(0, self._now() - self._runtime.started_at) // 1000

    async def _sums(self) -> tuple[Sums, bool]:
        """Counts of the living instances, and whether those of others could not be read (OBS-039, FLT-043)."""
        try:
            return await self._fleet.sums(), False
        except StorageUnavailable:
            return self._fleet.known(), True

    def _fleet_block(self, fleet: Fleet | None) -> dict[str, Any]:
        """``fleet``: the instances that are there (FLT-043, FLT-044); before they were ever read, this one alone."""
        members = [] if fleet is None else [record.to_json() for record in fleet.live]
        is_partial = self._instances.is_partial
        block = {"instances": len(members) or 1, "partial": is_partial, "members": members}
        return {**block, "stale": True} if is_partial else block

    def _access_block(self) -> dict[str, Any]:
        """Who may come in; there is no SSO (ADM-048)."""
        operators, links = self._with_access()
        return {"sso": False, "operators": operators, "monitorLinks": links}


def _standing_block(stand: Stand) -> dict[str, Any]:
    return {
        "ready": stand.ready,
        "status": stand.status,
        "reasons": [{"code": code, "text": text} for code, text in stand.reasons],
        "degraded": list(stand.degraded),
    }


def _marked(blocks: dict[str, Any], *, stale: bool) -> dict[str, Any]:
    """Blocks that say so when the live store could not be read for them (OBS-032)."""
    return {name: _marked_one(block, stale=stale) for name, block in blocks.items()}


def _marked_one(block: dict[str, Any], *, stale: bool) -> dict[str, Any]:
    return {**block, "stale": True} if stale else block


def _rooms_block(views: Sequence[RoomView]) -> dict[str, Any]:
    figures = [view.figures for view in views if view.figures is not None]
    return {
        "count": len(views),
        "inline": sum(view.room.config.is_inline for view in views),
        "waiting": sum(room.waiting for room in figures),
        "preQueue": sum(room.pre_queue for room in figures),
        "active": sum(room.active for room in figures),
        "occupancy": sum(room.occupancy for room in figures),
        "passesOutstanding": sum(room.passes_outstanding for room in figures),
        "stale": any(view.stale_since is not None for view in views),
    }


def _warning(warning: Any) -> dict[str, Any]:
    return {
        "code": warning.code,
        "variable": warning.variable,
        "set": warning.set,
        "using": warning.using,
        "message": warning.message,
    }
