"""Hints of other processes: none waits for the handler of another, and none is lost while one is handled."""

from __future__ import annotations

import asyncio

import structlog

from app.core.errors import StorageUnavailable
from app.infrastructure import hints as module
from app.infrastructure.hints import Hints


class Reader:
    """A handler that reads a store for as long as a test wants."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.may_end = asyncio.Event()

    async def __call__(self, text: str) -> None:
        self.read.append(text)
        await self.may_end.wait()


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_slow_handler_keeps_no_other_hint_waiting() -> None:
    hints, slow = Hints(), Reader()
    heard: list[str] = []
    hints.on("room", slow)
    hints.on("signout", heard.append)

    for body in (b"room shop", b"room drop", b"signout s1", b"nobody cares", b"signout s2"):
        hints.hear(body)
    await settle()

    assert slow.read == ["shop", "drop"]
    assert heard == ["s1", "s2"]
    await hints.stop()


async def test_a_hint_that_comes_again_while_it_is_handled_is_handled_once_more() -> None:
    hints, slow = Hints(), Reader()
    hints.on("room", slow)
    hints.hear(b"room shop")
    await settle()
    for _ in range(3):
        hints.hear(b"room shop")
    await settle()
    assert slow.read == ["shop"]

    slow.may_end.set()
    await settle()
    assert slow.read == ["shop", "shop"]
    hints.hear(b"room shop")
    await settle()

    assert slow.read == ["shop"] * 3


async def test_a_handler_that_fails_ends_nothing() -> None:
    hints = Hints()
    heard: list[str] = []

    def handler(text: str) -> None:
        heard.append(text)
        raise StorageUnavailable if text == "away" else ValueError(text)

    hints.on("room", handler)
    with structlog.testing.capture_logs() as lines:
        for body in (b"room away", b"room bad", b"room \xff", b"room away"):
            hints.hear(body)
            await settle()

    assert heard == ["away", "bad", "\ufffd", "away"]
    assert [line["event"] for line in lines] == [
        "hint_not_handled", "hint_handler_failed", "hint_handler_failed", "hint_not_handled",
    ]  # fmt: skip


async def test_it_takes_a_bounded_number_and_ends_what_is_under_way() -> None:
    hints, slow = Hints(), Reader()
    hints.on("room", slow)
    with structlog.testing.capture_logs() as lines:
        for number in range(module.HINTS_MAX + 2):
            hints.hear(b"room r%d" % number)
    await settle()
    assert len(slow.read) == module.HINTS_MAX
    assert [line["event"] for line in lines] == ["hint_left_to_the_resync"] * 2

    await hints.stop()

    assert len(asyncio.all_tasks()) == 1
