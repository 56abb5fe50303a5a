"""``/healthz`` and ``/api/version``: what a load balancer and a rollout script ask (OBS-001 … OBS-011, OBS-030).

Both read the last known state from memory and ask no store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sanic import Blueprint, Request
from sanic.response import HTTPResponse

from blueprints.replies import json_answer

RETRY_AFTER_SEC = 5


@dataclass(frozen=True, slots=True)
class Health:
    """State of this instance as strangers may see it: no room, name, address or error text (OBS-006)."""

    ready: bool
    status: str
    """``ok``, ``degraded`` or ``shutting_down``."""
    version: str
    build: str
    started_at: int
    """Epoch ms."""
    uptime_sec: int
    store: str
    """``memory``, ``embedded`` or ``valkey``."""
    sidestore: str
    """``memory``, ``embedded`` or ``pg``."""
    storage_ok: bool
    leader: bool = False
    reasons: tuple[tuple[str, str], ...] = ()
    """(code, text) of what makes ``ready`` false."""
    degraded: tuple[str, ...] = ()
    """Codes of the incidents, each once."""
    valkey: str = "up"
    """``up`` or ``down``."""
    valkey_ever_connected: bool = True
    recovering_rooms: int = 0

    def body(self) -> dict[str, Any]:
        """The JSON of both routes (OBS-003, OBS-004)."""
        found: dict[str, Any] = {
            "ready": self.ready,
            "status": self.status,
            "reasons": [{"code": code, "text": text} for code, text in self.reasons],
            "degraded": list(self.degraded),
            "version": self.version,
            "build": self.build,
            "startedAt": self.started_at,
            "uptimeSec": self.uptime_sec,
            "store": self.store,
            "sidestore": self.sidestore,
            "leader": self.leader,
            "storage": {"ok": self.storage_ok},
        }
        if self.store != "memory":
            found["backend"] = {
                "store": self.store,
                "valkey": self.valkey,
                "recoveringRooms": self.recovering_rooms,
                "ok": self.valkey == "up" and self.recovering_rooms == 0,
                "valkeyEverConnected": self.valkey_ever_connected,
            }
        return found


bp = Blueprint("ops")


@bp.get("/healthz")
async def healthz(request: Request) -> HTTPResponse:
    """200 when this instance should get traffic, 503 when not (OBS-002)."""
    health: Health = request.app.ctx.health()
    if health.ready:
        return json_answer(health.body())
    return json_answer(health.body(), status=503, headers={"Retry-After": str(RETRY_AFTER_SEC)})


@bp.get("/api/version", name="version")
@bp.get("/api/v1/version", name="version_v1")
async def version(request: Request) -> HTTPResponse:
    """The same JSON, always with 200 (OBS-030)."""
    health: Health = request.app.ctx.health()
    return json_answer(health.body())
