"""Many visitors who do everything at random: each answer is the one that was asked for, and nothing is left open.

The seed of each run is printed and can be set by `QM_CHAOS_SEED`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import threading
from collections.abc import Callable

import psutil
import pytest

from tests.harness import wait_for
from tests.inline.conftest import Front
from tests.inline.origin import Origin, Talk
from tests.inline.raw import Client
from tests.inline.test_streaming import reset
from tests.inline.test_upgrade import SWITCH

VISITORS = 12
LATE = b"\r\n"
"""Before a request: it is then served by the connection's task, and else without one."""


async def answer(talk: Talk) -> None:
    """By the first part of the path; what is said is its last part."""
    kind, said = talk.target.split(b"/")[1], talk.target.rpartition(b"/")[2].partition(b".")[0]
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said)
    if kind == b"early":
        await talk.say(head + said)
        with contextlib.suppress(ConnectionError):
            await talk.reader.read()
        talk.writer.close()
    elif kind == b"socket":
        await talk.say(SWITCH)
        while data := await talk.reader.read(65536):
            await talk.say(data)
        talk.writer.close()
    else:
        await _after_body(talk, kind, head, said, await talk.body())


async def _after_body(talk: Talk, kind: bytes, head: bytes, said: bytes, body: bytes) -> None:
    if body:
        assert body == said * 50
    if talk.method == b"HEAD":
        await talk.say(head)
    elif kind == b"cut":
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + said)
        talk.writer.close()
    elif kind == b"slow":
        await talk.say(head)
        await asyncio.sleep(0.002)
        await talk.say(said)
    elif kind == b"chunks":
        await talk.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(said) + said)
        await talk.say(b"\r\n0\r\n\r\n")
    elif kind == b"close":
        await talk.say(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + said)
        talk.writer.close()
    else:
        await talk.say(head + said)


def line(method: bytes, kind: bytes, said: bytes, fields: bytes = b"") -> bytes:
    return b"%b /%b/%b HTTP/1.1\r\nHost: open.test\r\n%b\r\n" % (method, kind, said, fields)


class Person:
    """One visitor; ``wrong``: what he was told that he should not have been."""

    def __init__(self, front: Front, dice: random.Random, wrong: list[object]) -> None:
        self.front, self.dice, self.wrong = front, dice, wrong
        self.client = front.connect()

    def again(self) -> None:
        """Leave, one way or another, and come back."""
        reset(self.client) if self.dice.random() < 0.5 else self.client.close()
        self.client = self.front.connect()

    def turn(self, said: bytes) -> None:
        acts: tuple[Callable[[bytes], None], ...] = (
            *(self.look,) * 4, self.post, self.post_chunks, self.head, self.cut, self.away, self.half, self.early,
            self.socket,
        )  # fmt: skip
        if self.dice.random() < 0.3:
            self.client.send(LATE)
        self.dice.choice(acts)(said)

    def expect(self, said: bytes, *, is_whole: bool = True, method: str = "GET") -> Client:
        found = self.client.answer(method=method)
        if (found.status, found.body, found.is_whole) != (200, b"" if method == "HEAD" else said, is_whole):
            self.wrong.append((said, found))
        if not is_whole or found.header("connection") == "close":
            self.again()
        return self.client

    def look(self, said: bytes) -> None:
        kind = self.dice.choice((b"plain", b"slow", b"chunks", b"close"))
        self.client.send(line(b"GET", kind, said + self.dice.choice((b"", b".css"))))
        self.expect(said)

    def head(self, said: bytes) -> None:
        self.client.send(line(b"HEAD", b"plain", said))
        self.expect(said, method="HEAD")

    def post(self, said: bytes) -> None:
        body = said * 50
        head = line(b"POST", b"plain", said, b"Content-Length: %d\r\n" % len(body))
        cut = self.dice.randrange(len(body))
        self.client.send(*self.dice.choice(((head + body,), (head, body), (head + body[:cut], body[cut:]))))
        self.expect(said)

    def post_chunks(self, said: bytes) -> None:
        self.client.send(line(b"POST", b"slow", said, b"Transfer-Encoding: chunked\r\n"))
        for _ in range(10):
            self.client.send(b"%x\r\n%b\r\n" % (5 * len(said), said * 5))
        self.client.send(b"0\r\n\r\n")
        self.expect(said)

    def cut(self, said: bytes) -> None:
        self.client.send(line(b"GET", b"cut", said))
        self.expect(said, is_whole=False)

    def away(self, said: bytes) -> None:
        self.client.send(line(b"GET", self.dice.choice((b"plain", b"slow", b"chunks")), said))
        self.again()

    def half(self, said: bytes) -> None:
        self.client.send(line(b"POST", b"plain", said, b"Content-Length: 90000\r\n") + said)
        self.again()

    def early(self, said: bytes) -> None:
        self.client.send(line(b"POST", b"early", said, b"Content-Length: 90000\r\n"), said)
        self.expect(said)

    def socket(self, said: bytes) -> None:
        self.client.send(line(b"GET", b"socket", said, b"Connection: Upgrade\r\nUpgrade: websocket\r\n") + said)
        if self.client.head().status != 101 or self.client.exactly(len(said)) != said:
            self.wrong.append(("socket", said))
        self.again()


@pytest.mark.req("INL-236", "INL-177")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("turns", [120, pytest.param(800, marks=pytest.mark.slow)])
def test_it_gives_everybody_his_own_answer_and_leaves_nothing_open(front: Front, origin: Origin, turns: int) -> None:
    seed = int(os.environ.get("QM_CHAOS_SEED") or secrets.randbelow(1_000_000))
    print(f"QM_CHAOS_SEED={seed}")
    worker = psutil.Process(next(pid for pid, words in front.server.descendants().items() if "qm-web" in words))

    def held() -> tuple[int, int]:
        """Connections of visitors besides the asking one, and open files that are none to the origin."""
        block = front.admin("GET", "health")[1]["connections"]
        return block["open"] - 1, worker.num_fds() - block["upstream"]

    connections, files = held()
    origin.script = answer
    wrong: list[object] = []

    def visit(own: int) -> None:
        person = Person(front, random.Random(seed + own), wrong)
        try:
            for number in range(turns):
                person.turn(b"%d" % ((own + 1) * 100_000 + number))
        except Exception as error:
            wrong.append(error)
        person.client.close()

    threads = [threading.Thread(target=visit, args=(own,)) for own in range(VISITORS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)

    assert wrong == []
    wait_for(lambda: origin.busy == 0)
    wait_for(lambda: held()[0] <= connections)
    wait_for(lambda: held()[1] <= files + 8)  # a store's connection may have been opened meanwhile
    assert origin.open <= 128
