"""When a room is compared, fenced, rebuilt, and when it is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.core.ids import RoomId
from app.infrastructure.engine_results import ViewState
from app.infrastructure.journal import Head
from app.infrastructure.rebuild import Rebuilt
from app.services import recovery
from app.services.recovery import RebuildRequests, judge
from tests.journal.house import House, holder, until

SHOP = RoomId("shop")
LIVE: dict[str, Any] = {
    "layout": 1, "gen": 1, "epoch": 2, "seq": 10, "fenced": False, "deleted": False, "verified": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "head", "reason"),
    [
        ({}, Head(SHOP, 1, 2, 10), None),
        ({"seq": 12}, Head(SHOP, 1, 2, 10), None),
        ({"gen": 2, "seq": 1, "epoch": 1}, Head(SHOP, 1, 2, 10), None),
        ({"layout": 2, "seq": 1}, Head(SHOP, 1, 2, 10), None),
        ({"deleted": True}, Head(SHOP, 1, 2, 10, deleted=True), None),
        ({"seq": 9}, Head(SHOP, 1, 2, 10), "behind by 1"),
        ({"epoch": 1, "seq": 12}, Head(SHOP, 1, 2, 10), "of epoch 1, journal has 2"),
        ({"fenced": True}, Head(SHOP, 1, 2, 10), "fenced"),
        ({}, Head(SHOP, 2, 1, 1), "of generation 1, journal has 2"),
        ({}, Head(SHOP, 1, 2, 10, deleted=True), "deleted in the journal"),
    ],
)
def test_it_judges_a_live_state(change: dict[str, Any], head: Head, reason: str | None) -> None:
    finding = judge(head, {**LIVE, **change})

    assert (finding and finding.reason) == reason


def test_it_misses_only_rooms_that_exist() -> None:
    assert judge(Head(SHOP, 1, 1, 5), None) is not None
    assert judge(Head(SHOP, 1, 1, 5, deleted=True), None) is None


@pytest.fixture
async def running(house: House) -> AsyncIterator[House]:
    """A house whose recovery runs."""
    stop = asyncio.Event()
    task = asyncio.ensure_future(house.recovery.run(stop))
    yield house
    stop.set()
    await asyncio.wait_for(task, 10)


async def test_it_tells_of_each_room_it_rebuilt(running: House) -> None:
    told: list[tuple[str, int, int]] = []

    async def noted(room: RoomId, rebuilt: Rebuilt) -> None:
        told.append((room, rebuilt.head.seq, rebuilt.tickets))

    running.recovery._noted = noted
    await running.create("shop")
    await running.join("shop", 1)
    await running.drain("shop")
    await running.lose_everything()
    running.recovery.ask(SHOP)
    await until(lambda: mended(running))

    async def is_told() -> bool:
        return told == [("shop", 2, 1)]

    await until(is_told)


async def mended(house: House) -> bool:
    header = await house.jobs.header(SHOP)
    return header is not None and bool(header["verified"])


async def test_it_finds_a_lost_room_by_itself(running: House) -> None:
    await running.create("shop")
    await running.join("shop", 1)
    await running.drain("shop")

    await running.lose_everything()

    await until(lambda: mended(running))
    view = await running.engine.status(running.rooms["shop"], holder(1, 1))
    assert view.state is ViewState.WAITING


@pytest.mark.req("ENG-277")
async def test_it_does_not_rebuild_what_is_ahead_of_the_journal(running: House) -> None:
    await running.create("shop")
    await running.drain("shop")
    for who in range(3):
        await running.join("shop", who)

    assert await running.recovery.ensure_all() == 0

    assert (await running.engine.status(running.rooms["shop"], holder(2, 3))).ahead == 2
    assert await running.postgres.fetchval("SELECT epoch FROM room_heads") == 1


@pytest.mark.req("ENG-251")
async def test_it_tries_again_later_when_a_rebuild_failed(running: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "RETRY_SEC", (0.05, 0.1))
    house = running
    await house.create("shop")
    await house.join("shop", 1)
    await house.drain("shop")
    await house.tamper("UPDATE events SET lv = 9 WHERE seq = 2")
    await house.lose_everything()
    assert not await house.recovery.ensure(SHOP)

    await house.tamper("UPDATE events SET lv = 1 WHERE seq = 2")

    await until(lambda: mended(house))


async def test_it_starts_over_a_rebuild_that_died_in_the_middle(house: House) -> None:
    await house.create("shop")
    await house.join("shop", 1)
    await house.drain("shop")
    await house.postgres.execute("UPDATE room_heads SET epoch = 2")
    assert await house.jobs.fence(SHOP, 1, 1)
    assert await house.jobs.rebuild_begin(SHOP, 1, 2)
    assert await house.jobs.rebuild_put(SHOP, 2, [("o", [(b"12345678", 99)]), ("w", [99])])

    assert await house.recovery.ensure(SHOP)

    assert (await house.engine.status(house.rooms["shop"], holder(1, 1))).state is ViewState.WAITING
    assert await house.valkey.execute("HLEN", f"{house.prefix}{{shop}}:1:o") == 1


async def test_it_asks_once_a_second_for_a_room(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(recovery, "mono", lambda: now)
    sent: list[str] = []

    async def publish(text: str) -> None:
        sent.append(text)

    requests = RebuildRequests(publish)
    for _ in range(3):
        await requests.ask(SHOP)
        await requests.ask(RoomId("other"))

    assert sent == ["rebuild shop", "rebuild other"]
    now += 1
    await requests.ask(SHOP)
    assert sent[2:] == ["rebuild shop"]
