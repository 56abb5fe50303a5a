"""The last part of Valkey's memory belongs to those who have a place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core.errors import StorageUnavailable
from app.infrastructure.engine import Engine
from app.infrastructure.engine_results import JoinCode, Verdict, ViewState
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.memory_limits import container_limit, judge
from app.infrastructure.postgres import Postgres
from app.infrastructure.valkey import Valkey
from app.services.memory_guard import MemoryGuard
from tests.chaos.stores import ValkeyServer
from tests.journal.house import House, entry, holder, newcomer

LIMIT = 32 << 20


@pytest.fixture
def small() -> Iterator[ValkeyServer]:
    """A Valkey that may use 32 MB."""
    with ValkeyServer("--maxmemory", str(LIMIT)) as server:
        yield server


def filled(server: ValkeyServer, part: float) -> None:
    """Use ``part`` of the memory."""
    server.ask("DEL", "ballast")
    used = int(server.ask("INFO", "memory")["used_memory"])
    server.ask("SETRANGE", "ballast", int(LIMIT * part) - used, "x")


@pytest.mark.req("FLT-147")
async def test_it_gives_no_new_place_from_85_percent_on_until_there_are_less_than_80(
    small: ValkeyServer, fresh_schema: str, postgres: Postgres
) -> None:
    async with House(small.url, fresh_schema, "qm:") as house:
        guard = MemoryGuard(house.valkey)
        house.engine = Engine(house.valkey, "qm:", LuaLoader(house.valkey), is_short=lambda: guard.is_short)
        await house.create("shop", rate_per_minute=600)
        for who in range(3):
            await house.join("shop", who)
        given = {}
        for part in (0.84, 0.86, 0.81, 0.79):
            filled(small, part)
            await guard.look()
            given[part] = (await house.join("shop", part)).code

        assert given == {
            0.84: JoinCode.CREATED, 0.86: JoinCode.LINE_FULL, 0.81: JoinCode.LINE_FULL, 0.79: JoinCode.CREATED,
        }  # fmt: skip
        filled(small, 0.95)
        await guard.look()
        for _ in range(3):
            await house.jobs.tick(house.rooms["shop"].id)
        room = house.rooms["shop"]
        assert (await house.engine.join(room, newcomer("new"))).code is JoinCode.LINE_FULL
        assert (await house.engine.join(room, newcomer("new")._replace(proof=holder(0, 1)))).code is JoinCode.EXISTING
        assert (await house.engine.check(room, entry(0, 1))).verdict is Verdict.ADMITTED
        assert (await house.engine.status(room, holder(0, 1))).state is ViewState.ACTIVE
        assert (await house.admin.eject(room.id, 2, actor="ann")).seq
        assert (await house.admin.update(room.id, {"rate_per_minute": 7}, actor="ann")).seq


@pytest.mark.req("FLT-147")
async def test_it_changes_nothing_while_valkey_cannot_say(small: ValkeyServer) -> None:
    valkey = Valkey(small.url)
    guard = MemoryGuard(valkey)
    filled(small, 0.9)
    await guard.start()
    assert guard.is_short

    small.stop()
    await guard.look()

    assert guard.is_short
    await guard.stop()
    await valkey.close()


@pytest.mark.req("FLT-147")
def test_it_goes_by_the_machine_or_container_without_a_limit_of_valkeys_own(tmp_path: Path) -> None:
    said = b"used_memory:100\r\nused_memory_rss:400\r\nmaxmemory:%d\r\ntotal_system_memory:1000\r\n"

    assert judge(said % 200, None) == 0.5
    assert judge(said % 0, None) == 0.4
    assert judge(said % 0, 500) == 0.8
    assert judge(b"used_memory:5\r\n", None) is None
    two = tmp_path / "v2", tmp_path / "v1"
    assert container_limit(two) is None
    two[1].write_text("4096\n")
    assert container_limit(two) == 4096
    two[0].write_text("max\n")
    two[1].write_text(f"{2**63 - 4096}\n")
    assert container_limit(two) is None


@pytest.mark.req("FLT-048")
async def test_a_full_valkey_refuses_and_loses_nobody(
    small: ValkeyServer, fresh_schema: str, postgres: Postgres
) -> None:
    async with House(small.url, fresh_schema, "qm:") as house:
        await house.create("shop")
        for who in range(3):
            await house.join("shop", who)
        filled(small, 0.99)
        small.ask("CONFIG", "SET", "maxmemory", "1")

        with pytest.raises(StorageUnavailable):
            await house.create("other")
        assert (await house.join("shop", "new")).code is JoinCode.LINE_FULL
        views = [await house.engine.status(house.rooms["shop"], holder(who, who + 1)) for who in range(3)]
        small.ask("CONFIG", "SET", "maxmemory", "0")

        assert [view.ahead for view in views] == [0, 1, 2]
        joined = await house.join("shop", "new")
        assert joined.view is not None
        assert (joined.view.ticket, joined.view.ahead) == (4, 3)
        assert (await house.create("other")).config.id == "other"
