"""Everything between a visitor and the journal, in one process: engine, drainer, waiter, recovery."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from app.core.clock import mono
from app.core.ids import RoomId
from app.domain.fingerprint import Digester
from app.domain.layout import CHUNK, DOOR_BYTES, TICKET_BYTES, DoorRecord, TicketRecord
from app.domain.net_ranges import pack_address
from app.domain.room import Room, RoomConfig
from app.infrastructure.drain import Drainer
from app.infrastructure.engine import Engine
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_auto import EngineAuto
from app.infrastructure.engine_jobs import EngineJobs, Pulled
from app.infrastructure.engine_results import CheckItem, JoinAnswer, JoinItem, Presented, Proof, Via
from app.infrastructure.journal import Batch, Journal
from app.infrastructure.keys import RoomKeys, ack_channel, control_channel, poke_channel, rooms_key
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.postgres import Postgres
from app.infrastructure.rebuild import Rebuilder
from app.infrastructure.valkey import Valkey
from app.services.commit import CommitWaiter
from app.services.recovery import Recovery

SALT = bytes(range(16))
_DIGESTER = Digester(SALT)


def digest(*parts: object) -> bytes:
    """16 bytes that stand for a digest."""
    return hashlib.sha256(repr(parts).encode()).digest()[:16]


def newcomer(who: object, *, address: object = None) -> JoinItem:
    """Join of somebody without a token. ``address``: whose places are counted together."""
    packed = pack_address(address) if isinstance(address, str) and ":" in address else None
    place, net = (
        (digest("address", who if address is None else address)[:8], 0) if packed is None else _DIGESTER.place(packed)
    )
    strict, loose = digest("strict", who), digest("loose", who)
    return JoinItem(
        Proof(Presented.NONE, 0, 0, b"", strict, loose), digest("cookie", who), place, digest("ip", who), net
    )


def holder(who: object, ticket: int, gen: int = 1, doors: bytes = b"") -> Proof:
    """Proof of the visitor who joined as ``newcomer(who)``."""
    strict = digest("strict", who)
    return Proof(Presented.VALID, gen, ticket, digest("cookie", who), strict, digest("loose", who), doors)


def door_of(who: object) -> bytes:
    """Digest of the door key that ``who`` gets."""
    return digest("door", who)


def entry(who: object, ticket: int) -> CheckItem:
    """Check of a page by the holder of ``ticket``."""
    return CheckItem(holder(who, ticket), True, door_of(who), Via.DIRECT)


class House:
    """One instance without its web server. ``async with House(...)``; the drainer runs when asked for."""

    def __init__(self, valkey_url: str, database_url: str, prefix: str, *, valkey: Valkey | None = None) -> None:
        self.prefix = prefix
        self.valkey = valkey or Valkey(valkey_url)
        self.postgres = Postgres(database_url, max_size=4)
        self.journal = Journal(self.postgres)
        loader = LuaLoader(self.valkey)
        self.jobs = EngineJobs(prefix, loader)
        self.engine = Engine(self.valkey, prefix, loader)
        self.admin = EngineAdmin(self.valkey, prefix, loader)
        self.auto = EngineAuto(prefix, loader, instance="i:house")
        self.commits = CommitWaiter(valkey=self.valkey, prefix=prefix, jobs=self.jobs)
        self.recovery = self.make_recovery()
        self.rooms: dict[str, Room] = {}
        self._stop = asyncio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> House:
        await self.commits.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await self._stack.aclose()
        await self.commits.stop()
        await self.postgres.close()
        await self.valkey.close()

    async def tamper(self, sql: str, *args: Any) -> None:
        """Change the journal as nobody may: with its triggers taken away for that moment (ADM-300)."""
        async with self.postgres.acquire() as link, link.transaction():
            await link.execute("ALTER TABLE events DISABLE TRIGGER USER")
            await link.execute(sql, *args)
            await link.execute("ALTER TABLE events ENABLE TRIGGER USER")

    async def create(self, room: str, **config: Any) -> Room:
        """Make a room and keep the copy; by default nobody is let in, so that the line stands still."""
        target = "https://shop.example/"
        fields = {"target_url": target, "rate_per_minute": 0, "queue_max_per_ip": None, **config}
        made = RoomConfig(RoomId(room), room, **fields)
        await self.admin.create(made, gen=1, salt=SALT, actor="test")
        return await self.read(room)

    async def read(self, room: str) -> Room:
        """The room as the live store has it."""
        copy = await self.admin.read(RoomId(room))
        assert copy is not None
        self.rooms[room] = copy
        return copy

    async def join(self, room: str, who: object, **more: Any) -> JoinAnswer:
        """Join, not waiting for the commit."""
        return await self.engine.join(self.rooms[room], newcomer(who, **more))

    async def join_committed(self, room: str, who: object) -> JoinAnswer | None:
        """Join and wait for the commit; None when it did not come."""
        answer = await self.join(room, who)
        return answer if await self.commits.wait(RoomId(room), answer.generation, answer.seq) else None

    def make_drainer(self, journal: Journal | None = None) -> Drainer:
        """A drainer of this instance's stores that is not running."""
        return Drainer(
            outboxes=self.jobs,
            journal=journal or self.journal,
            publish=lambda text: self.valkey.execute("PUBLISH", ack_channel(self.prefix), text),
            ask_rebuild=lambda room: self.valkey.execute("PUBLISH", control_channel(self.prefix), f"rebuild {room}"),
            rooms=self.live_rooms,
        )

    async def start_drainer(self, journal: Journal | None = None) -> Drainer:
        """Run a drainer until the end of the house."""
        drainer = self.make_drainer(journal)

        async def resync() -> None:
            drainer.sweep_soon()

        handlers: dict[str, Callable[[bytes], None]] = {
            poke_channel(self.prefix): lambda room: drainer.poke(room.decode())
        }
        await self._stack.enter_async_context(self.valkey.listen(handlers, on_resync=resync))
        task = asyncio.ensure_future(drainer.run(self._stop))
        self._stack.push_async_callback(asyncio.wait_for, task, 15)
        return drainer

    async def drain(self, room: str) -> None:
        """Store everything that is in the outbox of a room, without a drainer."""
        committed = 0
        while (pulled := await self.jobs.drain_next(RoomId(room), committed, 5000)).elements:
            (answer,) = await self.journal.append([batch_of(room, pulled)])
            committed = answer.committed

    async def live_rooms(self) -> list[RoomId]:
        """Ids of the rooms in the live store."""
        return [RoomId(name.decode()) for name in await self.valkey.execute("SMEMBERS", rooms_key(self.prefix))]

    async def lose_everything(self) -> None:
        """Take every key of this instance out of the live store."""
        cursor: Any = 0
        while True:
            cursor, names = await self.valkey.execute("SCAN", cursor, "MATCH", self.prefix + "*", "COUNT", 1000)
            if names:
                await self.valkey.execute("UNLINK", *names)
            if int(cursor) == 0:
                return

    def make_recovery(self, resync_sec: float = 0.2) -> Recovery:
        """A recovery that is not running."""

        async def now_ms() -> int:
            seconds, micros = await self.valkey.execute("TIME")
            return int(seconds) * 1000 + int(micros) // 1000

        async def announce(room: RoomId) -> None:
            await self.valkey.execute("SADD", rooms_key(self.prefix), room)

        return Recovery(
            journal=self.journal,
            live=self.jobs,
            rebuilder=Rebuilder(postgres=self.postgres, live=self.jobs, now_ms=now_ms),
            known=self.live_rooms,
            publish=lambda text: self.valkey.execute("PUBLISH", ack_channel(self.prefix), text),
            announce=announce,
            resync_sec=resync_sec,
        )

    async def tickets(self, room: str, gen: int = 1) -> list[TicketRecord]:
        """Every ticket record of a room as the live store has it."""
        header = await self.jobs.header(RoomId(room))
        assert header is not None
        data = b""
        for chunk in range((header["last_ticket"] + CHUNK - 1) // CHUNK):
            data += await self.valkey.execute("GET", RoomKeys(self.prefix, room).tickets(gen, chunk))
        used = data[: header["last_ticket"] * TICKET_BYTES]
        return [TicketRecord.unpack(used[at : at + TICKET_BYTES]) for at in range(0, len(used), TICKET_BYTES)]

    async def doors(self, room: str, count: int, gen: int = 1) -> list[DoorRecord]:
        """The first door records of a room as the live store has them."""
        data = await self.valkey.execute("GET", RoomKeys(self.prefix, room).doors(gen, 0))
        return [DoorRecord.unpack(data[at : at + DOOR_BYTES]) for at in range(0, count * DOOR_BYTES, DOOR_BYTES)]

    async def journaled(self, room: str, kind: int) -> list[bytes]:
        """Bodies of a room's facts of one type, in order."""
        rows = await self.postgres.fetch(
            "SELECT body FROM events WHERE room = $1 AND type = $2 ORDER BY gen, seq", room, kind
        )
        return [row["body"] for row in rows]


def batch_of(room: str, pulled: Pulled) -> Batch:
    """What was pulled of a room, as the journal takes it."""
    return Batch(RoomId(room), pulled.gen, pulled.epoch, pulled.base, pulled.elements)


async def until(condition: Callable[[], Awaitable[bool]], *, sec: float = 10.0) -> None:
    """Ask until it is true; AssertionError after ``sec``."""
    end = mono() + sec
    while not await condition():
        assert mono() < end, "it did not become true in time"
        await asyncio.sleep(0.02)


def ticket_numbers(bodies: Sequence[bytes]) -> list[int]:
    """Ticket numbers of journaled joins."""
    return [int.from_bytes(body[:4], "little") for body in bodies]
