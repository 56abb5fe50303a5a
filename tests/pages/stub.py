"""A small stand-in for the visitor API, over real HTTP, around the real page blueprints.

``python -m tests.pages.stub PORT`` serves the waiting page, its files, and canned visitor states. A test says what the
next answers are with ``POST /stub`` (see ``Script``). It knows nothing of queues: what the answers of the real server
look like is proven elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from sanic import HTTPResponse, Request, Sanic
from sanic.response import empty, html

from app.core.errors import QmError
from app.core.ids import EpochMs, Generation, RoomId
from app.domain.budget import Budget
from app.domain.room import Room, RoomConfig
from app.services.asset_file import Asset
from app.services.assets import Assets
from app.services.docs import Docs
from app.services.waiting_page import RenderedPage, WaitingPage
from blueprints import docs
from blueprints.visitor import assets, pages

LIMIT = 120
PUBLIC = "https://line.example.org"
ROOMS = {"shop": "Shop", "mail": "Shop", "evil": '<script>alert("x")</script>'}


@dataclass
class Script:
    """What the stub answers. ``join`` and ``status``: {"status", "body", "headers"}, of a join also "then", the status
    from then on; ``bearer``: the status of who sends a token in the address, where it differs; ``events``: "on", "mute"
    (opens and never sends a frame), "off", "refresh", or a refusal's {"status", "headers"}; ``frames``: states that an
    open stream sends next, all in one piece; ``notify``: as ``status``."""

    join: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    bearer: dict[str, Any] = field(default_factory=dict)
    notify: dict[str, Any] = field(default_factory=dict)
    events: Any = "on"
    frames: list[dict[str, Any]] = field(default_factory=list)
    version: int = 0
    calls: list[dict[str, Any]] = field(default_factory=list)


def room(room_id: str) -> Room:
    """A room as the directory keeps it."""
    config = RoomConfig(RoomId(room_id), ROOMS[room_id], "http://127.0.0.1/landed")
    return Room(config, Generation(1), bytes(16), 1, EpochMs(0), EpochMs(0))


class Rooms:
    """Room directory of the stub."""

    def __init__(self) -> None:
        self._rooms = {room_id: room(room_id) for room_id in ROOMS}

    def get(self, room_id: str) -> Room | None:
        return self._rooms.get(room_id)

    async def refresh(self, _room_id: str) -> Room | None:
        return None


class Pages:
    """The pages: that of the room ``mail`` offers to take an address."""

    def __init__(self, files: Assets) -> None:
        self._plain, self._mail = WaitingPage(assets=files), WaitingPage(assets=files, offers_mail=True)

    def render(self, found: Room) -> RenderedPage:
        return (self._mail if found.id == "mail" else self._plain).render(found)


class OneBuild:
    """Files of this build alone."""

    def __init__(self, files: Assets) -> None:
        self._files = files

    async def find(self, name: str) -> Asset | None:
        return self._files.get(name)


class Limiter:
    """Counts down one budget for everybody."""

    def __init__(self) -> None:
        self.used = 0

    def page_budget(self, _group: str, _client: Any) -> Budget:
        self.used += 1
        left = LIMIT - self.used
        return Budget(left >= 0, LIMIT, max(0, left), 12, 0 if left >= 0 else 12)


def build() -> Sanic[Any, Any]:
    """The stub's app."""
    app: Sanic[Any, Any] = Sanic("waiting_stub", configure_logging=False)
    app.config.AUTO_EXTEND = False  # sanic-ext has a /docs of its own
    page_files, limiter = Assets(), Limiter()
    script = Script()
    app.ctx.qm = SimpleNamespace(
        assets=page_files,
        asset_share=OneBuild(page_files),
        waiting_page=Pages(page_files),
        rooms=Rooms(),
        visitor=SimpleNamespace(undeclared=limiter, rooms=SimpleNamespace(public_base=PUBLIC)),
        docs=Docs(page_files),
    )
    app.blueprint(pages.bp)
    app.blueprint(assets.bp)
    app.blueprint(docs.bp)

    @app.exception(QmError)
    async def refused(_request: Request, error: QmError) -> HTTPResponse:
        # How refusals look is proven with the real server; here they only have to be refusals.
        return HTTPResponse(json.dumps(error.body()), status=error.status, content_type="application/json")

    @app.on_request
    async def client(request: Request) -> None:
        request.ctx.client = SimpleNamespace(key=b"\x7f\0\0\1")
        request.ctx.inline = None

    def canned(answer: dict[str, Any]) -> HTTPResponse:
        body = json.dumps(answer.get("body", {}))
        headers = {"Cache-Control": "no-store", **answer.get("headers", {})}
        return HTTPResponse(body, status=answer.get("status", 200), headers=headers, content_type="application/json")

    def answer_to(request: Request) -> dict[str, Any]:
        return script.bearer if script.bearer and request.args.get("token") else script.status

    def note(request: Request) -> None:
        script.calls.append(
            {
                "path": request.path,
                "method": request.method,
                "query": request.query_string,
                "body": request.body.decode(),
            }
        )

    @app.post("/stub")
    async def configure(request: Request) -> HTTPResponse:
        for name, value in request.json.items():
            if name == "used":
                limiter.used = value
            else:
                setattr(script, name, value)
        script.version += 1
        return empty()

    @app.get("/stub")
    async def recorded(_request: Request) -> HTTPResponse:
        return HTTPResponse(json.dumps(script.calls), content_type="application/json")

    @app.post("/api/join")
    async def join(request: Request) -> HTTPResponse:
        note(request)
        if "then" in script.join:
            script.status = script.join["then"]
            script.version += 1
        return canned(script.join)

    @app.get("/api/status")
    async def status(request: Request) -> HTTPResponse:
        note(request)
        return canned(answer_to(request))

    @app.post("/api/leave")
    async def leave(request: Request) -> HTTPResponse:
        note(request)
        return canned({"body": {"ok": True, "left": "waiting"}})

    @app.route("/api/notify", methods=["POST", "DELETE"])
    async def notify(request: Request) -> HTTPResponse:
        note(request)
        return canned({"body": {"ok": True}, **script.notify})

    @app.get("/events")
    async def events(request: Request) -> HTTPResponse | None:
        note(request)
        if isinstance(script.events, dict):
            return canned(script.events)
        headers = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
        stream = await request.respond(content_type="text/event-stream; charset=utf-8", headers=headers)
        seen = -1
        while script.events in ("on", "mute"):
            if script.events == "on" and script.frames:
                frames, script.frames = script.frames, []
                await stream.send("".join(f"event: state\ndata: {json.dumps(frame)}\n\n" for frame in frames))
            if script.events == "on" and seen != script.version:
                seen = script.version
                await stream.send(f"event: state\ndata: {json.dumps(answer_to(request).get('body', {}))}\n\n")
            await asyncio.sleep(0.02)
        if script.events == "refresh":
            script.events = "on"
            await stream.send("event: refresh\ndata: {}\n\n")
        await stream.eof()
        return None

    @app.get("/landed")
    async def landed(_request: Request) -> HTTPResponse:
        return html("<!doctype html><title>landed</title>")

    @app.get("/nowhere")
    async def nowhere(_request: Request) -> HTTPResponse:
        # A browser that is sent here stays where it is.
        return empty()

    return app


if __name__ == "__main__":
    build().run(host="127.0.0.1", port=int(sys.argv[1]), single_process=True, access_log=False, motd=False)
