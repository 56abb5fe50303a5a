"""Handlers that run without a task of their own."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from blueprints.edge.reply import HotReply
from blueprints.edge.request import HotRequest
from blueprints.edge.run import HotRun

Outcome = tuple[HotReply | None, BaseException | None]
NOBODY = cast(HotRequest, SimpleNamespace(request_id="01"))


async def outcome_of(handler: Callable[[HotRequest], Coroutine[Any, Any, HotReply]]) -> Outcome:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Outcome] = loop.create_future()
    # A callback that fails is logged and forgotten; here it is the outcome.
    loop.set_exception_handler(lambda _, facts: done.set_exception(facts["exception"]))

    def finish(run: HotRun, reply: HotReply | None, error: BaseException | None) -> None:
        done.set_result((reply, error))

    # From a callback, where no task is current, as a protocol is called.
    loop.call_soon(lambda: HotRun(loop, handler, NOBODY, True, finish).start())
    return await asyncio.wait_for(done, 10)


async def test_it_begins_next_when_a_task_is_under_way() -> None:
    """Answers of the engine are told within its own task, and what comes after them begins there."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[HotReply | None] = loop.create_future()
    seen: list[Any] = []

    async def handler(_request: HotRequest) -> HotReply:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        return HotReply(201)

    run = HotRun(loop, handler, NOBODY, True, lambda _run, reply, _error: done.set_result(reply))
    run.start()

    assert seen == [], "this test is a task itself"
    reply = await asyncio.wait_for(done, 10)
    assert reply is not None
    assert (reply.status, seen) == (201, [run])


async def test_it_gives_the_reply_at_once_when_nothing_is_waited_for() -> None:
    loop = asyncio.get_running_loop()
    order: list[str] = []
    ready = asyncio.Event()

    async def handler(_request: HotRequest) -> HotReply:
        order.append("handler")
        return HotReply(201)

    def begin() -> None:
        HotRun(loop, handler, NOBODY, True, lambda *_: order.append("done")).start()
        order.append("started")
        ready.set()

    loop.call_soon(begin)
    await ready.wait()

    assert order == ["handler", "done", "started"]


async def test_it_waits_for_futures_sleeps_and_other_tasks() -> None:
    async def handler(_request: HotRequest) -> HotReply:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        loop.call_later(0.01, future.set_result, 3)
        found = await future
        await asyncio.sleep(0)
        found += sum(await asyncio.gather(asyncio.sleep(0.01, 1), asyncio.sleep(0, 2)))
        found += await asyncio.wait_for(asyncio.sleep(0.01, 4), 5)
        found += await asyncio.shield(asyncio.sleep(0, 5))
        return HotReply(body=b"%d" % found)

    reply, error = await outcome_of(handler)

    assert error is None
    assert reply == HotReply(body=b"15")


@pytest.mark.parametrize("wait", [0, 0.01])
async def test_it_hands_over_what_a_handler_raises(wait: float) -> None:
    async def handler(_request: HotRequest) -> HotReply:
        if wait:
            await asyncio.sleep(wait)
        raise KeyError("x")

    reply, error = await outcome_of(handler)

    assert reply is None
    assert isinstance(error, KeyError)


async def test_it_raises_into_the_handler_what_it_waited_for() -> None:
    async def handler(_request: HotRequest) -> HotReply:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, OSError("down"))
        try:
            await future
        except OSError as error:
            return HotReply(body=str(error).encode())
        return HotReply(500)

    assert await outcome_of(handler) == (HotReply(body=b"down"), None)


async def test_it_supports_nested_timeouts_and_task_groups() -> None:
    async def handler(_request: HotRequest) -> HotReply:
        said = []
        try:
            async with asyncio.timeout(0.02):
                async with asyncio.timeout(5):
                    await asyncio.sleep(3600)
        except TimeoutError:
            said.append(b"outer")
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(3600)
        except TimeoutError:
            said.append(b"zero")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(3600))
                group.create_task(fail())
        except* KeyError:
            said.append(b"group")
        async with asyncio.timeout(5):
            await asyncio.sleep(0.01)
        return HotReply(body=b" ".join(said))

    async def fail() -> None:
        raise KeyError

    assert await outcome_of(handler) == (HotReply(body=b"outer zero group"), None)


async def test_it_ends_when_what_it_waits_for_is_cancelled() -> None:
    async def handler(_request: HotRequest) -> HotReply:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.cancel)
        await future
        return HotReply()

    reply, error = await outcome_of(handler)

    assert reply is None
    assert isinstance(error, asyncio.CancelledError)


async def test_it_refuses_what_cannot_be_waited_for() -> None:
    class Odd:
        def __await__(self) -> Any:
            yield 7

    async def handler(_request: HotRequest) -> HotReply:
        await Odd()
        return HotReply()

    reply, error = await outcome_of(handler)

    assert reply is None
    assert isinstance(error, RuntimeError)


async def test_it_keeps_context_to_itself_and_over_waits() -> None:
    mark: contextvars.ContextVar[int] = contextvars.ContextVar("mark", default=0)

    async def handler(_request: HotRequest) -> HotReply:
        before = mark.get()
        mark.set(before + 1)
        await asyncio.sleep(0.01)
        return HotReply(body=b"%d%d" % (before, mark.get()))

    assert await outcome_of(handler) == (HotReply(body=b"01"), None)
    assert await outcome_of(handler) == (HotReply(body=b"01"), None)
    assert mark.get() == 0
