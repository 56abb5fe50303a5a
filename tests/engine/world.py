"""A room on a real Valkey, its clock under the test's control, and browsers that come to it."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from typing import Any

from app.core.ids import RoomId
from app.domain.facts import Element, FactBody, split_element
from app.domain.fingerprint import Digester
from app.domain.layout import DoorRecord, TicketRecord, pack_header, unpack_header
from app.domain.net_ranges import pack_address
from app.domain.room import Room, RoomConfig
from app.infrastructure.engine import Engine
from app.infrastructure.engine_admin import EngineAdmin, RoomWrite
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_results import (
    CheckAnswer,
    CheckItem,
    JoinAnswer,
    JoinItem,
    LeaveAnswer,
    Presented,
    Proof,
    RoomFigures,
    TickAnswer,
    Via,
    VisitorView,
)
from app.infrastructure.keys import RoomKeys, chunk_of
from app.infrastructure.lua_bundle import LuaBundle
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.valkey import Valkey
from app.services.draws import draw_room

ROOM = RoomId("shop")
_names = itertools.count(1)


def digest(text: str, size: int = 16) -> bytes:
    """Some digest; real ones are salted, which the engine never sees."""
    return hashlib.sha256(text.encode()).digest()[:size]


@dataclass
class Browser:
    """One visitor's browser. What it would present: its token, ``qms_`` cookie, network, door key."""

    name: str = field(default_factory=lambda: f"browser-{next(_names)}")
    address: str | None = None
    """Whose places are counted together; a name, or an IPv6 address as such (``2001:db8::1``)."""
    ticket: int = 0
    gen: int = 1
    cookies: list[str] = field(default_factory=list)
    doors: list[str] = field(default_factory=list)
    network: str | None = None
    loose: bool = False
    refused: bool = False
    seen_from: str | None = None
    """Network by which a connector saw him, handed over with the join."""
    is_crowded: bool = False
    """He brings values of others besides his own."""
    alike: bool = False
    """He cannot be told apart by his address."""
    handle: bytes = b""
    """Of its place in the pre-queue; presented while it has no ticket."""

    def place(self) -> tuple[bytes, int]:
        """What his places are counted by."""
        packed = pack_address(self.address) if self.address and ":" in self.address else None
        return (digest("addr" + (self.address or self.name), 8), 0) if packed is None else _DIGESTER.place(packed)

    def proof(self) -> Proof:
        presented = Presented.REFUSED if self.refused else Presented.VALID if self.ticket else Presented.NONE
        if self.handle and not self.ticket and not self.refused:
            presented = Presented.HANDLE
        valid = presented >= Presented.VALID
        network = self.network or self.name
        return Proof(
            presented,
            self.gen if valid else 0,
            self.ticket if valid else 0,
            b"".join(digest("cookie" + c) for c in self.cookies),
            digest("strict" + network),
            digest("loose" + network),
            b"".join(digest("door" + d) for d in self.doors),
            self.handle if presented is Presented.HANDLE else b"",
            self.loose,
            may_bind=not self.is_crowded,
        )


_DIGESTER = Digester(b"s" * 16)


