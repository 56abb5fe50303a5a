"""A stand-in for the admin API: the documented routes over real HTTP and SSE, with figures that move.

The page and its modules come from the real blueprint. Tests steer the stand-in with ``POST /stub/<what>``; it keeps
no promise of the engine, it only speaks like the server.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sanic import Request, Sanic, response

from app.core.errors import QmError
from app.domain.budget import UNLIMITED, Budget
from app.domain.opening import Moment
from app.domain.room_fields import parse_patch
from blueprints.admin.console import bp as console_bp
from tests.console.alerts import alerts_of
from tests.console.measured import measured_of
from tests.console.people import people_of
from tests.console.questions import questions_of
from tests.console.rooms import new_room, sample_entries, sample_report, sample_rooms

KEY = "test-key-of-the-stand-in"
LINK = "token.of-a-monitor-link"
CAN = {
    "write": True, "deleteRoom": True, "inline": True, "links": True, "audit": True, "operators": True,
    "diagnostics": True, "visitors": True, "reports": True, "security": True,
}  # fmt: skip
LINK_CAN = {**dict.fromkeys(CAN, False), "reports": True, "security": True}
ROOT = Path(__file__).resolve().parents[2]


NO_PROXY = {
    "ok": True, "trustProxy": 0, "trustProxyIps": [], "incomplete": False, "ignored": False,
    "forwardedFromUndeclaredPeer": False, "undeclaredPeers": [], "suggestion": None,
}  # fmt: skip


class State:
    """Everything the stand-in remembers."""

    def __init__(self) -> None:
        self.reset("pictured")

    def reset(self, rooms: str) -> None:
        """Back to the start: ``pictured`` rooms, or ``none``."""
        self.skew = 0
        """How far the server's clock is before this machine's, in ms."""
        self.stands_at: int | None = None
        """The server's time while it stands still."""
        self.rooms: dict[str, dict[str, Any]] = sample_rooms() if rooms == "pictured" else {}
        self.sessions: set[str] = set()
        self.tickets: set[str] = set()
        self.links = {LINK}
        self.link_tickets: set[str] = set()
        self.by_link: list[str] = []
        self.shared: dict[str, dict[str, Any]] = {}
        self.people: dict[str, dict[str, Any]] = {}
        self.entries: list[dict[str, Any]] = sample_entries(self.now())
        self.trail: list[str] = []
        self.refuse: dict[str, Any] | None = None
        self.silent = False
        self.cut = False
        self.headless = False
        """The next stream begins with a delta."""
        self.revision = 0
        self.locked = 0
        self.warnings: list[dict[str, str]] = []
        self.me = {
            "kind": "admin_key",
            "via": "session",
            "role": "owner",
            "name": "ADMIN_KEY",
            "operatorId": None,
            "linkId": None,
        }
        self.can = dict(CAN)
        self.page_limit = 0
        self.asked: list[str] = []
        self.sent: list[Any] = []
        self.unsure = False
        self.busy = False
        """Others' exports come first."""
        self.expires_in = 12 * 3600_000
        self.guarded = False
        """Dangerous acts need the key once more, as on an inline host."""
        self.step_ups: set[str] = set()
        self.incident: dict[str, Any] | None = None
        self.inline: dict[str, Any] | None = None
        self.hook: str | None = None
        """Host of the webhook."""
        self.answers: int | None = 200
        """What the receiver says to a test; None: nothing in time."""
        self.firing: list[dict[str, Any]] = []
        self.deliveries: list[dict[str, Any]] = []
        self.rule_warnings: list[dict[str, str]] = []
        """What the server says of rules that are tried."""
        self.install: dict[str, Any] = {}
        """Members of the installation check that are not as usual."""
        self.found: dict[str, dict[str, Any]] = {}
        """Answers of the look-up, by what was asked."""
        self.queries: list[str] = []
        """Path and query of every question for charts, marks and reports."""
        self.histories: dict[str, list[dict[str, Any]]] = {}
        self.marks: list[dict[str, Any]] | None = None
        self.protection: dict[str, Any] | None = None
        self.rows: list[dict[str, Any]] | None = None
        self.storage_down = False
        self.health: dict[str, Any] = {}
        """Members of the health answer that are not as usual."""
        self.server = {
            "instance": "i:7f3a9c",
            "instances": 3,
            "partial": False,
            "version": "1.0.0",
            "startedAt": 1,
            "uptimeSec": 1,
            "status": "ok",
            "insecureConfig": 1,
            "autotune": False,
            "protectionMode": "monitor",
            "publicUrl": None,
        }

    def now(self) -> int:
        return (self.stands_at or int(time.time() * 1000)) + self.skew


