"""Gathering of visitor calls into few calls of the library."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError

from app.core.errors import StorageUnavailable
from app.core.log import REQUEST_ID
from app.infrastructure.engine import Engine
from app.infrastructure.engine_pack import pack_status
from app.infrastructure.engine_results import JoinCode, ViewState
from app.infrastructure.lua_loader import LuaFailure, LuaLoader
from app.infrastructure.valkey import Valkey
from tests.engine.world import Browser, World


class Counted(LuaLoader):
    """A loader that notes its calls and fails on demand."""

    def __init__(self, valkey: Valkey) -> None:
        super().__init__(valkey)
        self.sizes: list[tuple[str, int]] = []
        self.failure: Exception | None = None
        self.reply: Any = None

    async def call(self, name: str, key: str, *args: Any) -> Any:
        self.sizes.append((name, len(args)))
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        if self.reply is not None:
            return self.reply
        return await super().call(name, key, *args)

    async def call_many(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        return await super().call_many(calls)


@pytest.fixture
def counted(world: World) -> Counted:
    """The world's engine, behind a counting loader."""
    loader = Counted(world.valkey)
    world.engine = Engine(world.valkey, world.prefix, loader)
    return loader


async def test_it_sends_what_arrives_together_in_one_call(world: World, counted: Counted) -> None:
    await world.create(rate_per_minute=0)

    await asyncio.gather(*(world.join(Browser()) for _ in range(100)))

    assert counted.sizes == [("join", 103)]


async def test_it_sends_at_most_five_hundred_items_at_once(world: World, counted: Counted) -> None:
    await world.create(rate_per_minute=0)

    answers = await asyncio.gather(*(world.join(Browser()) for _ in range(1100)))

    assert [size - 3 for _, size in counted.sizes] == [500, 500, 100]
    assert [a.view.ticket for a in answers if a.view] == list(range(1, 1101))


async def test_it_gathers_what_comes_while_a_call_is_in_flight(world: World, counted: Counted) -> None:
    await world.create(rate_per_minute=0)
    first = asyncio.ensure_future(world.join(Browser()))
    while not counted.sizes:
        await asyncio.sleep(0)

    await asyncio.gather(first, *(world.join(Browser()) for _ in range(50)))

    assert [size - 3 for _, size in counted.sizes] == [1, 50]


async def test_it_keeps_answers_with_their_askers_when_one_goes_away(world: World, counted: Counted) -> None:
    await world.create(rate_per_minute=0)
    browsers = await world.joined(5)
    asked = [asyncio.ensure_future(world.status(b)) for b in browsers]
    await asyncio.sleep(0)

    asked[2].cancel()
    views = await asyncio.gather(*asked, return_exceptions=True)

    assert isinstance(views[2], asyncio.CancelledError)
    assert [v.ticket for v in views if not isinstance(v, BaseException)] == [1, 2, 4, 5]


@pytest.mark.parametrize("error", [StorageUnavailable(), LuaFailure("a bug"), ValueError("a bug")])
async def test_it_tells_every_asker_of_a_failed_call_and_goes_on(
    world: World, counted: Counted, error: Exception
) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()
    counted.failure = error

    views = await asyncio.gather(*(world.status(browser) for _ in range(3)), return_exceptions=True)

    assert views == [error] * 3
    assert (await world.status(browser)).state is ViewState.WAITING


async def test_it_keeps_holders_and_refuses_newcomers_when_memory_is_short(world: World, counted: Counted) -> None:
    await world.create(rate_per_minute=0)
    (holder,) = await world.joined()
    counted.failure = StorageUnavailable()
    counted.failure.__cause__ = OutOfMemoryError("OOM")

    kept, refused = await asyncio.gather(world.join(holder), world.join(Browser()))

    assert (kept.code, refused.code) == (JoinCode.EXISTING, JoinCode.LINE_FULL)


@pytest.mark.parametrize(
    "reply", [[0, 1, 1, 0, b"60", 0, 1, 1, b""], [0, "odd"], [0, 1, 1, 0, b"60", 0, 1, 1, b"short"]]
)
async def test_it_tells_everybody_when_a_reply_cannot_be_read(world: World, counted: Counted, reply: Any) -> None:
    await world.create(rate_per_minute=0)
    browsers = await world.joined(2)
    counted.reply = reply

    answers = await asyncio.gather(*(world.status(browser) for browser in browsers), return_exceptions=True)

    assert [isinstance(answer, Exception) for answer in answers] == [True, True]


async def test_it_answers_many_in_the_name_of_none(world: World, counted: Counted) -> None:
    await world.create(rate_per_minute=0)
    browser = (await world.joined(1))[0]
    heard: list[str | None] = []

    class Listening(asyncio.Future[Any]):
        def set_result(self, answer: Any) -> None:
            heard.append(REQUEST_ID.get(None))
            super().set_result(answer)

    REQUEST_ID.set("of the first")
    answers = [Listening(), Listening()]
    for answer in answers:
        world.engine.ask_status(world.room, pack_status(browser.proof(), told=True, seen=True, bind=False), answer)
    await asyncio.gather(*answers)

    assert heard == [None, None]
