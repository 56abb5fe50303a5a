"""The visitor's side of one instance without its sockets: hot handlers, use cases, engine, drainer, journal.

``Browser`` makes the requests a browser would make, keeps its cookies, and gets answers as the edge makes them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from app.core.errors import QmError, StorageUnavailable
from app.core.ids import RoomId
from app.core.secret import Secret
from app.core.settings import Settings
from app.domain.client_address import NO_PROXY, Client, TrustPolicy, resolve_client
from app.domain.keyring import Keyring
from app.domain.room import Room, RoomConfig
from app.infrastructure.admin_store import AdminStore
from app.infrastructure.engine_admin import WriteCode
from app.infrastructure.engine_errors import RoomFenced, RoomGone
from app.infrastructure.keys import RoomKeys
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.refused_tokens import RefusedTokens
from app.infrastructure.wishes import WishStore
from app.services.lockout import Lockout
from app.services.refused_tokens import ManyRefused
from app.services.visitor_counts import VisitorCounts
from app.services.visitor_services import VisitorServices
from blueprints.edge.head import Fields
from blueprints.edge.hot import HotBeginning, HotRoute, HotTable
from blueprints.edge.reading import Reading
from blueprints.edge.recurring import Repeat
from blueprints.edge.reply import HotReply
from blueprints.edge.request import HotRequest
from blueprints.errors import error_reply
from blueprints.visitor import hot, leave, notify, verify
from tests.journal.header import change_header
from tests.journal.house import House, until

SECRET = "a-secret-of-the-tests-with-32-characters"
HOST = "queue.example"
AGENT = "Mozilla/5.0 (X11; Linux x86_64) Browser/1.0"


class LiveRooms:
    """RoomDirectory's part that visitor requests use, without its subscription: copies on request."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.copies: dict[str, Room] = {}
        self.refreshed = 0

    def get(self, room_id: RoomId, /) -> Room | None:
        return self.copies.get(room_id)

    async def refresh(self, room_id: RoomId, /) -> Room | None:
        self.refreshed += 1
        try:
            room = await self._house.admin.read(room_id)
        except (RoomGone, RoomFenced):
            room = None
        if room is None:
            self.copies.pop(room_id, None)
        else:
            self.copies[room_id] = room
        return room


