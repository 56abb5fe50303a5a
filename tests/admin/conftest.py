"""One process's services over real stores, with a drainer beside them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from app.infrastructure.drain import Drainer
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_lookup import EngineLookup
from app.infrastructure.journal import Journal
from app.infrastructure.keys import ack_channel, poke_channel
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.migrate import migrate
from app.infrastructure.postgres import Postgres
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.valkey import Listener, Valkey
from app.services.commit import CommitWaiter
from app.services.line import LineService
from app.services.rooms import RoomService
from app.services.tickets import TicketLookup
from tests.admin.callers import TARGET, Caller, Callers, fresh_id
from tests.admin.desk import Desk
from tests.harness import Server
from workers.drainer import RoomList


class Process:
    """What one web worker has, as far as rooms are concerned."""

    def __init__(self, valkey: Valkey, postgres: Postgres, prefix: str) -> None:
        self.valkey = valkey
        self.prefix = prefix
        loader = LuaLoader(valkey)
        self.engine = EngineAdmin(valkey, prefix, loader)
        self.jobs = EngineJobs(prefix, loader)
        self.rooms = RoomDirectory(postgres=postgres, live=self.engine, valkey=valkey, prefix=prefix, resync_ms=500)
        self.commits = CommitWaiter(valkey=valkey, prefix=prefix, jobs=self.jobs)
        self.service = RoomService(engine=self.engine, rooms=self.rooms, commits=self.commits)
        self.line = LineService(
            service=self.service,
            engine=self.engine,
            rooms=self.rooms,
            commits=self.commits,
            tickets=TicketLookup(rooms=self.rooms, engine=EngineLookup(prefix, loader)),
        )

    async def start(self) -> Process:
        await self.commits.start()
        await self.rooms.start()
        return self

    async def stop(self) -> None:
        await self.rooms.stop()
        await self.commits.stop()

    async def make(self, room_id: str = "shop", **fields: Any) -> dict[str, Any]:
        """A room; the names of the fields that were changed."""
        body = {"id": room_id, "targetUrl": "https://shop.example", **fields}
        saved = await self.service.upsert(body, actor="ADMIN_KEY")
        return {"created": saved.created, "changed": saved.changed}


async def _nothing() -> None:
    return


class House:
    """A deployment: stores, a drainer that can be stopped, any number of processes."""

    def __init__(self, valkey: Valkey, postgres: Postgres, prefix: str) -> None:
        self.valkey = valkey
        self.postgres = postgres
        self.prefix = prefix
        self.processes: list[Process] = []
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._pokes: Listener | None = None

    async def process(self) -> Process:
        """A further process."""
        self.processes.append(Process(self.valkey, self.postgres, self.prefix))
        return await self.processes[-1].start()

    async def start_drainer(self) -> None:
        """Let facts reach the journal."""
        journal = Journal(self.postgres)
        self._stop = asyncio.Event()
        drainer = Drainer(
            outboxes=EngineJobs(self.prefix, LuaLoader(self.valkey)),
            journal=journal,
            publish=lambda text: self.valkey.execute("PUBLISH", ack_channel(self.prefix), text),
            ask_rebuild=_ask_nobody,
            rooms=RoomList(self.valkey, self.prefix, journal).read,
        )
        self._pokes = self.valkey.listen(
            {poke_channel(self.prefix): lambda room: drainer.poke(room.decode())}, on_resync=_nothing
        )
        await self._pokes.start()
        self._task = asyncio.create_task(drainer.run(self._stop))

    async def stop_drainer(self) -> None:
        """Nothing reaches the journal from now on."""
        self._stop.set()
        if self._task is not None:
            await self._task
        if self._pokes is not None:
            await self._pokes.stop()
        self._task = self._pokes = None

    async def journal(self, room_id: str = "shop") -> list[tuple[int, int]]:
        """(generation, type) of every fact of a room that is in the journal."""
        rows = await self.postgres.fetch("SELECT gen, type FROM events WHERE room = $1 ORDER BY gen, seq", room_id)
        return [(row["gen"], row["type"]) for row in rows]


async def _ask_nobody(room_id: str) -> None:
    return


@pytest.fixture
async def house(valkey_url: str, fresh_prefix: str, fresh_schema: str) -> AsyncIterator[House]:
    """A deployment whose drainer runs."""
    postgres = Postgres(fresh_schema, max_size=4)
    await migrate(postgres)
    valkey = await Valkey.connect(valkey_url, timeout_ms=2000)
    house = House(valkey, postgres, fresh_prefix)
    await house.start_drainer()
    yield house
    for process in house.processes:
        await process.stop()
    await house.stop_drainer()
    await valkey.close()
    await postgres.close()


@pytest.fixture
async def process(house: House) -> Process:
    """A process of that deployment."""
    return await house.process()


@pytest.fixture(scope="session")
def access_schema(database_url: str) -> str:
    """Database address with this build's schema, for tests that leave alone what others made in it."""
    address = f"{database_url}&search_path=t_{secrets.token_hex(4)}"

    async def make() -> None:
        postgres = Postgres(address)
        await migrate(postgres)
        await postgres.close()

    asyncio.run(make())
    return address


@pytest.fixture
def limiter() -> Iterator[RateLimiter]:
    table = RateLimiter.create("test", workers=1, max_keys=1000)
    yield RateLimiter.attach(table.name, 0)
    table.close()


@pytest.fixture
async def desk(valkey_url: str, access_schema: str, fresh_prefix: str, limiter: RateLimiter) -> AsyncIterator[Desk]:
    valkey = await Valkey.connect(valkey_url, timeout_ms=2000)
    postgres = Postgres(access_schema, max_size=3)
    yield Desk(valkey, postgres, fresh_prefix, limiter)
    await postgres.close()
    await valkey.close()


@pytest.fixture
async def cut_off(desk: Desk) -> AsyncIterator[Desk]:
    """A desk whose Valkey cannot be reached."""
    valkey = Valkey("unix:///nonexistent/valkey.sock", timeout_ms=200)
    yield desk.another(valkey=valkey)
    await valkey.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server of two workers behind a declared proxy, so that each caller may come from an address of its own."""
    env: dict[str, str | None] = {
        "ADMIN_AUTH_FAIL_PER_MIN": "20",
        "TRUST_PROXY": "1",
        "TRUST_PROXY_IPS": "127.0.0.1",
        "PUBLIC_API_KEY": "public-key-of-this-deployment",
    }
    with Server(env=env, workers=2) as server:
        yield server


@pytest.fixture
def browser(callers: Callers) -> Caller:
    """The console's page after signing in."""
    return callers.signed_in()


@pytest.fixture
def room(owner: Caller) -> Iterator[str]:
    """A room of this test's own."""
    room_id = fresh_id()
    assert owner("POST", "/api/admin/rooms", {"id": room_id, "targetUrl": TARGET}).status_code == 200
    yield room_id
    owner("DELETE", f"/api/admin/rooms/{room_id}")
