"""The list of rooms of a process: at its start while a store is away, and while rooms come and are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from app.core.ids import RoomId
from app.domain.inline.hosts import index_of
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.postgres import Postgres
from app.infrastructure.queries import QUERIES
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.valkey import Valkey
from tests.journal.house import House

NOWHERE = "postgresql:///x?host=/nonexistent"


def directory(valkey: Valkey, postgres: Postgres, prefix: str) -> RoomDirectory:
    live = EngineAdmin(valkey, prefix, LuaLoader(valkey))
    return RoomDirectory(postgres=postgres, live=live, valkey=valkey, prefix=prefix, resync_ms=5000)


@pytest.mark.req("FLT-075", "INL-193", "ENG-279")
async def test_it_knows_every_room_from_postgres_before_the_first_request(house: House) -> None:
    """``onBackendDown`` is obeyed from then on; a deleted room is none, and Valkey's word replaces it later."""
    for room, value in (("strict", "closed"), ("loose", "open"), ("gone", "closed")):
        inline = {"target_url": f"http://{room}.test/", "proxy_origin": "http://203.0.113.7"}
        await house.create(room, **inline, on_backend_down=value)
        await house.drain(room)
    await house.admin.delete(RoomId("gone"), actor="ann")
    await house.drain("gone")
    await house.admin.update(RoomId("loose"), {"name": "Not stored yet"}, actor="ann")
    away = Valkey("unix:///nonexistent.sock", timeout_ms=200)
    rooms = directory(away, house.postgres, house.prefix)

    await rooms.start()

    assert not away.ever_connected
    assert {host: one.first.config.on_backend_down for host, one in index_of(rooms.all()).hosts.items()} == {
        "strict.test": "closed", "loose.test": "open",
    }  # fmt: skip
    await rooms.stop()
    await away.close()
    back = directory(house.valkey, house.postgres, house.prefix)
    await back.start()
    copy = await back.reload(RoomId("loose"))
    assert copy is not None
    assert copy.config.name == "Not stored yet"
    await back.stop()


@pytest.mark.req("FLT-076", "INL-195")
async def test_it_tries_for_the_list_after_a_second_and_then_ever_later(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = directory(house.valkey, house.postgres, house.prefix)
    pauses: list[float] = []
    tries = 0

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 8:
            raise asyncio.CancelledError

    async def look() -> None:
        nonlocal tries
        tries += 1

    monkeypatch.setattr(rooms, "_try_resync", look)
    monkeypatch.setattr("app.infrastructure.room_directory.asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await rooms._keep_fresh()
    monkeypatch.undo()

    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30, 30]
    assert tries == 8


async def test_a_room_that_postgres_alone_knows_keeps_no_other_from_being_known(house: House) -> None:
    """With Postgres away at the start the rooms are those of Valkey, but for one that is being rebuilt."""
    for room in ("fenced", "shop", "other"):
        await house.create(room)
    assert await house.jobs.fence(RoomId("fenced"), 1, 1)
    lost = Postgres(NOWHERE, max_size=1)
    rooms = directory(house.valkey, lost, house.prefix)

    await rooms.start()

    assert sorted(room.id for room in rooms.all()) == ["other", "shop"]
    assert not rooms.is_loaded
    await rooms.stop()
    await lost.close()


class SlowList(Postgres):
    """A list of rooms upon which is acted late: ``between`` happens first, once."""

    between: Callable[[], Awaitable[None]] | None = None

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        rows = await super().fetch(query, *args)
        if query == QUERIES["directory_marks"] and self.between is not None:
            act, self.between = self.between, None
            await act()
        return rows


@pytest.mark.req("ENG-275", "ENG-279")
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_room_that_was_made_and_lost_since_the_list_was_read_stays_known(
    house: House, is_deleted: bool
) -> None:
    """It is being rebuilt; one that was deleted is gone."""
    slow = SlowList(house.postgres.dsn, max_size=1)
    rooms = directory(house.valkey, slow, house.prefix)
    await rooms.start()

    async def make_and_lose() -> None:
        await house.create("shop")
        await rooms.reload(RoomId("shop"))
        if is_deleted:
            await house.admin.delete(RoomId("shop"), actor="ann")
        await house.drain("shop")
        await house.lose_everything()

    slow.between = make_and_lose

    await rooms.look_again()

    assert [room.id for room in rooms.all()] == ([] if is_deleted else ["shop"])
    await rooms.stop()
    await slow.close()