class World:
    """One room and the calls on it."""

    def __init__(
        self, valkey: Valkey, prefix: str, *, line_max: int = 1_000_000, bundle: LuaBundle | None = None
    ) -> None:
        """``bundle``: the function library of another release."""
        self.valkey, self.prefix = valkey, prefix
        self.loader = LuaLoader(valkey, bundle)
        self.engine = Engine(valkey, prefix, self.loader, line_max=line_max)
        self.admin = EngineAdmin(valkey, prefix, self.loader)
        self.jobs = EngineJobs(prefix, self.loader)
        self.keys = RoomKeys(prefix, ROOM)
        self.room: Room
        self.mono = 0.0

    async def create(self, gen: int = 1, **fields: Any) -> RoomWrite:
        config = RoomConfig(ROOM, "Shop", "https://shop.example/", **fields)
        write = await self.admin.create(config, gen=gen, salt=b"s" * 16, actor="op")
        self.mono = 0.0
        await self.reload()
        return write

    async def reload(self) -> None:
        room = await self.admin.read(ROOM)
        assert room is not None
        self.room = room

    async def update(self, **changes: Any) -> RoomWrite:
        write = await self.admin.update(ROOM, changes, actor="op")
        await self.reload()
        return write

    async def join(self, browser: Browser) -> JoinAnswer:
        """Join; the browser keeps what it is given, as after a commit."""
        fresh = f"{browser.name}/{next(_names)}"
        address, net = browser.place()
        item = JoinItem(
            browser.proof(),
            digest("cookie" + fresh),
            address,
            digest("ip" + browser.name),
            net,
            digest("loose" + browser.seen_from) if browser.seen_from else b"",
        )
        answer = await self.engine.join(self.room, item)
        if answer.view is not None and answer.view.handle:
            browser.handle, browser.gen, browser.refused = answer.view.handle, answer.generation, False
            if answer.code == 1:
                browser.cookies, browser.ticket = [fresh], 0
        if answer.view is not None and answer.view.ticket:
            browser.ticket, browser.gen, browser.refused = answer.view.ticket, answer.generation, False
            if answer.code == 1:
                browser.cookies = [fresh]
        return answer

    async def joined(self, count: int = 1, **fields: Any) -> list[Browser]:
        """``count`` browsers that have joined, in order."""
        browsers = [Browser(**fields) for _ in range(count)]
        for browser in browsers:
            await self.join(browser)
        return browsers

    async def status(self, browser: Browser, *, told: bool = True, seen: bool = True) -> VisitorView:
        return await self.engine.status(self.room, browser.proof(), told=told, seen=seen, bind=seen)

    async def check(self, browser: Browser, *, covered: bool = True, via: Via = Via.DIRECT) -> CheckAnswer:
        """Check a page; the browser keeps the door key when it is admitted."""
        key = f"{browser.name}/key/{next(_names)}"
        came = browser.place()[0] + digest("loose" + (browser.network or browser.name), 8)
        item = CheckItem(browser.proof(), covered, digest("door" + key), via, came, browser.alike)
        answer = await self.engine.check(self.room, item)
        if answer.verdict == 4:
            browser.doors = [key]
        return answer

    async def leave(self, browser: Browser) -> LeaveAnswer:
        return await self.engine.leave(self.room, browser.proof())

    async def tick(self, seconds: float = 0) -> TickAnswer:
        """Ticks once a second while ``seconds`` pass, then once; the last answer with the sums of all."""
        promoted = skipped = expired = 0
        left = seconds
        while True:
            step = min(1.0, left)
            if step > 0:
                await self.advance(step)
            answer = await self.jobs.tick(ROOM, await self.now())
            promoted, skipped = promoted + answer.promoted, skipped + answer.skipped
            expired += answer.expired
            left -= step
            if left <= 0 and not answer.again:
                return TickAnswer(promoted, skipped, expired, answer.again, answer.seq, answer.phase, answer.opens_at)

    async def advance(self, seconds: float) -> None:
        """Let time pass for this room alone. What the test itself took since the last call is not counted."""
        before = self.mono
        self.mono += seconds * 1000
        header = unpack_header(await self.valkey.execute("GET", self.keys.header))
        now, micros = await self.valkey.execute("TIME")
        header["offset"] += seconds * 1000
        header["mono"] = self.mono
        header["last_time"] = int(now) * 1000 + int(micros) // 1000 + header["offset"]
        header["t0"] = header["last_time"] - self.mono  # and is no step of a clock
        if header["last_tick"] > self.mono:  # the calls of a slow machine took longer than what passes now
            header["last_tick"] = before
        await self.valkey.execute("SET", self.keys.header, pack_header(header))

    async def now(self) -> int:
        """Wall ms by the store's clock, which the test moves."""
        header = unpack_header(await self.valkey.execute("GET", self.keys.header))
        now, micros = await self.valkey.execute("TIME")
        return int(int(now) * 1000 + int(micros) // 1000 + header["offset"])

    async def open_doors(self) -> None:
        """Tick past the opening, draw, and acknowledge: everybody in the pre-queue knows his number."""
        await self.tick()
        assert await draw_room(self.jobs, ROOM) is not None
        await self.commit()

    async def header(self) -> dict[str, Any]:
        header = await self.jobs.header(ROOM)
        assert header is not None
        return header

    async def figures(self) -> RoomFigures:
        found = (await self.admin.figures([ROOM]))[ROOM]
        assert found is not None
        return found

    async def elements(self) -> list[Element]:
        return [split_element(data) for data in await self.valkey.execute("LRANGE", self.keys.outbox, 0, -1)]

    async def facts(self, kind: type[FactBody] | None = None) -> list[Any]:
        """Facts that are not acknowledged yet."""
        decoded = [element.decode() for element in await self.elements()]
        return [fact for fact in decoded if kind is None or isinstance(fact, kind)]

    async def ticket(self, n: int) -> TicketRecord:
        at = (n - 1) % 1024 * 72
        key = self.keys.tickets(self.room.generation, chunk_of(n))
        return TicketRecord.unpack(await self.valkey.execute("GETRANGE", key, at, at + 71))

    async def door(self, n: int) -> DoorRecord:
        at = (n - 1) % 1024 * 48
        key = self.keys.doors(self.room.generation, chunk_of(n))
        return DoorRecord.unpack(await self.valkey.execute("GETRANGE", key, at, at + 47))

    async def commit(self) -> None:
        """Acknowledge every fact, as after a commit."""
        await self.jobs.drain_next(ROOM, (await self.header())["seq"], 0)
