"""Two releases side by side on one Valkey, as during a rolling deploy, and the end of the libraries of past ones."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app.domain.facts_of_passes import Admitted
from app.domain.fold import RoomFold
from app.domain.fold_image import make_image
from app.domain.layout import TICKET_BYTES, TicketRecord, pack_header, unpack_header
from app.infrastructure.embedded import PrivateStores
from app.infrastructure.engine_errors import RoomFenced
from app.infrastructure.engine_jobs import Place
from app.infrastructure.engine_results import ViewState
from app.infrastructure.journal import outbox_to_row
from app.infrastructure.keys import libraries_key
from app.infrastructure.lua_bundle import LUA_DIR, bundle
from app.infrastructure.lua_libraries import UNUSED_MS, LuaLibraries
from app.infrastructure.valkey import Valkey
from tests.engine.other_release import act
from tests.engine.world import ROOM, World
from tests.journal.snapshot import snapshot, without_fresh


@pytest.fixture
def next_lua(tmp_path: Path) -> Path:
    """The library of the next release: the same layout, another text."""
    folder = tmp_path / "lua"
    shutil.copytree(LUA_DIR, folder)
    with (folder / "lib" / "base.lua").open("a") as text:
        text.write("\n-- The next release.\nqm.RELEASE = 2\n")
    return folder


@pytest.fixture
def next_release(world: World, next_lua: Path) -> World:
    """An instance of the next release on the stores of ``world``."""
    return World(world.valkey, world.prefix, bundle=bundle(next_lua))


async def libraries(world: World) -> set[str]:
    """Names of the function libraries that Valkey has."""
    listed = await world.valkey.execute("FUNCTION", "LIST")
    return {entry[entry.index(b"library_name") + 1].decode() for entry in listed}


async def test_it_serves_a_room_that_the_other_release_made_without_a_pause(world: World, next_release: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()

    await next_release.reload()
    view = await next_release.status(browser)
    await next_release.joined()

    assert view.state is ViewState.WAITING
    assert (await world.figures()).waiting == 2
    assert {world.loader.bundle.name, next_release.loader.bundle.name} <= await libraries(world)


async def test_a_fence_of_one_release_holds_for_the_other(world: World, next_release: World) -> None:
    await world.create(rate_per_minute=0)
    await next_release.reload()

    await world.jobs.fence(ROOM, 1, 1)
    with pytest.raises(RoomFenced):
        await next_release.jobs.tick(ROOM)
    header = await world.valkey.execute("GET", world.keys.header)
    await world.valkey.execute("SET", world.keys.header, pack_header(unpack_header(header) | {"fenced": 0}))
    with pytest.raises(RoomFenced):
        await world.jobs.tick(ROOM)
    assert await next_release.jobs.verify_many([Place(ROOM, 1, 1, 1, 1)]) == [True]

    assert (await world.jobs.tick(ROOM)).promoted == 0


async def test_two_releases_in_two_processes_keep_one_line(world: World, next_lua: Path, valkey_url: str) -> None:
    """No number twice, no slot twice, and the facts of both add up to exactly the room that is there."""
    await world.create(rate_per_minute=60_000, max_concurrent=15, queue_max_per_ip=None, presence_sec=3600)
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.engine.other_release", valkey_url, world.prefix, str(next_lua), "new",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert other.stdin is not None
    assert other.stdout is not None
    assert await other.stdout.readline() == b"ready\n"
    other.stdin.write(b"go\n")

    ours = await act(world, "old")
    theirs = json.loads(await other.stdout.readline())
    assert await other.wait() == 0

    tickets = ours["tickets"] + theirs["tickets"]
    switches = sum(
        one in set(ours["tickets"]) is not (two in set(ours["tickets"])) for one, two in pairwise(range(1, 81))
    )
    assert sorted(tickets) == list(range(1, 81))
    assert switches > 1, "their calls were mixed"
    assert len(await world.facts(Admitted)) == len(ours["admitted"]) + len(theirs["admitted"])
    figures = await world.figures()
    assert figures.occupancy <= 15
    await assert_facts_add_up(world)


async def assert_facts_add_up(world: World) -> None:
    """The room folded from its facts is the live one, without what a rebuild makes afresh."""
    rows: list[tuple[Any, ...]] = []
    for seq, element in enumerate(await world.valkey.execute("LRANGE", world.keys.outbox, 0, -1), 1):
        kind, lv, at, _, body = outbox_to_row(element)
        rows.append((seq, kind, lv, at, body))
    shot = await snapshot(world.valkey, world.prefix, ROOM)
    fold = RoomFold(int(shot["header"]["wall"]))
    fold.feed(rows)
    image = make_image(fold)
    records = [
        TicketRecord.unpack(bytes(fold.tickets[at : at + TICKET_BYTES]))
        for at in range(0, 80 * TICKET_BYTES, TICKET_BYTES)
    ]
    folded = {
        "header": unpack_header(image.header_bytes(1)), "cfg": {}, "tickets": records,
        "doors": [fold.door(n) for n in range(1, int(shot["header"]["head"]) + 1)], "due": sorted(image.deadlines),
    }  # fmt: skip
    live = {name: shot[name] for name in folded} | {"cfg": {}}
    live["doors"] = live["doors"][: len(folded["doors"])]
    assert without_fresh(folded) == without_fresh(live)


async def test_it_works_for_a_user_who_may_not_ask_valkey_about_itself(world: World, valkey_url: str) -> None:
    """Each release then compares for itself."""
    name = world.prefix.rstrip(":")
    await world.valkey.execute("ACL", "SETUSER", name, "on", ">pw", "~*", "&*", "+@all", "-info")
    closed = World(await Valkey.connect(valkey_url + f"?username={name}&password=pw"), world.prefix)
    try:
        await closed.create(rate_per_minute=0)
        (browser,) = await closed.joined()
        view = await closed.status(browser)
        mark = await world.valkey.execute("EXISTS", world.keys.verified)
    finally:
        await closed.valkey.close()
        await world.valkey.execute("ACL", "DELUSER", name)

    assert (view.state, mark) == (ViewState.WAITING, 0)


async def test_it_answers_nothing_after_a_real_restart_of_valkey_before_it_was_compared(tmp_path: Path) -> None:
    stores = PrivateStores(data_dir=tmp_path)
    stores.start()
    try:
        world = World(await Valkey.connect(stores.valkey_url), "r:")
        await world.create(rate_per_minute=0)
        (browser,) = await world.joined()
        await world.valkey.close()
        stores.stop()
        stores = PrivateStores(data_dir=tmp_path)
        stores.start()
        again = World(await Valkey.connect(stores.valkey_url), "r:")
        again.room = world.room

        with pytest.raises(RoomFenced):
            await again.status(browser)
        header = await again.header()
        assert (header["verified"], header["last_ticket"]) == (False, 1)
        assert await again.jobs.verify_many([Place(ROOM, 1, 1, 2, 1)]) == [True]
        assert (await again.status(browser)).state is ViewState.WAITING
        await again.valkey.close()
    finally:
        stores.stop()


async def test_it_removes_the_libraries_that_nobody_has_used_for_a_day(world: World, next_release: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()
    await next_release.reload()
    own, other = world.loader.bundle.name, next_release.loader.bundle.name
    key = libraries_key(world.prefix)
    old, new = (LuaLibraries(world.valkey, world.prefix, name) for name in (own, other))
    await old.note_use()
    await new.note_use()

    assert await new.drop_unused() == []
    await world.valkey.execute("ZINCRBY", key, -UNUSED_MS - 1000, own)
    await world.valkey.execute("ZADD", key, 1, "qm_gone_long_ago")
    assert await new.drop_unused() == ["qm_gone_long_ago", own]

    assert own not in await libraries(world)
    assert other in await libraries(world)
    assert await world.valkey.execute("ZRANGE", key, 0, -1) == [other.encode()]
    view = await world.status(browser)
    assert view.state is ViewState.WAITING, "an instance that is still there loads its library again"


async def test_it_leaves_the_libraries_of_another_prefix_alone(world: World, next_release: World) -> None:
    await next_release.loader.load()

    assert await LuaLibraries(world.valkey, world.prefix, world.loader.bundle.name).drop_unused() == []

    assert next_release.loader.bundle.name in await libraries(world)
