"""The leader's knocks at the sites of rooms: when, what is kept of them, and what a room object tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.origins import Origin
from app.domain.site_health import Knocked, SiteHealth
from app.infrastructure.engine_auto import Overtaken
from app.infrastructure.knock import Answer, KnockFailed, Refused
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.site_store import SiteStore
from app.services.leadership import Term
from app.services.prober import Prober
from app.services.room_object import room_object
from app.services.rooms import RoomService
from app.services.sites import Sites
from tests.journal.house import House, until
from tests.leader.conftest import lease_of

SHOP = Origin("https", "shop.example", 443)
KNOCK_MS = 50


@dataclass
class World:
    """The sites outside: what each says to a knock."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def knock(self, site: Origin) -> Answer:
        self.asked.append(site.host)
        said = self.answers.get(site.host, 200)
        if isinstance(said, Exception):
            raise said
        return Answer(said, 84)


@pytest.fixture
def store(house: House) -> SiteStore:
    return SiteStore(house.valkey, house.prefix, LuaLoader(house.valkey))


@asynccontextmanager
async def probing(
    house: House, directory: RoomDirectory, world: World, store: SiteStore, every_ms: int = KNOCK_MS
) -> AsyncIterator[asyncio.Task[None]]:
    """A leader that knocks."""
    lease = lease_of(house, "one", ms=60_000)
    assert await lease.take()
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr("app.services.prober.TURN_SEC", 0.02)
    prober = Prober(rooms=directory, knocker=world, store=store, every_ms=every_ms, instance="i:one")
    task = asyncio.create_task(prober.run(Term(lease)))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        monkeypatch.undo()


def service(house: House, directory: RoomDirectory, store: SiteStore, every_ms: int = 10_000) -> RoomService:
    sites = Sites(store, every_ms=every_ms, timeout_ms=5000)
    return RoomService(engine=house.admin, rooms=directory, commits=house.commits, sites=sites)


async def site_of(rooms: RoomService, room: str = "shop") -> dict[str, Any]:
    found = room_object(await rooms.view(room))["site"]
    assert isinstance(found, dict)
    return found


async def test_it_tells_how_a_site_answers(
    house: House, directory: RoomDirectory, store: SiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.sites.FRESH_SEC", 0.0)
    await house.create("shop")
    await directory.reload(RoomId("shop"))
    rooms, world = service(house, directory, store), World()
    assert await site_of(rooms) == {"status": "unknown", "checkedAt": None, "httpStatus": None, "ms": None}

    async def says(status: str) -> bool:
        return (await site_of(rooms))["status"] == status

    async with probing(house, directory, world, store):
        await until(lambda: says("up"))
        told = await site_of(rooms)
        assert (told["httpStatus"], told["ms"]) == (200, 84)
        now = await store.now_ms()
        assert now - 5000 < told["checkedAt"] <= now

        world.answers["shop.example"] = 503
        await until(lambda: says("down"))
        assert (await site_of(rooms))["httpStatus"] == 503

        world.answers["shop.example"] = KnockFailed("connect")

        async def is_silent() -> bool:
            return (await site_of(rooms))["httpStatus"] is None

        await until(is_silent)
        assert (await site_of(rooms))["ms"] is None
        world.answers["shop.example"] = 404
        await until(lambda: says("up"))


async def test_it_needs_three_failures_in_a_row(house: House, directory: RoomDirectory, store: SiteStore) -> None:
    await house.create("shop")
    await directory.reload(RoomId("shop"))
    world = World({"shop.example": KnockFailed("dns")})

    async with probing(house, directory, world, store):

        async def is_down() -> bool:
            return (await store.healths([SHOP])).get(SHOP, SiteHealth()).is_up is False

        await until(is_down)

    health = (await store.healths([SHOP]))[SHOP]
    assert health.streak >= 3
    assert [knock.failure for knock in health.knocks[:3]] == ["dns"] * 3
    (shown,) = (await store.shown([SHOP])).values()
    assert (shown.is_up, shown.failure, shown.by) == (False, "dns", "i:one")


async def test_it_knocks_once_at_a_site_of_several_rooms(
    house: House, directory: RoomDirectory, store: SiteStore
) -> None:
    for name in ("shop", "drop", "sale"):
        await house.create(name)
        await directory.reload(RoomId(name))
    world = World()

    async with probing(house, directory, world, store, every_ms=600):

        async def has_knocked() -> bool:
            return len(world.asked) >= 1

        await until(has_knocked)
        await asyncio.sleep(0.3)
        assert len(world.asked) == 1


async def test_it_says_nothing_of_a_site_that_it_must_not_ask(
    house: House, directory: RoomDirectory, store: SiteStore
) -> None:
    await house.create("shop")
    await directory.reload(RoomId("shop"))
    world = World({"shop.example": Refused()})

    async with probing(house, directory, world, store):

        async def has_knocked() -> bool:
            return len(world.asked) >= 4

        await until(has_knocked)

    assert await store.shown([SHOP]) == {}
    assert (await site_of(service(house, directory, store)))["status"] == "unknown"


async def test_it_goes_on_where_the_last_leader_stopped(
    house: House, directory: RoomDirectory, store: SiteStore
) -> None:
    await house.create("shop")
    await directory.reload(RoomId("shop"))
    now = await store.now_ms()
    bad = SiteHealth(True).after(Knocked(now - 20, 9, 0, "dns")).after(Knocked(now - 10, 9, 0, "dns"))
    await store.put(0, {SHOP: bad}, by="i:zero")
    world = World({"shop.example": KnockFailed("dns")})

    async with probing(house, directory, world, store, every_ms=5000):

        async def is_down() -> bool:
            return (await store.healths([SHOP]))[SHOP].is_up is False

        await until(is_down)
        assert len(world.asked) == 1, "the third in a row"


async def test_it_forgets_the_site_of_a_room_that_went(
    house: House, directory: RoomDirectory, store: SiteStore
) -> None:
    await house.create("shop")
    await directory.reload(RoomId("shop"))

    async with probing(house, directory, World(), store):

        async def is_known() -> bool:
            return await store.known() == {"https://shop.example"}

        await until(is_known)
        await house.admin.delete(RoomId("shop"), actor="ann")
        await directory.reload(RoomId("shop"))

        async def is_forgotten() -> bool:
            return await store.known() == set()

        await until(is_forgotten)
    assert await store.healths([SHOP]) == {}


async def test_it_says_nothing_by_knocks_that_are_too_long_ago(
    house: House, directory: RoomDirectory, store: SiteStore
) -> None:
    await house.create("shop")
    await directory.reload(RoomId("shop"))
    rooms = service(house, directory, store)
    now = await store.now_ms()
    await store.put(1, {SHOP: SiteHealth().after(Knocked(now - 36_000, 9, 200))}, by="i:zero")

    assert (await site_of(rooms))["status"] == "unknown"


async def test_it_keeps_a_leader_whose_term_is_over_from_writing(store: SiteStore) -> None:
    health = SiteHealth().after(Knocked(5, 9, 200))
    await store.put(7, {SHOP: health}, by="i:one")

    with pytest.raises(Overtaken):
        await store.put(6, {SHOP: SiteHealth().after(Knocked(6, 9, 500))}, by="i:zero")

    assert await store.healths([SHOP]) == {SHOP: health}
