"""A stop with transfers under way: they end in their own time, up to the limit of the drain."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time

import pytest

from app.core.runtime import INLINE_DRAIN_SEC, Runtime
from app.core.secret import Secret
from app.core.settings import Settings
from tests.harness import Server, wait_for
from tests.inline.conftest import Front
from tests.inline.origin import Origin, Talk
from tests.inline.test_upgrade import SWITCH, upgrade


@pytest.mark.req("INL-225", "CFG-195", "CFG-067")
@pytest.mark.parametrize(("given", "is_inline", "seconds"), [
    ([], False, 2.0), ([], True, INLINE_DRAIN_SEC), (["SHUTDOWN_DRAIN_MS"], True, 2.0),
])  # fmt: skip
def test_it_gives_transfers_more_time_unless_a_limit_was_set(given: list[str], is_inline: bool, seconds: float) -> None:
    runtime = Runtime(Settings(secret=Secret("s" * 32)), "", "", "i", "", 0, 1, True, given=frozenset(given))  # type: ignore[arg-type]
    runtime.has_inline.put(True)
    runtime.has_inline.put(is_inline)
    assert runtime.drain_sec == seconds


@pytest.mark.req("INL-224", "INL-226", "INL-230")
@pytest.mark.parametrize("workers", [2, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.req("CFG-194", "CFG-066", "CFG-067")
def test_it_lets_transfers_end_and_cuts_what_outlasts_the_drain(origin: Origin, workers: int) -> None:
    asked, go_on = threading.Semaphore(0), threading.Event()

    async def script(talk: Talk) -> None:
        if talk.target == b"/socket":
            await talk.say(SWITCH)
            with contextlib.suppress(ConnectionError):
                await talk.reader.read()
            return
        if talk.target != b"/late":
            await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
        asked.release()
        while not go_on.is_set():
            await asyncio.sleep(0.01)
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate" if talk.target == b"/late" else b"after")

    origin.script = script
    env = {"PROXY_ALLOW_PRIVATE": "1", "SHUTDOWN_GRACE_MS": "100", "SHUTDOWN_DRAIN_MS": "4000", "STORE": "embedded"}
    with Server(env=env, workers=workers) as server:
        Front(server, origin).room("open", state="bypass")
        server.restart()  # so that every worker knows the room before it is asked
        front = Front(server, origin)
        socket, transfer, idle, *late = (front.connect() for _ in range(5))
        socket.send(upgrade())
        assert socket.head().status == 101
        transfer.send(b"GET / HTTP/1.1\r\nHost: open.test\r\n\r\n")
        transfer.until(b"first")
        for client, before in zip(late, (b"", b"\r\n"), strict=True):
            client.send(before + b"GET /late HTTP/1.1\r\nHost: open.test\r\n\r\n")
        assert all(asked.acquire(timeout=20) for _ in range(3))
        server.kill(signal.SIGTERM)
        began = time.monotonic()
        assert idle.rest() == b""  # closed with the grace
        time.sleep(0.5)
        go_on.set()
        assert transfer.rest() == b"after"
        for client in late:  # whose answer begins when nothing more can be asked
            answer = client.answer()
            assert (answer.body, answer.header("connection"), client.rest()) == (b"late", "close", b"")
        wait_for(lambda: not _connects(front))
        assert socket.rest() == b""
        assert time.monotonic() - began > 1.5  # the socket lived on, to the limit
        server.wait()
        for each in (socket, transfer, idle, *late):
            each.close()


def _connects(front: Front) -> bool:
    try:
        front.connect(timeout=1.0).close()
    except OSError:
        return False
    return True
