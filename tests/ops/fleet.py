"""Two instances on shared stores, each with ways to them of its own that can be cut."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import httpx
from redis import Redis

from app.core.ids import RoomId
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.valkey import Valkey
from tests.harness import Server
from tests.ops.cut import Cut

SOCKET = ".s.PGSQL.5432"
SECRET = secrets.token_hex(32)


@dataclass
class Instance:
    """A server and its ways to the stores."""

    server: Server
    postgres: Cut
    valkey: Cut

    @property
    def key(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.server.admin_key}"}

    def healthz(self) -> httpx.Response:
        return httpx.get(self.server.url + "/healthz", timeout=10)

    def health(self) -> dict[str, Any]:
        """The full answer."""
        answer = httpx.get(self.server.url + "/api/admin/health", headers=self.key, timeout=10)
        assert answer.status_code == 200
        return dict(answer.json())

    def make_room(self, room: str, **fields: Any) -> None:
        body = {"id": room, "targetUrl": "https://shop.example", **fields}
        answer = httpx.post(self.server.url + "/api/admin/rooms", headers=self.key, json=body, timeout=10)
        assert answer.status_code == 200, answer.text

    def remove_room(self, room: str) -> None:
        answer = httpx.delete(f"{self.server.url}/api/admin/rooms/{room}", headers=self.key, timeout=10)
        assert answer.status_code == 200, answer.text

    def join(self, room: str) -> httpx.Response:
        return httpx.post(self.server.url + "/api/join", json={"roomId": room}, timeout=10)


@dataclass
class Pair:
    """Two instances, and the Valkey behind both."""

    first: Instance
    second: Instance
    redis: Redis
    prefix: str
    valkey_url: str

    def both(self) -> tuple[Instance, Instance]:
        return self.first, self.second

    def change(self, room: str, **values: Any) -> None:
        """Change a room behind the back of both: no process is told."""

        async def change() -> None:
            valkey = Valkey(self.valkey_url)
            try:
                await EngineAdmin(valkey, self.prefix, LuaLoader(valkey)).update(RoomId(room), values, actor="op")
            finally:
                await valkey.close()

        asyncio.run(change())

    def lose(self, room: str) -> None:
        """The live store forgets a room."""
        names = list(self.redis.scan_iter(match=f"{self.prefix}{{{room}}}*", count=1000))
        self.redis.unlink(*names)


@contextmanager
def pair(valkey_url: str, database_url: str, **env: str | None) -> Iterator[Pair]:
    """Both instances, started at once. ``env``: of both."""
    prefix, schema = f"t{secrets.token_hex(4)}:", f"t_{secrets.token_hex(4)}"
    asyncio.run(_statement(database_url, f"CREATE SCHEMA {schema}"))
    host = parse_qs(urlsplit(database_url).query)["host"][0]
    with ExitStack() as held:
        redis = held.enter_context(Redis.from_url(valkey_url))
        held.callback(asyncio.run, _statement(database_url, f"DROP SCHEMA {schema} CASCADE"))
        made = []
        for name in ("first", "second"):
            postgres = held.enter_context(Cut(f"{host}/{SOCKET}", SOCKET))
            valkey = held.enter_context(Cut(valkey_url.removeprefix("unix://"), "valkey.sock"))
            given: dict[str, str | None] = {
                "STORE": "valkey",
                "VALKEY_URL": f"unix://{valkey.path}",
                "VALKEY_PREFIX": prefix,
                "DATABASE_URL": f"{database_url.replace(host, postgres.folder)}&search_path={schema}",
                "QM_INSTANCE_ID": name,
                "SECRET": SECRET,
                "ALERT_EVERY_MS": "1000",
                **env,
            }
            server = Server(env=given, workers=1)
            server.start(wait=False)
            held.enter_context(_ending(server))
            made.append(Instance(server, postgres, valkey))
        for one in made:
            one.server.await_listening()
        found = Pair(made[0], made[1], redis, prefix, valkey_url)
        try:
            yield found
        finally:
            for one in made:
                one.postgres.mend()
                one.valkey.mend()
                if one.server.process is not None and one.server.process.poll() is None:
                    one.server.kill(signal.SIGTERM)
            names = list(redis.scan_iter(match=prefix + "*", count=1000))
            if names:
                redis.unlink(*names)


@contextmanager
def _ending(server: Server) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        server.__exit__(type(error), error, None)
        raise
    server.__exit__(None, None, None)


async def _statement(database_url: str, sql: str) -> None:
    link = await asyncpg.connect(database_url)
    try:
        await link.execute(sql)
    finally:
        await link.close()