state = State()
app = Sanic("console_stub", configure_logging=False)
app.config.KEEP_ALIVE_TIMEOUT = 1
app.blueprint(console_bp)


class Undeclared:
    """Page budget of the stand-in: off, or used up."""

    def page_budget(self, group: str, client: Any) -> Budget:
        limit = state.page_limit
        if not limit:
            return UNLIMITED
        return Budget(allowed=False, limit=limit, remaining=0, reset_sec=7, retry_after_sec=7)


app.ctx.qm = SimpleNamespace(visitor=SimpleNamespace(undeclared=Undeclared()))


def refuse(status: int, code: str, error: str, **more: Any) -> response.HTTPResponse:
    headers = {"Retry-After": str(more["retryAfterSec"])} if "retryAfterSec" in more else {}
    return response.json({"error": error, "code": code, **more}, status=status, headers=headers)


@app.exception(QmError)
async def _refused(_: Request, error: QmError) -> response.HTTPResponse:
    return response.json(error.body(), status=error.status)


def is_dangerous(request: Request) -> bool:
    path = request.path.removeprefix("/api/admin/")
    if request.method == "DELETE":
        return path.startswith("rooms/")
    return request.method == "POST" and (
        path.startswith("operators") or (path == "rooms" and "proxyOrigin" in request.json)
    )


@app.on_request
async def _credential(request: Request) -> response.HTTPResponse | None:
    request.ctx.client = SimpleNamespace(key=b"stub")
    request.ctx.inline = None
    if not request.path.startswith("/api/admin") or request.path == "/api/admin/session":
        return None
    state.asked.append(f"{request.method} {request.path}")
    if bearer := request.headers.get("authorization"):
        state.by_link.append(f"{request.method} {request.path} {request.headers.get('cookie', '-')}")
        if bearer.removeprefix("Bearer ") in state.links:
            return None
        return refuse(401, "unauthorized", "A valid key is required.")
    if request.path != "/api/admin/events" and request.cookies.get("qm_console") not in state.sessions:
        return refuse(401, "unauthorized", "A valid key is required.")
    if request.method not in ("GET", "HEAD") and not request.headers.get("x-qm-csrf"):
        return refuse(403, "csrf_required", "This change needs the X-QM-CSRF header from the console's own page.")
    if state.unsure:
        return refuse(503, "storage_unavailable", "The credential cannot be checked.", retryAfterSec=5)
    if state.guarded and is_dangerous(request) and request.headers.get("x-qm-step-up-token") not in state.step_ups:
        return refuse(403, "step_up_required", "This act needs your key once more.")
    if request.method != "GET" and ("/operators" in request.path or "/monitor-tokens" in request.path):
        state.sent.append([request.path.removeprefix("/api/admin"), request.json or {}])
        if state.refuse:
            return refuse(**state.refuse)
    if request.method != "GET" and "/rooms" in request.path:
        state.sent.append([request.path.removeprefix("/api/admin"), request.json])
        if state.refuse:
            return refuse(**state.refuse)
    return None


@app.post("/api/admin/session")
async def sign_in(request: Request) -> response.HTTPResponse:
    if state.locked:
        return refuse(
            429, "too_many_auth_failures", "Too many failed sign-ins from this address.", retryAfterSec=state.locked
        )
    if request.json.get("key") != KEY:
        return refuse(401, "unauthorized", "A valid key is required.")
    answer = response.json({"ok": True, **state.me})
    value = secrets.token_hex(8)
    state.sessions.add(value)
    answer.add_cookie("qm_console", value, path="/api/admin", httponly=True, samesite="Strict", secure=False)
    return answer


@app.post("/api/admin/step-up")
async def step_up(request: Request) -> response.HTTPResponse:
    if state.locked:
        return refuse(429, "too_many_auth_failures", "Too many failed sign-ins.", retryAfterSec=state.locked)
    if request.json["key"] == "key-of-somebody-else":
        return refuse(403, "step_up_other_person", "This is the key of somebody else. Present your own.")
    if request.json["key"] != KEY:
        return refuse(401, "unauthorized", "A valid key is required.")
    token = "qmsu_" + secrets.token_urlsafe(32)
    state.step_ups.add(token)
    return response.json({"stepUpToken": token, "expiresAt": state.now() + 300_000})


