"""What ``GET /api/admin/health`` and the console's frames tell about this server: states, incidents, values in use.

Only what this build really knows; a block whose feature is missing is absent (OBS: a number that is not known is
absent or null). Not here: the public ``/healthz``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from app.core.clock import wall_ms
from app.core.errors import StorageUnavailable
from app.core.runtime import Runtime
from app.core.settings import ConfigWarning
from app.core.version import VERSION
from app.domain.keyring import Keyring
from app.infrastructure.postgres import Postgres
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.valkey import Valkey
from app.services.commit import CommitWaiter
from app.services.edge_watch import ConnectionCap, EdgeWatch
from app.services.fleet_counts import OUTCOMES, FleetCounts, Sums
from app.services.room_object import RoomView
from app.services.rooms import RoomService
from app.services.undeclared import UndeclaredPeers

POSTGRES_TRIAL_SEC: Final = 1.0


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that is wrong now (OBS-044)."""

    code: str
    severity: str
    text: str
    room_id: str | None = None
    since: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The object of ``incidents``."""
        return {
            "code": self.code,
            "severity": self.severity,
            "roomId": self.room_id,
            "since": self.since,
            "text": self.text,
        }


class AdminHealth:
    """Answers of one web worker about its instance."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        valkey: Valkey,
        postgres: Postgres,
        commits: CommitWaiter,
        rooms: RoomService,
        limiter: RateLimiter,
        keyring: Keyring,
        undeclared: UndeclaredPeers,
        edge_watch: EdgeWatch,
        connections: ConnectionCap,
        fleet: FleetCounts,
        now: Callable[[], int] = wall_ms,
    ) -> None:
        self._runtime = runtime
        self._valkey = valkey
        self._postgres = postgres
        self._commits = commits
        self._rooms = rooms
        self._limiter = limiter
        self._keyring = keyring
        self._undeclared = undeclared
        self._edge_watch = edge_watch
        self._connections = connections
        self._fleet = fleet
        self._now = now
        self._since: dict[tuple[str, str | None], int] = {}

    def incidents(self, views: Sequence[RoomView]) -> list[Incident]:
        """What is wrong now, most serious first (OBS-045)."""
        found: list[tuple[str, str, str | None, str]] = []
        if self._commits.refusing():
            found.append(("storage_degraded", "critical", None, "storage is degraded: the journal takes no commits"))
        if self._valkey.shown_state == "down":
            found.append(("valkey_down", "critical", None, "Valkey cannot be reached"))
        found.extend(filter(None, map(_refuses_joins, views)))
        for view in views:
            if view.is_recovering:
                text = f"{view.room.config.name} is being rebuilt from the journal"
                found.append(("room_recovering", "warning", view.room.id, text))
        now = self._now()
        self._since = {(code, room): self._since.get((code, room), now) for code, _, room, _ in found}
        return [Incident(code, severity, text, room, self._since[code, room]) for code, severity, room, text in found]

    def reasons(self) -> tuple[tuple[str, str], ...]:
        """Code and text of what makes this instance not ready (OBS-012)."""
        holds = {
            ("shutting_down", "this instance is stopping"): self._runtime.stopping.is_set(),
            ("connection_limit", "this instance holds as many connections as it may"): self._connections.is_full,
        }
        return tuple(reason for reason in holds if holds[reason])

    def server_block(self, incidents: Sequence[Incident]) -> dict[str, Any]:
        """``server`` of a stream frame. ``instances`` is absent where this build cannot count them."""
        runtime = self._runtime
        return {
            "instance": runtime.instance_id,
            **({"instances": 1} if runtime.is_private else {}),
            "partial": False,
            "version": VERSION,
            "startedAt": runtime.started_at,
            "uptimeSec": max(0, self._now() - runtime.started_at) // 1000,
            "status": self._status(incidents),
            "insecureConfig": len(self._warnings()),
        }

    def backend_block(self, views: Sequence[RoomView]) -> dict[str, Any]:
        """``backend`` of a stream frame."""
        recovering = sum(view.is_recovering for view in views)
        return {"ok": self._valkey.shown_state == "up" and not recovering, "recovering": recovering}

    async def report(self, admin_streams: int) -> dict[str, Any]:
        """The full answer; it is given whatever is down (OBS-032). ``admin_streams``: those of this worker."""
        views, stores, sums = await asyncio.gather(self._views(), self._stores(), self._sums())
        incidents = self.incidents(views or ())
        reasons = [{"code": code, "text": text} for code, text in self.reasons()]
        return {
            **self._identity(),
            "ready": not reasons,
            "status": self._status(incidents),
            "reasons": reasons,
            "degraded": list(dict.fromkeys(incident.code for incident in incidents)),
            "rooms": None if views is None else _rooms_block(views),
            "sse": self._sse_block(admin_streams),
            "connections": self._connections.connections_block(),
            "limits": self._limits_block(),
            "waitingPage": self._waiting_page_block(),
            "storage": {"ok": not self._commits.refusing() and stores["postgres"] == "up"},
            "backend": {**stores, **self._recovering(views or ())},
            "proxy": self._undeclared.proxy_block(),
            "edge": self._edge_watch.edge_block(),
            **sums.health_blocks(),
            "protection": self._protection_block(sums),
            "access": {"sso": False, "operators": 0, "monitorLinks": 0},
            "keys": self._keys_block(),
            "config": {name: {"value": value} for name, value in self._runtime.settings.shown().items()},
            "incidents": [incident.to_json() for incident in incidents],
            "warnings": self._warnings(),
            "configWarnings": [_warning(warning) for warning in self._config_warnings()],
            "hardening": list(self._runtime.hardening),
        }

    def _status(self, incidents: Sequence[Incident]) -> str:
        if self._runtime.stopping.is_set():
            return "shutting_down"
        return "degraded" if incidents else "ok"

    def _identity(self) -> dict[str, Any]:
        runtime, now = self._runtime, self._now()
        settings = runtime.settings
        return {
            "version": VERSION,
            "instance": runtime.instance_id,
            "role": "all",
            "pid": runtime.main_pid,
            "workers": settings.workers,
            "now": now,
            "nowIso": datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "startedAt": runtime.started_at,
            "uptimeSec": max(0, now - runtime.started_at) // 1000,
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

    async def _stores(self) -> dict[str, Any]:
        """States of both stores; Postgres is asked, because nothing else tells an idle server."""
        try:
            await asyncio.wait_for(self._postgres.fetchval("SELECT 1"), POSTGRES_TRIAL_SEC)
            postgres = "up"
        except (StorageUnavailable, TimeoutError):
            postgres = "down"
        return {
            "store": self._runtime.settings.store,
            "valkey": self._valkey.shown_state,
            "valkeyEverConnected": self._valkey.ever_connected,
            "postgres": postgres,
        }

    async def _sums(self) -> Sums:
        """Counts of the living instances; those of this process alone while the live store is away (OBS-039)."""
        try:
            return await self._fleet.sums()
        except StorageUnavailable:
            return self._fleet.known()

    def _protection_block(self, sums: Sums) -> dict[str, Any]:
        settings = self._runtime.settings
        thresholds = {"warnAt": settings.protection_warn_at, "blockAt": settings.protection_block_at}
        return {"mode": settings.protection_mode, **thresholds, **{name: sums.protection[name] for name in OUTCOMES}}

    def _recovering(self, views: Sequence[RoomView]) -> dict[str, Any]:
        ids = [view.room.id for view in views if view.is_recovering]
        is_up = self._valkey.shown_state == "up"
        return {"ok": is_up and not ids, "recoveringRooms": len(ids), "recoveringRoomIds": ids}

    def _sse_block(self, admin_streams: int) -> dict[str, Any]:
        settings = self._runtime.settings
        visitors = self._limiter.gauge_total("sse")
        return {
            "visitors": visitors,
            "admin": admin_streams if settings.workers == 1 else None,
            "perIp": settings.sse_per_ip,
            "maxTotal": settings.sse_max_total,
        }

    def _limits_block(self) -> dict[str, Any]:
        settings = self._runtime.settings
        return {
            "joinPerMin": settings.join_limit_per_min,
            "checkPerMin": settings.check_limit_per_min,
            "statusPerMin": settings.status_limit_per_min,
            "waitingPerMin": settings.waiting_limit_per_min,
            "verifyPerMin": settings.verify_limit_per_min,
            "adminAuthFailPerMin": settings.admin_auth_fail_per_min,
            "maxKeys": settings.rate_limit_max_keys,
        }

    def _waiting_page_block(self) -> dict[str, Any]:
        """The page budget, and whether it rests for somebody behind an undeclared proxy (CFG-123)."""
        limit, exempt = self._runtime.settings.waiting_limit_per_min, self._undeclared.exempt
        return {"enforced": limit > 0 and not exempt, "limitPerMin": limit, "exemptAddresses": exempt}

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
        return config + self._undeclared.sentences()

    def _config_warnings(self) -> list[ConfigWarning]:
        return [*self._runtime.warnings, *self._undeclared.config_warnings()]


def _refuses_joins(view: RoomView) -> tuple[str, str, str | None, str] | None:
    """The incident of a room that refused newcomers within the last minute (ENG-294)."""
    why = view.figures.joins_refused if view.figures else None
    if why is None:
        return None
    bound = "Valkey is short of memory" if why == "memory" else "the line is as long as QM_LINE_MAX allows"
    return "joins_refused", "critical", view.room.id, f"{view.room.config.name} takes nobody new: {bound}"


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
        "inline": 0,
        "waiting": sum(room.waiting for room in figures),
        "preQueue": sum(room.pre_queue for room in figures),
        "active": sum(room.active for room in figures),
        "occupancy": sum(room.occupancy for room in figures),
        "passesOutstanding": sum(room.passes_outstanding for room in figures),
        "stale": any(view.stale_since is not None for view in views),
    }
