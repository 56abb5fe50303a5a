"""Rooms while a store is away or a room is being rebuilt: what is still told, and that nothing is claimed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.clock import wall_ms
from app.core.errors import NoRoom, QmError, StorageUnavailable
from app.core.ids import RoomId
from app.domain.facts import FactType
from app.infrastructure.postgres import Postgres
from app.infrastructure.valkey import Valkey
from app.services.room_object import room_object
from app.services.rooms import NotRecorded
from tests.admin.conftest import House, Process
from tests.journal.house import until

SHOP = RoomId("shop")
ACTOR = "ADMIN_KEY"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def no_valkey() -> AsyncIterator[Valkey]:
    """A Valkey that cannot be reached."""
    valkey = Valkey("unix:///nonexistent/valkey.sock", timeout_ms=100)
    yield valkey
    await valkey.close()


@pytest.fixture
async def no_postgres() -> AsyncIterator[Postgres]:
    """A Postgres that cannot be reached."""
    postgres = Postgres("postgresql://nobody@/x?host=/nonexistent")
    yield postgres
    await postgres.close()


async def started(house: House, valkey: Valkey, postgres: Postgres) -> Process:
    """A further process with these stores."""
    house.processes.append(Process(valkey, postgres, house.prefix))
    return await house.processes[-1].start()


async def journaled(house: House) -> list[int]:
    return [kind for _, kind in await house.journal()]


@pytest.mark.req("ADM-124")
async def test_one_room_is_told_as_far_as_it_is_known_and_503_only_when_nothing_is(
    house: House, process: Process, no_valkey: Valkey, no_postgres: Postgres
) -> None:
    await process.make(name="Shop", maxConcurrent=3)
    await house.process()

    async def told(one: Process) -> tuple[Any, ...]:
        room = room_object(await one.service.view("shop"))
        return room["name"], room["maxConcurrent"], room["recovering"], room["stale"], room["waiting"]

    assert await told(process) == ("Shop", 3, False, False, 0)
    for unknown in ("nope", "no room", "", "a" * 65):
        with pytest.raises(NoRoom):
            await process.service.view(unknown)
    for key in await house.valkey.execute("KEYS", f"{house.prefix}{{shop}}*"):
        await house.valkey.execute("DEL", key)
    assert await told(await house.process()) == ("Shop", 3, True, False, None), "read from Postgres"
    blind = await started(house, no_valkey, house.postgres)
    assert await told(blind) == ("Shop", 3, False, True, None)
    lost = await started(house, no_valkey, no_postgres)
    with pytest.raises(StorageUnavailable) as caught:
        await lost.service.view("shop")
    assert (caught.value.status, caught.value.headers["Retry-After"]) == (503, "5")


@pytest.mark.req("ADM-135")
async def test_state_and_rate_are_answered_at_once_and_a_rebuild_may_undo_them(house: House, process: Process) -> None:
    await process.make()
    await house.stop_drainer()

    async with asyncio.timeout(2):
        saved = await process.service.upsert({"id": "shop", "state": "paused", "rate": 7}, actor=ACTOR)

    assert saved.changed == ("state", "rate")
    assert await journaled(house) == [FactType.ROOM_CREATED], "the answer came first"
    await house.start_drainer()
    await until(lambda: is_journaled(house, 2))
    guide = " ".join((ROOT / "docs/operations.md").read_text("utf-8").split())
    assert "rate changes act at once and are journaled in the background: after a recovery, look at" in guide
    for language in ("en", "th"):
        texts = json.loads((ROOT / f"locales/console.{language}.json").read_text("utf-8"))
        assert texts["card.rebuilt"], "the console says so where a room was rebuilt"


async def is_journaled(house: House, number: int) -> bool:
    return len(await house.journal()) == number


@pytest.mark.req("ADM-136")
async def test_an_edit_that_met_a_rebuild_holds_when_it_is_sent_again(
    house: House, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    await process.make()
    await house.stop_drainer()
    edit = {"id": "shop", "maxConcurrent": 9}
    first = asyncio.ensure_future(process.service.upsert(edit, actor=ACTOR))

    async def is_there() -> bool:
        return (await house.process()).rooms.get(SHOP) is not None and await max_concurrent(process) == 9

    await until(is_there)
    # A rebuild goes back to what the journal has: the edit is lost, and whoever waits for it hears so.
    process.commits.hear('{"reset": ["shop"]}')
    with pytest.raises(NotRecorded) as caught:
        await first
    assert (caught.value.code, "Retry-After" in caught.value.headers) == ("storage_unavailable", True)
    assert "send it again" in caught.value.sentence

    await house.start_drainer()
    again = await process.service.upsert(edit, actor=ACTOR)
    assert again.view.room.config.max_concurrent == 9
    assert (await journaled(house)).count(FactType.ROOM_UPDATED) == 1


async def max_concurrent(process: Process) -> int | None:
    room = await process.engine.read(SHOP)
    return None if room is None else room.config.max_concurrent


Act = Callable[[Process], Awaitable[object]]

HEAVY: dict[str, Act] = {
    "create": lambda p: p.make("fresh"),
    "edit": lambda p: p.service.upsert({"id": "shop", "name": "New"}, actor=ACTOR),
    "schedule": lambda p: p.line.schedule("shop", {"opensAt": wall_ms() + 3_600_000}, actor=ACTOR),
    "eject": lambda p: p.line.eject("shop", {"ticket": 1}, actor=ACTOR),
    "flush": lambda p: p.line.flush("shop", actor=ACTOR),
    "purge": lambda p: p.line.purge("shop", actor=ACTOR),
    "delete": lambda p: p.service.delete("shop", actor=ACTOR),
}
LIGHT: dict[str, Act] = {
    "pause": lambda p: p.line.pause("shop", actor=ACTOR),
    "rate": lambda p: p.line.set_rate("shop", {"rate": 3}, actor=ACTOR),
    "state": lambda p: p.line.set_state("shop", {"state": "bypass"}, actor=ACTOR),
}


async def standing(house: House, process: Process) -> None:
    """A room with somebody in line, all of it in the journal."""
    from tests.admin.test_tickets_service import Line

    await Line(process).open(2)

    async def is_stored() -> bool:
        _, seq, committed = await process.engine.committed(SHOP)
        return seq == committed

    await until(is_stored)


@pytest.mark.req("ADM-283", "ADM-284")
async def test_without_postgres_figures_state_and_rate_work_and_all_else_is_refused(
    house: House, process: Process, no_postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    await standing(house, process)
    before = await journaled(house)
    await house.stop_drainer()
    monkeypatch.setattr("app.services.commit.DEADLINE_SEC", 0.05)
    away = await started(house, house.valkey, no_postgres)

    for name, act in HEAVY.items():
        with pytest.raises(StorageUnavailable) as caught:
            await act(away)
        assert (caught.value.status, "Retry-After" in caught.value.headers) == (503, True), name
        if name == "delete":
            break
        (shown,) = map(room_object, await away.service.views())
        assert shown["waiting"] is not None
        assert shown["stale"] is False
    assert await journaled(house) == before, "nothing of it is recorded, and nothing was claimed"


@pytest.mark.req("ADM-283", "ADM-284", "ADM-135")
async def test_state_and_rate_are_the_only_acts_that_answer_before_they_are_recorded(
    house: House, process: Process, no_postgres: Postgres
) -> None:
    await standing(house, process)
    await house.stop_drainer()
    away = await started(house, house.valkey, no_postgres)

    for act in LIGHT.values():
        await act(away)

    room = room_object(await away.service.view("shop"))
    assert (room["state"], room["rate"]) == ("bypass", 3)
    await house.start_drainer()
    await until(lambda: has_both(house))


async def has_both(house: House) -> bool:
    return (await journaled(house)).count(FactType.ROOM_UPDATED) == 3


@pytest.mark.req("ADM-284")
async def test_without_valkey_no_act_is_answered_as_done(house: House, process: Process, no_valkey: Valkey) -> None:
    await standing(house, process)
    before = await journaled(house)
    blind = await started(house, no_valkey, house.postgres)

    for name, act in {**HEAVY, **LIGHT}.items():
        with pytest.raises(QmError) as caught:
            await act(blind)
        assert (caught.value.status, caught.value.code) == (503, "storage_unavailable"), name
    assert await journaled(house) == before
