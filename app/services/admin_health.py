"""What ``GET /api/admin/health`` and the console's frames tell about this server: states, incidents, values in use.

Only what this build really knows: a block whose feature is missing is absent, a number that is not known is absent or
null. Not here: how the instance stands (standing.py), the public ``/healthz``. Source: OBS-031 … OBS-041.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from app.core import metrics
from app.core.clock import wall_ms
from app.core.errors import StorageUnavailable
from app.core.runtime import Runtime
from app.core.settings import ConfigWarning
from app.core.version import VERSION
from app.domain.alerts import Severity
from app.domain.incidents import Incident
from app.domain.keyring import Keyring
from app.domain.room_hardening import room_advice
from app.infrastructure.fleet_records import Fleet
from app.infrastructure.journal_size import JournalSize
from app.infrastructure.memory_limits import container_limit
from app.infrastructure.metric_book import MetricBook, signed
from app.infrastructure.postgres import Postgres
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.seal_store import SealState, SealStore
from app.services.edge_watch import ConnectionCap, EdgeWatch
from app.services.fleet_counts import OUTCOMES, FleetCounts, Sums
from app.services.inline import Inline
from app.services.instances import Instances
from app.services.metrics import refused_by_budget
from app.services.recovery_notes import read_notes
from app.services.room_object import RoomView
from app.services.rooms import RoomService
from app.services.standing import Stand, Standing
from app.services.undeclared import UndeclaredPeers

FLEET_SEC: Final = 4.0
CLOCK_OFF_SEC: Final = 5.0
POSTGRES_TRIAL_SEC: Final = 1.0


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
        seals: SealStore | None = None,
        now: Callable[[], int] = wall_ms,
        inline: Inline | None = None,
    ) -> None:
        """``with_access``: numbers of operators and of monitor links that are good now. ``seals``: of the audit trail;
        None: nothing is told of them."""
        self._runtime = runtime
        self._book = book
        self._standing = standing
        self._postgres = postgres
        self._rooms = rooms
        self._limiter = limiter
        self._keyring = keyring
        self._undeclared = undeclared
        self._edge_watch = edge_watch
        self._connections = connections
        self._fleet = fleet
        self._instances = instances
        self._with_access = with_access
        self._seals = seals
        self._now = now
        self._inline = inline

    def stand(self) -> Stand:
        """How the instance stands now; asks no store."""
        return self._standing.now()

    async def look_around(self) -> None:
        """Read the other instances anew if that was not done lately; for frames."""
        await self._instances.refresh(FLEET_SEC)

    def incidents(self) -> Sequence[Incident]:
        """What is wrong now, most serious first (OBS-045)."""
        return self.stand().incidents

    def server_block(self) -> dict[str, Any]:
        """``server`` of a stream frame. ``instances`` is absent while they were never counted."""
        runtime, fleet = self._runtime, self._instances.last
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
        }

    def backend_block(self, views: Sequence[RoomView]) -> dict[str, Any]:
        """``backend`` of a stream frame."""
        recovering = sum(view.is_recovering for view in views)
        return {"ok": self.stand().valkey == "up" and not recovering, "recovering": recovering}

    async def report(self) -> dict[str, Any]:
        """The full answer; it is given whatever is down (OBS-032)."""
        views, postgres, counted, fleet, seals = await asyncio.gather(
            self._views(), self._try_postgres(), self._sums(), self._instances.read(), self._seal_state()
        )
        sums, is_stale = counted
        stand, size = self.stand(), await self._instances.journal_size()
        inline = None if self._inline is None else self._inline.block(sums.inline)
        return {
            **self._identity(),
            **_standing_block(stand),
            "fleet": self._fleet_block(fleet),
            "rooms": None if views is None else _rooms_block(views),
            "sse": self._sse_block(),
            "connections": self._connections.connections_block(),
            "limits": self._limits_block(),
            "waitingPage": self._waiting_page_block(),
            "storage": self._storage_block(stand, postgres, views, size),
            "backend": self._backend_block(stand, postgres),
            "proxy": self._undeclared.proxy_block(),
            "edge": self._edge_watch.edge_block(),
            **_marked(sums.health_blocks(), stale=is_stale),
            **({} if inline is None else {"inline": _marked_one(inline, stale=is_stale)}),
            "protection": _marked_one(self._protection_block(sums), stale=is_stale),
            "access": self._access_block(),
            "alerting": self._alerting_block(),
            "audit": _audit_block(seals),
            "memory": self._memory_block(),
            "clock": self._clock_block(),
            "keys": self._keys_block(),
            "config": self._config_block(),
            "incidents": [incident.to_json() for incident in stand.incidents],
            "warnings": [*self._warnings(), *_audit_warnings(seals)],
            "configWarnings": [_warning(warning) for warning in self._config_warnings()],
            "hardening": [*self._runtime.hardening, *self._room_advice(views)],
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
        }

    async def _views(self) -> list[RoomView] | None:
        try:
            return await self._rooms.views()
        except StorageUnavailable:
            return None

    def _uptime_sec(self) -> int:
        return max(0, self._now() - self._runtime.started_at) // 1000

    async def _try_postgres(self) -> str:
        """``up`` or ``down``: it is asked, because nothing else tells an idle server."""
        try:
            await asyncio.wait_for(self._postgres.fetchval("SELECT 1"), POSTGRES_TRIAL_SEC)
        except (StorageUnavailable, TimeoutError):
            return "down"
        return "up"

    async def _seal_state(self) -> SealState:
        """What is known of the seals of the audit trail; nothing while Postgres is away."""
        if self._seals is None:
            return SealState()
        try:
            return await asyncio.wait_for(self._seals.state(), POSTGRES_TRIAL_SEC)
        except (StorageUnavailable, TimeoutError):
            return SealState()

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

    def _storage_block(
        self, stand: Stand, postgres: str, views: Sequence[RoomView] | None, size: JournalSize
    ) -> dict[str, Any]:
        book = self._book
        error_at, oldest = book.latest(metrics.LAST_ERROR_AT), book.latest(metrics.OLDEST_AT)
        figures = [view.figures for view in views or () if view.figures is not None]
        return {
            "ok": stand.storage_ok and postgres == "up",
            "writeErrors": book.total(metrics.WRITE_ERRORS),
            "lastError": book.text("storage_error") or None,
            "lastErrorAt": error_at or None,
            "lastCommitAt": book.latest(metrics.LAST_COMMIT_AT) or None,
            "pendingEvents": sum(max(0, room.seq - room.committed) for room in figures) if views is not None else None,
            "oldestPendingMs": max(0, self._now() - oldest) if oldest else 0,
            "databaseBytes": size.database_bytes,
            "journalRowsPerHour": size.rows_per_hour,
        }

    def _backend_block(self, stand: Stand, postgres: str) -> dict[str, Any]:
        book = self._book
        ids = [one.room_id for one in stand.incidents if one.code == "room_recovering"]
        policy = book.text("valkey_policy")
        ahead, failed = read_notes(book)
        return {
            "store": self._runtime.settings.store,
            "valkey": stand.valkey,
            "recoveringRooms": len(ids),
            "recoveringRoomIds": ids,
            "ok": stand.valkey == "up" and not ids,
            "valkeyEverConnected": stand.valkey_ever_connected,
            "maxmemoryPolicy": policy or None,
            "usedMemoryBytes": book.latest(metrics.VALKEY_USED) or None,
            "maxMemoryBytes": book.latest(metrics.VALKEY_MAX) or None,
            "postgres": postgres,
            "aheadRooms": [one.to_json() for one in ahead],
            "failedRebuilds": [{"roomId": room, "reason": reason} for room, reason in failed.items()],
            **({"stale": True} if stand.valkey == "down" else {}),
        }

    def _memory_block(self) -> dict[str, Any]:
        return {"rssBytes": self._book.total(metrics.MEMORY) or None, "limitBytes": container_limit()}

    def _clock_block(self) -> dict[str, Any]:
        book = self._book
        at = book.latest(metrics.JUMP_AT)
        return {
            "lastJumpAt": at or None,
            "lastJumpMs": signed(book.latest(metrics.JUMP_MS)) if at else None,
            "offsetFromValkeyMs": signed(book.latest(metrics.CLOCK_OFFSET)) if book.has(metrics.CLOCK_OFFSET) else None,
        }

    def _config_block(self) -> dict[str, Any]:
        given = self._runtime.given
        return {
            name: {"value": value, "from": "env" if name in given else "default"}
            for name, value in self._runtime.settings.shown().items()
        }

    def _protection_block(self, sums: Sums) -> dict[str, Any]:
        settings = self._runtime.settings
        thresholds = {"warnAt": settings.protection_warn_at, "blockAt": settings.protection_block_at}
        return {"mode": settings.protection_mode, **thresholds, **{name: sums.protection[name] for name in OUTCOMES}}

    def _sse_block(self) -> dict[str, Any]:
        settings, counters = self._runtime.settings, self._limiter.counters
        return {
            "visitors": self._limiter.gauge_total("sse"),
            "admin": self._book.total(metrics.SSE, "admin"),
            "perIp": settings.sse_per_ip,
            "maxTotal": settings.sse_max_total,
            "refusedTotal": counters.total("sse_refused"),
        }

    def _limits_block(self) -> dict[str, Any]:
        settings = self._runtime.settings
        return {
            "joinPerMin": settings.join_limit_per_min,
            "checkPerMin": settings.check_limit_per_min,
            "statusPerMin": settings.status_limit_per_min,
            "waitingPerMin": settings.waiting_limit_per_min,
            "notifyPerMin": settings.notify_limit_per_min,
            "verifyPerMin": settings.verify_limit_per_min,
            "adminAuthFailPerMin": settings.admin_auth_fail_per_min,
            "maxKeys": settings.rate_limit_max_keys,
            "refusedTotal": refused_by_budget(self._limiter),
        }

    def _waiting_page_block(self) -> dict[str, Any]:
        """The page budget, and whether it rests for somebody behind an undeclared proxy (CFG-123)."""
        limit, exempt = self._runtime.settings.waiting_limit_per_min, self._undeclared.exempt
        return {
            "enforced": limit > 0 and not exempt,
            "limitPerMin": limit,
            "exemptAddresses": exempt,
            "refusedTotal": refused_by_budget(self._limiter)["waiting"],
        }

    def _access_block(self) -> dict[str, Any]:
        """Who may come in; there is no SSO (ADM-048)."""
        operators, links = self._with_access()
        return {"sso": False, "operators": operators, "monitorLinks": links}

    def _alerting_block(self) -> dict[str, Any]:
        """Whether anybody is told, and how many alerts there are, as of the last look."""
        book, settings = self._book, self._runtime.settings
        own = int(book.latest(metrics.VALKEY_ALERT_SINCE) > 0)
        return {
            "configured": settings.alert_webhook_url is not None and not settings.drill,
            "firing": own + sum(book.total(metrics.ALERTS_FIRING, severity.value) for severity in Severity),
            "pending": book.total(metrics.ALERTS_PENDING),
        }

    def _keys_block(self) -> dict[str, Any]:
        """States of the keys and the public names of the two secrets (CFG-143)."""
        kids = (*self._keyring.kids, None)
        return {
            **_camel(self._runtime.key_states),
            "kid": kids[0],
            "kidPrevious": kids[1],
            "tokenSignV2": self._runtime.settings.token_sign_v2,
        }

    def _warnings(self) -> list[str]:
        config = [warning.message for warning in self._config_warnings() if warning.raises_badge]
        ahead, _ = read_notes(self._book)
        return [
            *config,
            *self._undeclared.sentences(),
            *self._secrets_apart(),
            *(one.warning for one in ahead),
            *clock_warnings(self._book),
        ]

    def _room_advice(self, views: Sequence[RoomView] | None) -> list[str]:
        settings = self._runtime.settings
        if settings.env != "production" or views is None:
            return []
        return room_advice((view.room.config for view in views), has_admin_host=bool(settings.admin_host))

    def _secrets_apart(self) -> list[str]:
        """Living instances that cannot verify what this one signs, or this one what they sign (CFG-014)."""
        fleet, kids = self._instances.last, self._keyring.kids
        if fleet is None:
            return []
        own = self._runtime.instance_id
        return [
            f"instances sign with different SECRETs: {own} ({kids[0]}) and {other.instance} ({other.kid})"
            for other in fleet.live
            if other.run != self._runtime.run_name
            and (other.kid not in kids or kids[0] not in other.figures.get("kids", (kids[0],)))
        ]

    def _config_warnings(self) -> list[ConfigWarning]:
        inline = [] if self._inline is None else self._inline.warnings()
        return [*self._runtime.warnings, *self._undeclared.config_warnings(), *inline]


def _audit_block(seals: SealState) -> dict[str, Any]:
    """``audit``: how far the trail is sealed, and whether the seals still fit (ADM-299)."""
    return {
        "sealedTo": seals.sealed_to,
        "sealedAt": seals.sealed_at,
        "seal": None if seals.digest is None else seals.digest.hex(),
        "ok": None if seals.checked_at is None else seals.bad_from is None,
    }


def _audit_warnings(seals: SealState) -> list[str]:
    if seals.bad_from is None:
        return []
    return [f"The audit trail was changed: from id {seals.bad_from} on it does not fit its seals."]


def clock_warnings(book: MetricBook) -> list[str]:
    """What is said of a wall clock that is not that of Valkey (FLT-130)."""
    off_sec = signed(book.latest(metrics.CLOCK_OFFSET)) / 1000 if book.has(metrics.CLOCK_OFFSET) else 0.0
    if abs(off_sec) <= CLOCK_OFF_SEC:
        return []
    return [f"clock of this instance differs from Valkey's by {abs(off_sec):.0f} s"]


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


def _camel(states: dict[str, str]) -> dict[str, str]:
    """``SECRET_PREVIOUS`` → ``secretPrevious``."""
    words = {name: name.lower().split("_") for name in states}
    return {first + "".join(map(str.capitalize, rest)): states[name] for name, (first, *rest) in words.items()}


def _warning(warning: Any) -> dict[str, Any]:
    return {
        "code": warning.code,
        "variable": warning.variable,
        "set": warning.set,
        "using": warning.using,
        "message": warning.message,
    }


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
