"""Questions about a room whose live state cannot be asked: 503, never "no such room", never a guess."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.core.secret import Secret
from app.infrastructure.engine import Engine
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_lookup import EngineLookup
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.valkey import Valkey
from app.services.line import LineService
from app.services.rooms import NotRecorded, RoomService
from app.services.tickets import TicketLookup
from tests.journal.house import House, until
from tests.visitor.site import Browser, Site
from tests.visitor.test_check import PAGE
from tests.visitor.test_streams import opened

SHOP = RoomId("shop")
MAIL: dict[str, Any] = {
    "email_notify": True, "smtp_url": Secret("smtps://mail.example"), "smtp_from": "line@shop.example",
}  # fmt: skip


def operator(house: House) -> RoomService:
    """Rooms as an operator handles them at this instance."""
    rooms = RoomDirectory(
        postgres=house.postgres, live=house.admin, valkey=house.valkey, prefix=house.prefix, resync_ms=60_000
    )
    return RoomService(engine=house.admin, rooms=rooms, commits=house.commits)


def line_of(house: House, service: RoomService) -> LineService:
    """Their lines."""
    return LineService(
        service=service,
        engine=house.admin,
        rooms=service._rooms,
        commits=house.commits,
        tickets=TicketLookup(rooms=service._rooms, engine=EngineLookup(house.prefix, LuaLoader(house.valkey))),
    )


async def asked(browser: Browser, token: str) -> list[Any]:
    """Answers to every question a visitor may have, in each way he has of asking it."""
    return [
        await browser.join(),
        await browser.twin(agent="new").join(),
        await browser.status(),
        await browser.check(),
        await browser.tag_check(url=PAGE, token=token),
        await browser.check(preview="1"),
        await browser.send("POST", "/api/leave", {"roomId": "shop"}),
        await browser.send("POST", "/api/notify", {"roomId": "shop", "email": "ann@shop.example"}),
        await browser.send("DELETE", "/api/notify", {"roomId": "shop"}),
    ]


@pytest.mark.req("ENG-275", "FLT-060", "VIS-208")
@pytest.mark.parametrize("how", ["missing", "fenced", "half rebuilt", "unreachable"])
async def test_every_question_is_answered_503(house: House, limiter: RateLimiter, how: str) -> None:
    site = Site(house, limiter, **MAIL)
    await site.create()
    browser = Browser(site)
    token = (await browser.join()).json["token"]
    await house.drain("shop")
    if how == "missing":
        await house.lose_everything()
    elif how == "unreachable":
        await site.stop()
        away = Valkey("unix:///nonexistent.sock", timeout_ms=100)
        loader = LuaLoader(away)
        kept = site.rooms.copies
        house.engine = Engine(away, house.prefix, loader)
        house.admin = EngineAdmin(away, house.prefix, loader)
        house.jobs = EngineJobs(house.prefix, loader)
        site = browser.site = Site(house, limiter, **MAIL)
        site.rooms.copies = kept
    else:
        assert await house.jobs.fence(SHOP, 1, 1)
    if how == "half rebuilt":
        assert await house.jobs.rebuild_begin(SHOP, 1, 2)
        assert await house.jobs.rebuild_put(SHOP, 2, [("o", [(b"12345678", 1)])])

    answers = await asked(browser, token)

    for answer in answers:
        assert (answer.status, answer.code) == (503, "storage_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert answer.cookies == []
    with pytest.raises(StorageUnavailable) as caught:
        await opened(browser)
    assert caught.value.headers["Retry-After"]
    await site.stop()
    if how == "unreachable":
        await away.close()


@pytest.mark.req("ENG-275")
@pytest.mark.parametrize("how", ["missing", "fenced"])
async def test_every_act_of_an_operator_is_answered_503(house: House, how: str) -> None:
    await house.create("shop")
    await house.drain("shop")
    service = operator(house)
    line = line_of(house, service)
    assert (await service.view("shop")).figures is not None
    if how == "missing":
        await house.lose_everything()
    else:
        await house.jobs.fence(SHOP, 1, 1)

    for act in (
        service.upsert({"id": "shop", "name": "New"}, actor="ann"),
        service.upsert({"id": "shop", "state": "paused"}, actor="ann"),
        service.delete("shop", actor="ann"),
        line.pause("shop", actor="ann"),
        line.eject("shop", {"ticket": 1}, actor="ann"),
    ):
        with pytest.raises(StorageUnavailable):
            await act
    assert (await service.view("shop")).is_recovering


@pytest.mark.req("ENG-007", "FLT-094", "FLT-095")
async def test_a_change_that_fell_into_a_rebuild_holds_when_it_is_repeated(idle_house: House) -> None:
    """Applied in the live state, lost with it before its commit; and one that came while the room was fenced."""
    house = idle_house
    await house.create("shop")
    await house.drain("shop")
    service = operator(house)
    body = {"id": "shop", "maxConcurrent": 5}

    async def is_applied() -> bool:
        return (await house.read("shop")).config.max_concurrent == 5

    changing = asyncio.ensure_future(service.upsert(body, actor="ann"))
    await until(is_applied)
    await house.lose_everything()
    assert await house.recovery.ensure(SHOP)
    with pytest.raises(NotRecorded) as caught:
        await changing
    assert caught.value.code == "storage_unavailable"
    assert (await house.read("shop")).config.max_concurrent is None

    await house.jobs.fence(SHOP, 1, 2)
    with pytest.raises(StorageUnavailable):
        await service.upsert(body, actor="ann")
    assert await house.recovery.ensure(SHOP)
    await house.start_drainer()

    assert (await service.upsert(body, actor="ann")).changed == ("maxConcurrent",)
    await house.lose_everything()
    assert await house.recovery.ensure(SHOP)
    assert (await house.read("shop")).config.max_concurrent == 5