class Site:
    """Everything that answers visitors, on the stores of ``house``."""

    def __init__(self, house: House, limiter: RateLimiter, **settings: Any) -> None:
        # The limits are off unless a test sets one, as in CFG-091.
        groups = ("join", "check", "status", "verify", "notify")
        off = {f"{group}_limit_per_min": 0 for group in groups}
        self.settings = Settings(**{"secret": Secret(SECRET), **off, **settings})
        self.house = house
        self.rooms = LiveRooms(house)
        previous = self.settings.secret_previous
        self.keyring = Keyring(
            self.settings.secret.reveal(),
            previous.reveal() if previous else None,
            sign_v2=self.settings.token_sign_v2,
        )
        self.many_refused = ManyRefused(RefusedTokens(house.valkey, house.prefix))
        store = AdminStore(house.valkey, house.prefix)
        self.lockout = Lockout(store, limiter, limit=self.settings.admin_auth_fail_per_min)
        self.visitor = VisitorServices.build(
            settings=self.settings,
            keyring=self.keyring,
            engine=house.engine,
            engine_admin=house.admin,
            commits=house.commits,
            rooms=self.rooms,
            limiter=limiter,
            counts=VisitorCounts(self.many_refused),
            lockout=self.lockout,
            wishes=WishStore(house.valkey, house.prefix),
        )
        self.context: Any = SimpleNamespace(settings=self.settings, limiter=limiter, visitor=self.visitor)
        self.table = HotTable()
        self.table.extend(hot.routes(self.context))
        self.table.extend(leave.routes(self.context))
        self.table.extend(verify.routes(self.context))
        self.table.extend(notify.routes(self.context))
        self.policy: TrustPolicy = NO_PROXY
        self._readings: dict[Any, Reading] = {}
        self._repeats: dict[Any, Repeat] = {}

    def reading(self, raw: dict[bytes, bytes], client: Client) -> Reading:
        """One reading for all requests with the same lines of the same client, as the edge keeps it."""
        return self._readings.setdefault((client, tuple(raw.items())), Reading(Fields(raw, None, 1), client))

    def _repeat(self, request: HotRequest, route: HotRoute) -> Repeat:
        """What is remembered of the very same request."""
        lines = tuple(request.headers.items())
        key = (request.client, request.method, request.path, request.query_bytes, request.body, lines)
        fresh = Repeat(route, request.reading, request.body, "", False, None)
        return self._repeats.setdefault(key, fresh)

    async def stop(self) -> None:
        """End what runs in the background."""
        await self.many_refused.stop()
        await self.visitor.streams.stop()

    async def create(self, room: str = "shop", **config: Any) -> None:
        """Make a room that lets ten people in at once unless ``config`` says otherwise."""
        await self.house.create(room, **{"rate_per_minute": 600, "max_concurrent": 10, **config})
        await self.rooms.refresh(RoomId(room))

    async def update(self, room: str = "shop", **changes: Any) -> None:
        """Change a room behind the back of this process's copy."""
        await self.house.admin.update(RoomId(room), changes, actor="test")

    async def advance(self, seconds: float, room: str = "shop") -> None:
        """Let time pass for this room alone."""

        def later(header: dict[str, Any]) -> None:
            for name in ("offset", "mono", "last_time"):
                header[name] += seconds * 1000

        await change_header(self.house.valkey, RoomKeys(self.house.prefix, room).header, later)

    async def delete(self, room: str = "shop") -> None:
        """End a room behind the back of this process's copy."""
        await self.house.admin.delete(RoomId(room), actor="test")

    async def recreate(self, room: str = "shop", gen: int = 2, **config: Any) -> None:
        """Make a deleted room again once its last facts are stored; this process's copy stays that of the old one."""
        made = RoomConfig(RoomId(room), room, "https://shop.example/", **config)

        async def is_made() -> bool:
            try:
                write = await self.house.admin.create(made, gen=gen, salt=b"t" * 16, actor="test")
            except StorageUnavailable:
                return False
            return write.code is WriteCode.CREATED

        await until(is_made)

    async def serve(self, request: HotRequest) -> Answer:
        """The answer of a hot route, as the edge would make it."""
        handler = self.table.find(request.method, request.path.encode())
        assert handler is not None, f"no hot route {request.method} {request.path}"
        if request.client.note:
            self.visitor.undeclared.saw(request.client)
        route = self.table.route(f"{request.method} {request.path} HTTP/1.1".encode())
        assert route is not None
        if route.recurs and request.inline is None:
            request.repeat = self._repeat(request, route)
        try:
            reply = await _begun(request, route.begin) or await handler(request)
        except QmError as error:
            reply = error_reply(error, request.headers, request_id=request.request_id, path=request.path, page=None)
        return Answer(reply, request)


async def _begun(request: HotRequest, begin: HotBeginning | None) -> HotReply | None:
    """The reply by the way without a coroutine; None = it is not for this request, or has handed it back."""
    run = _Run(asyncio.get_running_loop().create_future())
    if begin is None or not begin(request, run):
        return None
    return await run.reply


class _Run:
    """What the edge has for a request without a coroutine."""

    def __init__(self, reply: asyncio.Future[HotReply | None]) -> None:
        self.reply = reply

    def told(self, reply: HotReply | None, error: BaseException | None) -> None:
        if error is None:
            self.reply.set_result(reply)
        else:
            self.reply.set_exception(error)

    def again(self) -> None:
        self.reply.set_result(None)