@app.delete("/api/admin/session")
async def sign_out(request: Request) -> response.HTTPResponse:
    state.sessions.discard(request.cookies.get("qm_console", ""))
    return response.json({"ok": True})


@app.get("/api/admin/me")
async def me(request: Request) -> response.HTTPResponse:
    if request.headers.get("authorization"):
        link = {"kind": "monitor", "via": "bearer", "role": "monitor", "name": "Monitor link", "linkId": "m_7c1e0b52"}
        return response.json({**state.me, **link, "expiresAt": state.now() + 1000, "can": LINK_CAN})
    return response.json({**state.me, "expiresAt": state.now() + state.expires_in, "can": state.can})


@app.post("/api/admin/sse-ticket")
async def sse_ticket(request: Request) -> response.HTTPResponse:
    ticket = secrets.token_urlsafe(32)
    state.tickets.add(ticket)
    if request.headers.get("authorization"):
        state.link_tickets.add(ticket)
    return response.json({"ticket": ticket, "expiresInSec": 30})


@app.get("/api/admin/health")
async def health(_: Request) -> response.HTTPResponse:
    found = [] if state.incident is None else [state.incident]
    return response.json(
        {
            "status": "degraded" if found else "ok", "ready": True, "reasons": [], "incidents": found,
            "warnings": [], "configWarnings": [], "version": "1.0.0", "uptimeSec": 7200, "startedAt": 1_788_200_000_000,
            "instance": "i:7f3a9c", "fleet": {"instances": 3, "partial": False},
            "storage": {"ok": True, "lastError": None}, "backend": {"valkey": "up"}, "hardening": [],
            "proxy": NO_PROXY, "waitingPage": {"exemptAddresses": 0}, **sample_report(),
            **({} if state.inline is None else {"inline": state.inline}), **state.health,
        }
    )  # fmt: skip


def totals() -> dict[str, Any]:
    rooms = [r for r in state.rooms.values() if r["waiting"] is not None]
    moving = [r for r in rooms if r["estWaitSec"] is not None]
    worst = max(moving, key=lambda r: r["estWaitSec"], default=None)
    excluded = sum(1 for r in rooms if r["estWaitInfinite"])
    unknown = bool(state.rooms) and not rooms
    sums = {
        k: None if unknown else sum(r[k] for r in rooms)
        for k in ("waiting", "preQueue", "active", "occupancy", "passesOutstanding", "joinsPerMin", "passedLastMinute")
    }
    found: dict[str, Any] = {
        "sec": worst["estWaitSec"] if worst else None if unknown else 0,
        "kind": "floor" if worst and worst["estWaitIsFloor"] else "estimate",
        "roomId": worst and worst["id"],
        "excluded": excluded,
        "notAdmitting": excluded,
    }
    if not moving and excluded:
        found |= {"sec": None, "kind": "infinite", "roomId": None}
    return {
        "rooms": len(state.rooms),
        **sums,
        "worstWait": found,
        "incident": state.incident,
        "incidents": 2 if state.incident else 0,
    }


def frame(delta: bool, rooms: list[dict[str, Any]], removed: list[str]) -> str:
    body = {
        "delta": delta,
        "ts": state.now(),
        "rooms": rooms,
        "removed": removed,
        "totals": totals(),
        "server": state.server,
        "backend": {"ok": True, "recovering": 0},
    }
    return json.dumps(body)


@app.get("/api/admin/events")
async def events(request: Request) -> None:
    ticket = request.args.get("ticket", "")
    if ticket not in state.tickets:
        raise QmError("A valid key is required.", code="unauthorized", status=401)
    state.tickets.discard(ticket)
    stream = await request.respond(
        content_type="text/event-stream; charset=utf-8", headers={"Cache-Control": "no-store"}
    )
    cookie, known, number = request.cookies.get("qm_console", ""), {}, 0
    is_link = ticket in state.link_tickets
    if state.headless:
        state.headless, number = False, 5
    while state.links if is_link else cookie in state.sessions:
        if state.cut:
            state.cut = False
            return
        if not state.silent:
            number += 1
            now = {key: json.dumps(room) for key, room in state.rooms.items()}
            changed = [room for key, room in state.rooms.items() if known.get(key) != now[key]]
            data = (
                frame(False, list(state.rooms.values()), [])
                if number < 3
                else frame(True, changed, [k for k in known if k not in now])
            )
            await stream.send(f"id: {number}\nevent: stats\ndata: {data}\n\n")
            known = now
        await asyncio.sleep(0.2)
    await stream.send('event: revoked\ndata: {"error":"unauthorized"}\n\n')
    await stream.eof()


