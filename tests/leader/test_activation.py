"""The leader's look at thresholds: whom it looks at, and what the instance hears of a switch."""

from __future__ import annotations

import asyncio

import pytest

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.automation import AutoActivate
from app.domain.facts import FactType
from app.domain.room import RoomState
from app.infrastructure.engine_auto import EngineAuto
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.valkey import Valkey
from app.services.activation import EVERY_SEC, Activation
from app.services.leadership import Term, TermOver
from tests.journal.history import advance
from tests.journal.house import House, until
from tests.leader.conftest import lease_of

SHOP = RoomId("shop")
BRISK = AutoActivate(True, joins_per_min=3, sustain_sec=2, release_after_sec=2)


@pytest.fixture
async def term(house: House) -> Term:
    lease = lease_of(house, "one", ms=60_000)
    assert await lease.take()
    return Term(lease)


@pytest.fixture
def activation(house: House, directory: RoomDirectory) -> Activation:
    return Activation(rooms=directory, engine=house.auto)


async def arrive(house: House, count: int) -> None:
    for who in range(count):
        await house.join("shop", f"visitor {who}")


async def state(house: House) -> RoomState:
    return (await house.admin.figures([SHOP]))[SHOP].state


async def test_it_opens_the_queue_and_tells_every_process(
    house: House, directory: RoomDirectory, activation: Activation, term: Term
) -> None:
    await house.create("shop", state=RoomState.BYPASS, auto_activate=BRISK)
    await directory.reload(SHOP)
    await arrive(house, 3)
    await advance(house, "shop", 4)
    heard: list[str] = []
    directory.on_hint("room", heard.append)

    await activation.look(term)

    assert await state(house) is RoomState.ACTIVE
    copy = directory.get("shop")
    assert copy is not None
    assert copy.config.state is RoomState.ACTIVE

    async def is_heard() -> bool:
        return heard == ["shop"]

    await until(is_heard)


@pytest.mark.req("ENG-219")
async def test_it_decides_within_five_seconds_of_the_condition(
    house: House, directory: RoomDirectory, activation: Activation, term: Term
) -> None:
    await house.create("shop", state=RoomState.BYPASS, auto_activate=BRISK)
    await directory.reload(SHOP)
    await arrive(house, 3)
    await advance(house, "shop", 4)
    assert EVERY_SEC <= 5
    task = asyncio.create_task(activation.run(term))

    async def is_open() -> bool:
        return await state(house) is RoomState.ACTIVE

    await until(is_open)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_it_looks_again_with_a_fresh_copy_after_the_rule_was_changed(
    house: House, directory: RoomDirectory, activation: Activation, term: Term
) -> None:
    await house.create("shop", state=RoomState.BYPASS, auto_activate=AutoActivate(True, 3, 3600, 0))
    await directory.reload(SHOP)
    await house.admin.update(SHOP, {"auto_activate": BRISK}, actor="ann")
    await house.read("shop")
    await arrive(house, 3)
    await advance(house, "shop", 4)

    await activation.look(term)
    assert await state(house) is RoomState.BYPASS
    await activation.look(term)

    assert await state(house) is RoomState.ACTIVE


@pytest.mark.req("ENG-219")
async def test_it_switches_nothing_when_the_term_is_over_or_the_store_is_away(
    house: House, directory: RoomDirectory, activation: Activation, term: Term
) -> None:
    await house.create("shop", state=RoomState.BYPASS, auto_activate=BRISK)
    await directory.reload(SHOP)
    await arrive(house, 3)
    await advance(house, "shop", 4)

    away = Valkey("unix:///nonexistent.sock")
    with pytest.raises(StorageUnavailable):
        await Activation(rooms=directory, engine=EngineAuto(house.prefix, LuaLoader(away), instance="i:one")).look(term)
    await away.close()
    term._lease.until = 0.0
    with pytest.raises(TermOver):
        await activation.look(term)

    assert await state(house) is RoomState.BYPASS


async def test_it_passes_over_rooms_that_are_fenced_or_gone(
    house: House, directory: RoomDirectory, activation: Activation, term: Term
) -> None:
    for room in ("gone", "lost", "shop"):
        await house.create(room, state=RoomState.BYPASS, auto_activate=BRISK)
        await directory.reload(RoomId(room))
    await arrive(house, 3)
    await advance(house, "shop", 4)
    await house.valkey.execute("DEL", RoomKeys(house.prefix, "lost").header)
    await house.admin.delete(RoomId("gone"), actor="ann")

    await activation.look(term)

    assert await state(house) is RoomState.ACTIVE


async def test_it_leaves_a_switch_in_the_journal(
    house: House, directory: RoomDirectory, activation: Activation, term: Term
) -> None:
    await house.create("shop", state=RoomState.BYPASS, auto_activate=BRISK)
    await directory.reload(SHOP)
    await arrive(house, 3)
    await advance(house, "shop", 4)
    await activation.look(term)

    await house.drain("shop")

    (body,) = await house.journaled("shop", FactType.ROOM_UPDATED)
    assert b'"why":"threshold"' in body
    assert b'"joins_per_min":3,"threshold":3' in body