@dataclass
class Answer:
    """What came back."""

    reply: HotReply
    request: HotRequest

    @property
    def status(self) -> int:
        return self.reply.status

    @property
    def json(self) -> dict[str, Any]:
        body = json.loads(self.reply.body)
        assert isinstance(body, dict)
        return body

    @property
    def code(self) -> str | None:
        return self.json.get("code")

    @property
    def cookies(self) -> list[str]:
        return [value.decode() for value in self.reply.cookies]

    @property
    def headers(self) -> dict[str, str]:
        block = [line.partition(b": ")[::2] for line in self.reply.block.split(b"\r\n") if line]
        return {name.decode().lower(): value.decode() for name, value in [*self.reply.headers, *block]}


@dataclass
class Browser:
    """One browser. ``peer`` is the address its packets come from."""

    site: Site
    peer: str = "198.51.100.7"
    agent: str = AGENT
    headers: dict[str, str] = field(default_factory=dict)
    jar: dict[str, str] = field(default_factory=dict)
    scheme: str = "http"

    def client(self, headers: Mapping[bytes, bytes]) -> Client:
        """Who this request comes from, by the rules of the site."""
        return resolve_client(self.peer, headers.get, self.site.policy, tls=self.scheme == "https")

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        cookies: bool = True,
    ) -> HotRequest:
        """The request as the edge hands it to a handler. ``cookies`` False: a cross-site call without Lax cookies."""
        sent = {"host": HOST, "user-agent": self.agent, **self.headers, **(headers or {})}
        if cookies and self.jar and "cookie" not in sent:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        raw = {name.lower().encode(): value.encode("latin-1") for name, value in sent.items() if value is not None}
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        bare, _, query = path.partition("?")
        reading = self.site.reading(raw, self.client(raw))
        return HotRequest(method, bare, query.encode(), reading, data, "REQUEST")

    async def send(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """Send a request and keep the cookies of the answer."""
        answer = await self.site.serve(self.request(method, path, body, **options))
        if options.get("cookies", True):
            for cookie in answer.cookies:
                name, _, rest = cookie.partition("=")
                value = rest.partition(";")[0]
                if "Max-Age=0" in cookie:
                    self.jar.pop(name, None)
                else:
                    self.jar[name] = value
        return answer

    async def join(self, room: str = "shop", **fields: Any) -> Answer:
        """``POST /api/join``."""
        return await self.send("POST", "/api/join", {"roomId": room, **fields})

    async def status(self, room: str = "shop", **query: str) -> Answer:
        """``GET /api/status``."""
        return await self.send("GET", f"/api/status?room={room}" + _query(query))

    async def released(self, room: str = "shop") -> dict[str, Any]:
        """Join and let the line move until this browser has its pass; the state that says so."""
        await self.join(room)
        last: dict[str, Any] = {}

        async def is_passed() -> bool:
            await self.site.house.jobs.tick(RoomId(room))
            last.update((await self.status(room)).json)
            return last["state"] == "passed"

        await until(is_passed)
        return last

    async def check(self, room: str = "shop", **query: str) -> Answer:
        """``GET /api/check`` with this browser's cookies."""
        return await self.send("GET", f"/api/check?room={room}" + _query(query))

    async def tag_check(self, room: str = "shop", *, origin: str = "https://shop.example", **fields: Any) -> Answer:
        """The check of the tag: cross-site, so no ``SameSite=Lax`` cookie comes with it."""
        headers = {"origin": origin, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
        return await self.send(
            "POST", f"/api/check?room={room}", {"tag": "1.4.0", **fields}, headers=headers, cookies=False
        )

    def twin(self, **changes: Any) -> Browser:
        """Another browser with the same looks and an empty cookie jar."""
        return replace(self, jar={}, **changes)


def _query(parts: Mapping[str, str]) -> str:
    return "".join(f"&{name}={quote(value, safe='')}" for name, value in parts.items())
