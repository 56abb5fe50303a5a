"""A huge room that is being rebuilt keeps nobody waiting but those who stand in it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain import fold_image
from app.infrastructure import rebuild
from app.infrastructure.engine_results import ViewState
from app.infrastructure.journal import Head
from app.services import rebuild_lanes
from app.services.rebuild_lanes import HUGE, LANES, RebuildLanes
from tests.journal.house import House, holder, until

HALL, SHOP = RoomId("hall"), RoomId("shop")


class Link:
    """A connection that is never closed."""

    def is_closed(self) -> bool:
        return False


class Site:
    """Lanes whose rebuilds end when the test lets them."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.open = self.most = 0
        self.ends: dict[str, asyncio.Event] = {}
        self.trouble: set[str] = set()
        self.lanes = RebuildLanes(self.session, self.rebuild, lambda: None)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            yield Link()
        finally:
            self.open -= 1

    async def rebuild(self, link: Any, head: Head) -> None:
        self.begun.append(head.room)
        await self.ends.setdefault(head.room, asyncio.Event()).wait()
        if head.room in self.trouble:
            raise StorageUnavailable

    def add(self, **rooms: int) -> None:
        """Rooms by name and number of facts."""
        self.lanes.add(Head(RoomId(name), 1, 1, seq) for name, seq in rooms.items())

    async def end(self, name: str) -> None:
        self.ends.setdefault(name, asyncio.Event()).set()
        with suppress(StorageUnavailable):
            await asyncio.wait_for(self.lanes.wait([RoomId(name)]), 10)
        await settle()


async def settle() -> None:
    """Let everything happen that waits for nothing."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.req("FLT-155")
async def test_it_takes_the_smallest_first_and_one_huge_room_at_a_time() -> None:
    site = Site()
    site.add(huge=HUGE, huger=HUGE + 1)
    await settle()
    assert site.begun == ["huge"], "the other huge one waits, though a lane is free"

    site.add(middle=20, small=10, large=HUGE - 1)
    await settle()
    assert site.begun == ["huge", "small"]
    await site.end("small")
    await site.end("middle")
    assert site.begun == ["huge", "small", "middle", "large"]
    assert site.lanes.has_small
    await site.end("large")
    assert not site.lanes.has_small
    assert site.begun[-1] == "large"
    await site.end("huge")
    assert site.begun[-1] == "huger"
    await site.end("huger")
    assert (site.most, site.open) == (LANES, 0), "no connection is held when there is nothing to do"


async def test_it_begins_a_room_once_and_gives_up_what_waits_when_a_store_is_away() -> None:
    site = Site()
    site.trouble.add("b")
    site.add(a=1, b=2, c=3)
    await settle()
    site.add(a=1, b=2)
    waiting = asyncio.ensure_future(site.lanes.wait([RoomId("c")]))
    await settle()
    site.ends["b"].set()

    with pytest.raises(StorageUnavailable):
        await asyncio.wait_for(waiting, 10)
    assert site.begun == ["a", "b"]
    assert not site.lanes.has(RoomId("c"))
    site.add(c=3)
    await settle()
    assert site.begun == ["a", "b", "c"], "it is tried again when it is found again"
    await site.lanes.stop()
    assert site.open == 0
    assert not site.lanes.has(RoomId("a"))


@pytest.fixture
def held(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Event]:
    """Until it is set, a rebuild of ``hall`` writes nothing."""
    let_go, put = asyncio.Event(), house.jobs.rebuild_put

    async def slow(room: RoomId, *args: Any) -> bool:
        if room == HALL:
            await let_go.wait()
        return await put(room, *args)

    monkeypatch.setattr(house.jobs, "rebuild_put", slow)
    monkeypatch.setattr(rebuild_lanes, "HUGE", 10)
    yield let_go
    let_go.set()


@pytest.mark.req("FLT-085", "FLT-155")
async def test_a_room_that_is_lost_while_a_huge_one_is_rebuilt_answers_before_it(
    house: House, held: asyncio.Event
) -> None:
    for room, people in ((HALL, 12), (SHOP, 2)):
        await house.create(room)
        for who in range(people):
            await house.join(room, who)
        await house.drain(room)
    await house.lose_everything()
    stop = asyncio.Event()
    running = asyncio.ensure_future(house.recovery.run(stop))
    try:
        for _ in range(2):
            await until(lambda: answers(house, SHOP, 2))
            assert not await answers(house, HALL, 12)
            for key in await house.valkey.execute("KEYS", f"{house.prefix}{{{SHOP}}}:*"):
                await house.valkey.execute("DEL", key)
        await until(lambda: answers(house, SHOP, 2))
        held.set()
        await until(lambda: answers(house, HALL, 12))
    finally:
        stop.set()
        await asyncio.wait_for(running, 10)


@pytest.mark.req("FLT-155")
async def test_it_gives_signs_of_life_while_it_works_out_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "SIGN_SEC", 0.01)
    signs, enough = [], threading.Event()

    class Listening:
        async def fetchval(self, sql: str) -> None:
            signs.append(sql)
            if len(signs) == 3:
                enough.set()

    assert await rebuild._beside(Listening(), lambda: enough.wait(20))  # type: ignore[arg-type]
    assert len(signs) >= 3


async def answers(house: House, room: RoomId, ticket: int) -> bool:
    """True when the room answers, and knows this ticket's owner."""
    with suppress(StorageUnavailable):
        view = await house.engine.status(house.rooms[room], holder(ticket - 1, ticket))
        return view.state is ViewState.WAITING and view.ticket == ticket
    return False


@pytest.mark.req("FLT-093")
async def test_nobody_waits_for_more_than_a_few_bounded_pieces_of_a_rebuild(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why other rooms answer while a huge one is rebuilt; the bench measures how fast (bench/neighbours.py)."""
    await house.create(SHOP)
    await house.join(SHOP, 0)
    await house.create(HALL, queue_max_per_ip=None)
    await asyncio.gather(*(house.join(HALL, who) for who in range(600)))
    await house.drain(HALL)
    monkeypatch.setattr(rebuild, "CALL_BYTES", 10_000)
    monkeypatch.setattr(fold_image, "MEMBERS", 30)
    put, pieces, sizes = house.jobs.rebuild_put, 0, []

    async def counted(room: RoomId, epoch: int, writes: Any) -> bool:
        nonlocal pieces
        sizes.append(max(sum(weight(write) for write in writes[:-1]), 0))
        done = await put(room, epoch, writes)
        pieces += 1
        return done

    monkeypatch.setattr(house.jobs, "rebuild_put", counted)
    for key in await house.valkey.execute("KEYS", f"{house.prefix}{{{HALL}}}:*"):
        await house.valkey.execute("DEL", key)
    rebuilding = asyncio.ensure_future(house.recovery.ensure(HALL))
    waits, answered = [], 0
    while not rebuilding.done():
        before = pieces
        view = await house.engine.status(house.rooms[SHOP], holder(0, 1))
        assert view.state is ViewState.WAITING
        waits.append(pieces - before)
        answered += pieces > 0 and not rebuilding.done()

    assert await rebuilding
    assert len(sizes) >= 8
    assert 0 < max(sizes) <= 10_000, "what is put together fits, and one more piece of bounded size"
    assert max(waits) <= 3, waits  # one that is being written, one that came first, one whose answer was read first
    assert answered >= 3


def weight(write: Any) -> int:
    """Bytes, or what members count for."""
    return len(write[2]) if len(write) == 3 else len(write[1]) * rebuild.MEMBER_WEIGHT
