"""Drainer and stores that die in the middle of the work."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
from structlog.testing import capture_logs

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.facts import FactType
from app.infrastructure import drain
from app.infrastructure.embedded import PrivateStores
from app.infrastructure.engine_errors import RoomFenced
from app.infrastructure.engine_results import ViewState
from app.infrastructure.migrate import migrate
from app.infrastructure.postgres import Postgres
from tests.journal.house import House, holder, ticket_numbers, until

SHOP = RoomId("shop")


@pytest.fixture
def own_stores(tmp_path: Path) -> Iterator[PrivateStores]:
    """Stores on kept data that this test alone uses, to be killed."""
    stores = PrivateStores(data_dir=tmp_path)
    stores.start()
    yield stores
    stores.stop()


@pytest.fixture
async def own_house(own_stores: PrivateStores) -> AsyncIterator[House]:
    """An instance on them."""
    dsn = own_stores.database_url
    pool = Postgres(dsn)
    await migrate(pool)
    await pool.close()
    async with House(own_stores.valkey_url, dsn, "qm:") as house:
        yield house


def kill(stores: PrivateStores, name: str) -> None:
    """Kill a store with its children: a Postgres back end outlives its parent for a moment, and commits in it."""
    process = stores.children[name].process
    assert process is not None
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    process.send_signal(signal.SIGKILL)
    process.wait()


async def drainer_process(house: House, valkey_url: str, dsn: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.journal.drainer_process", valkey_url, dsn, house.prefix,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip


async def end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def test_it_loses_no_acknowledged_join_when_the_drainer_is_killed(
    house: House, valkey_url: str, fresh_schema: str
) -> None:
    await house.create("shop")
    acknowledged: list[int] = []
    refused = 0
    stop = asyncio.Event()

    async def visitors(lane: int) -> None:
        nonlocal refused
        who = 0
        while not stop.is_set():
            who += 1
            answer = await house.join_committed("shop", (lane, who))
            if answer is None:
                refused += 1
            elif answer.view is not None:
                acknowledged.append(answer.view.ticket)

    process = await drainer_process(house, valkey_url, fresh_schema)
    load = [asyncio.ensure_future(visitors(lane)) for lane in range(20)]
    try:
        for _ in range(3):
            before = len(acknowledged)

            async def moved(before: int = before) -> bool:
                return len(acknowledged) > before + 100

            await until(moved, sec=20)
            await end(process)
            process = await drainer_process(house, valkey_url, fresh_schema)
        await until(moved, sec=20)
    finally:
        stop.set()
        await asyncio.gather(*load)
        await end(process)

    stored = ticket_numbers(await house.journaled("shop", FactType.JOINED))
    assert stored == list(range(1, len(stored) + 1))
    assert set(acknowledged) <= set(stored)
    assert refused == 0


@pytest.mark.req("FLT-080")
async def test_it_refuses_while_postgres_is_away_and_catches_up(
    own_house: House, own_stores: PrivateStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "GRACE_SEC", 0.1)
    await own_house.start_drainer()
    await own_house.create("shop")
    assert await own_house.join_committed("shop", 1) is not None

    kill(own_stores, "postgres")
    assert await own_house.join_committed("shop", 2) is None
    assert own_house.commits.refusing()
    view = await own_house.engine.status(own_house.rooms["shop"], holder(1, 1))
    assert view.state is ViewState.WAITING
    await asyncio.to_thread(own_stores.restart, "postgres")

    async def stored() -> bool:
        return ticket_numbers(await own_house.journaled("shop", FactType.JOINED)) == [1, 2]

    async def open_again() -> bool:
        return not own_house.commits.refusing()

    await until(open_again)
    await until(stored)
    assert await own_house.join_committed("shop", 3) is not None


async def test_it_goes_on_where_a_killed_valkey_with_its_data_stood(
    own_house: House, own_stores: PrivateStores
) -> None:
    await own_house.start_drainer()
    await own_house.create("shop")
    assert await own_house.join_committed("shop", 1) is not None

    async def quiet() -> bool:
        header = await own_house.jobs.header(SHOP)
        return header is not None and header["committed"] == 2

    await until(quiet)
    await own_house.valkey.execute("CONFIG", "SET", "appendfsync", "always")
    await own_house.valkey.execute("PING")

    kill(own_stores, "valkey")
    await asyncio.to_thread(own_stores.restart, "valkey")

    with pytest.raises(StorageUnavailable):
        await answer_or_outage(own_house)
    with capture_logs() as logs:
        await own_house.recovery.ensure_all()

    assert [entry["event"] for entry in logs] == ["room_verified"], "nothing was rebuilt"
    view = await own_house.engine.status(own_house.rooms["shop"], holder(1, 1))
    assert (view.state, view.ahead) == (ViewState.WAITING, 0)
    assert await own_house.join_committed("shop", 2) is not None


async def answer_or_outage(house: House) -> None:
    """Ask until Valkey answers; raises RoomFenced then, if the room does not answer."""
    deadline = mono() + 10
    while True:
        try:
            await house.engine.status(house.rooms["shop"], holder(1, 1))
            return
        except RoomFenced:
            raise
        except StorageUnavailable:
            assert mono() < deadline
            await asyncio.sleep(0.02)


@pytest.mark.req("FLT-081", "ENG-276")
async def test_it_serves_nothing_from_a_rewound_valkey_before_it_was_rebuilt(
    own_house: House, own_stores: PrivateStores, tmp_path: Path
) -> None:
    await own_house.start_drainer()
    await own_house.create("shop")
    await own_house.create("calm")
    assert await own_house.join_committed("calm", 1) is not None
    for who in range(5):
        assert await own_house.join_committed("shop", who) is not None
    old = await saved(own_house)
    for who in range(5, 9):
        assert await own_house.join_committed("shop", who) is not None
    await own_house.admin.eject(SHOP, 1, actor="ann")

    async def ejected() -> bool:
        return len(await own_house.journaled("shop", FactType.EJECTED)) == 1

    await until(ejected)
    await restored(own_house, old)
    kill(own_stores, "valkey")
    await asyncio.to_thread(own_stores.restart, "valkey")

    with pytest.raises(RoomFenced):
        await answer_or_outage(own_house)
    own_house.recovery.ask(SHOP)
    stop = asyncio.Event()
    with capture_logs() as logs:
        running = asyncio.ensure_future(own_house.recovery.run(stop))

        def rebuilt() -> list[str]:
            return [entry["room"] for entry in logs if entry["event"] == "rebuild_ended"]

        async def told() -> bool:
            return bool(rebuilt())

        # The room answers a moment before it is told, and stopping leaves off what is under way.
        await until(told)
        stop.set()
        await running

    assert rebuilt() == ["shop"], "what was intact was not rebuilt"
    assert (await own_house.engine.status(own_house.rooms["calm"], holder(1, 1))).state is ViewState.WAITING
    room = own_house.rooms["shop"]
    assert (await own_house.engine.status(room, holder(8, 9))).ahead == 7
    assert (await own_house.engine.status(room, holder(0, 1))).state is ViewState.GONE
    assert (await own_house.join_committed("shop", "new")) is not None
    assert ticket_numbers(await own_house.journaled("shop", FactType.JOINED)) == list(range(1, 11))


async def saved(house: House) -> dict[bytes, bytes]:
    """Every key of the live store, as Valkey writes it."""
    names = await house.valkey.execute("KEYS", "*")
    return {name: await house.valkey.execute("DUMP", name) for name in names}


async def restored(house: House, shot: dict[bytes, bytes]) -> None:
    """Put the live store back to an earlier moment."""
    await house.valkey.execute("CONFIG", "SET", "appendfsync", "always")
    await house.lose_everything()
    for name, dump in shot.items():
        await house.valkey.execute("RESTORE", name, 0, dump)


@pytest.mark.req("FLT-083")
async def test_it_fences_a_live_state_that_forked(house: House) -> None:
    await house.create("shop")
    await house.join("shop", 0)
    await house.drain("shop")
    names = list(await house.valkey.execute("KEYS", house.prefix + "*"))
    old = {name: await house.valkey.execute("DUMP", name) for name in names}
    for who in (1, 2):
        await house.join("shop", who)
    await house.drain("shop")
    await house.lose_everything()
    for name, dump in old.items():
        await house.valkey.execute("RESTORE", name, 0, dump)
    lost = await house.join("shop", "other")
    waiting = asyncio.ensure_future(house.commits.wait(SHOP, 1, lost.seq))

    await house.start_drainer()

    assert not await waiting
    with pytest.raises(RoomFenced):
        await house.engine.status(house.rooms["shop"], holder(0, 1))
    assert await house.recovery.ensure(SHOP)
    assert (await house.engine.status(house.rooms["shop"], holder(2, 3))).ahead == 2
    with pytest.raises(StorageUnavailable):
        await house.admin.undo_join(SHOP, 1, lost.seq, 2)
    assert (await house.join_committed("shop", "again")) is not None