def changed(room: dict[str, Any], values: dict[str, Any]) -> response.HTTPResponse:
    names = [name for name, value in values.items() if room.get(name) != value]
    room.update(values, effectiveState=values.get("state", room["state"]))
    infinite = room["waiting"] > 0 and (room["state"] == "paused" or room["rate"] == 0)
    room.update(estWaitInfinite=infinite, estWaitSec=None if infinite else room["estWaitSec"] or room["waiting"])
    return response.json(
        {"room": room, "created": False, "changed": names, "ignoredFields": [], "warnings": state.warnings}
    )


@app.post("/api/admin/rooms/<room_id:str>/rate")
async def rate(request: Request, room_id: str) -> response.HTTPResponse:
    return changed(state.rooms[room_id], {"rate": request.json["ratePerMinute"]})


@app.post("/api/admin/rooms/<room_id:str>/state")
async def room_state(request: Request, room_id: str) -> response.HTTPResponse:
    return changed(state.rooms[room_id], {"state": request.json["state"]})


@app.post("/api/admin/rooms/<room_id:str>/eject")
async def eject(request: Request, room_id: str) -> response.HTTPResponse:
    ticket = request.json["ticket"]
    if ticket > state.rooms[room_id]["lastTicket"]:
        return refuse(404, "no_ticket", "No such ticket")
    return response.json({"ok": True, "roomId": room_id, "ticket": ticket, "was": "waiting"})


@app.post("/api/admin/rooms/<room_id:str>/<act:flush|purge>")
async def sweep(_: Request, room_id: str, act: str) -> response.HTTPResponse:
    room = state.rooms[room_id]
    waiting, room["waiting"] = room["waiting"], 0
    done = {"flushed": waiting} if act == "flush" else {"purged": {"waiting": waiting, "preQueue": 0}}
    return response.json({"ok": True, "roomId": room_id, **done})


@app.delete("/api/admin/rooms/<room_id:str>")
async def delete(_: Request, room_id: str) -> response.HTTPResponse:
    del state.rooms[room_id]
    answer = {"ok": True, "roomId": room_id, "generation": 1, "dropped": {}, "warnings": state.warnings}
    return response.json(answer)


@app.post("/api/admin/rooms")
async def upsert(request: Request) -> response.HTTPResponse:
    """The server's own table judges the fields."""
    values = dict(request.json)
    stored = state.rooms.get(values["id"], {}).get("opensAt")
    parse_patch(values, creating=values["id"] not in state.rooms, moment=Moment(state.now(), stored))
    if "ratePerMinute" in values:
        values["rate"] = values.pop("ratePerMinute")
    if values["id"] in state.rooms:
        return changed(state.rooms[values["id"]], values)
    if values["targetUrl"].endswith("refused.example"):
        return refuse(400, "invalid_target_url", "targetUrl must be an absolute http(s) URL", fields=["targetUrl"])
    room = new_room(**values)
    state.rooms[room["id"]] = room
    return response.json(
        {"room": room, "created": True, "changed": list(values), "ignoredFields": [], "warnings": state.warnings}
    )


app.blueprint(people_of(state))
app.blueprint(alerts_of(state))
app.blueprint(questions_of(state))
app.blueprint(measured_of(state))


@app.post("/stub/reset")
async def stub_reset(request: Request) -> response.HTTPResponse:
    state.reset(request.json["rooms"])
    return response.empty()


@app.post("/stub/set")
async def stub_set(request: Request) -> response.HTTPResponse:
    for name, value in request.json.items():
        setattr(state, name, set(value) if name in ("sessions", "tickets", "links", "step_ups") else value)
    return response.empty()


@app.post("/stub/room/<room_id:str>")
async def stub_room(request: Request, room_id: str) -> response.HTTPResponse:
    state.rooms[room_id].update(request.json)
    return response.empty()


@app.get("/stub/state")
async def stub_state(_: Request) -> response.HTTPResponse:
    names = ("rooms", "asked", "sent", "by_link", "trail", "queries")
    return response.json({name: getattr(state, name) for name in names})


app.static("/fonts", ROOT / "static/fonts", name="fonts")

if __name__ == "__main__":
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0))
    print(listener.getsockname()[1], flush=True)
    app.run(sock=listener, single_process=True, access_log=False, motd=False)
