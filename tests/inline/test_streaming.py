"""Nothing is held back, nothing fills memory, and every end is passed on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable

import psutil
import pytest

from tests.inline import surge
from tests.inline.conftest import Front
from tests.inline.origin import Origin, Talk, plain, saying
from tests.inline.raw import Client

HOST = b"Host: open.test\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
MIB = 1 << 20


class Steps:
    """Events that a test and the origin's script tell each other."""

    def __init__(self) -> None:
        self._events: dict[str, threading.Event] = {}

    def _event(self, name: str) -> threading.Event:
        return self._events.setdefault(name, threading.Event())

    def done(self, name: str) -> None:
        self._event(name).set()

    def wait(self, name: str) -> None:
        assert self._event(name).wait(20), name

    async def reached(self, name: str) -> None:
        while not self._event(name).is_set():
            await asyncio.sleep(0.005)


@pytest.fixture
def steps() -> Steps:
    return Steps()


def reset(client: Client) -> None:
    """Break the connection off."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


def memory_of_worker(front: Front) -> Callable[[], int]:
    """Resident bytes of the one web worker."""
    pid = next(pid for pid, line in front.server.descendants().items() if "qm-web" in line)
    process = psutil.Process(pid)
    return lambda: process.memory_info().rss


@pytest.mark.req("INL-143")
@pytest.mark.parametrize("head", [
    b"Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n", b"Content-Length: 11\r\n\r\nfirst", b"\r\nfirst",
    b"Content-Type: text/event-stream\r\n\r\nfirst",
])  # fmt: skip
def test_it_passes_the_first_bytes_on_before_the_origin_makes_the_next(
    front: Front, origin: Origin, steps: Steps, head: bytes
) -> None:
    async def script(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 200 OK\r\n" + head)
        await steps.reached("seen")
        await talk.say(b"6\r\nsecond\r\n0\r\n\r\n" if b"chunked" in head else b"second")
        talk.writer.close()

    origin.script = script
    with front.connect() as client:
        client.send(GET)
        client.until(b"first")  # the origin waits for this
        steps.done("seen")
        client.until(b"second")


@pytest.mark.req("INL-144", "INL-129")
def test_it_passes_an_upload_on_as_it_comes(front: Front, origin: Origin, steps: Steps) -> None:
    async def script(talk: Talk) -> None:
        assert await talk.reader.readexactly(5) == b"first"
        steps.done("got first")
        assert await talk.reader.readexactly(6) == b"second"
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    origin.script = script
    with front.connect() as client:
        client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 11\r\n\r\nfirst")
        steps.wait("got first")
        client.send(b"second")
        assert client.answer().status == 200


@pytest.mark.req("INL-144", "INL-127", "INL-129")
def test_it_frames_a_chunked_upload_anew_and_drops_its_trailers(front: Front, origin: Origin) -> None:
    async def script(talk: Talk) -> None:
        origin.bodies.append(await talk.body())
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    origin.script = script
    with front.connect() as client:
        client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        for piece in (b"3;x=y\r\nabc\r", b"\n0", b"2\r\nde\r\n", b"0\r\nT: 1\r\nU: 2\r\n", b"\r\n"):
            client.send(piece)
        assert client.answer().status == 200
        client.send(GET)
        assert client.answer().status == 200
    assert origin.bodies == [b"abcde", b""]
    assert origin.heads[0].split(b"\r\n")[2] == b"Transfer-Encoding: chunked"


@pytest.mark.req("INL-129", "INL-087")
def test_it_asks_for_a_body_only_once_the_gate_has_let_it_through(front: Front, origin: Origin) -> None:
    expecting = b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    with front.connect() as client:
        client.send(b"POST / HTTP/1.1\r\n" + HOST + expecting)
        assert client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"ab")
        assert client.answer().status == 200
    with front.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: shut.test\r\n" + expecting)
        answer = client.answer()
        assert (answer.status, answer.header("connection")) == (503, "close")
        assert client.rest() == b""
    assert b"Expect" not in origin.heads[0]
    front.room("deaf", state="bypass", proxyOrigin="http://127.0.0.1:1")
    with front.connect() as client:  # nor before the origin can be reached
        client.send(b"POST / HTTP/1.1\r\nHost: deaf.test\r\n" + expecting)
        answer = client.answer()
        assert (answer.status, answer.header("connection")) == (502, "close")


@pytest.mark.req("INL-087")
def test_it_reads_no_more_of_an_unwanted_body_than_64_kib(front: Front) -> None:
    with front.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: shut.test\r\nContent-Length: 5\r\n\r\nhello")
        assert client.answer().header("connection") == "keep-alive"
        with front.connect() as chunked:  # nobody knows how long it will be
            chunked.send(b"POST / HTTP/1.1\r\nHost: shut.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            answer = chunked.answer()
            assert (answer.status, answer.header("connection"), chunked.rest()) == (503, "close", b"")
        client.send(b"POST / HTTP/1.1\r\nHost: shut.test\r\nContent-Length: 90000000\r\n\r\n")
        answer = client.answer()
        assert (answer.status, answer.header("connection")) == (503, "close")
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 64 * MIB:
                sent += client.socket.send(bytes(65536))
        assert sent < 16 * MIB  # what the sockets of this machine hold, and 64 KiB


@pytest.mark.req("INL-146")
def test_it_passes_an_answer_on_that_comes_before_the_upload_ends(front: Front, origin: Origin) -> None:
    origin.script = lambda talk: talk.say(b"HTTP/1.1 413 Too Big\r\nContent-Length: 3\r\n\r\nbig")
    with front.connect() as client:
        client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1000000\r\n\r\nabc")
        answer = client.answer()
        assert (answer.status, answer.body, answer.header("connection")) == (413, b"big", "close")
    origin.script = plain
    for _ in range(10):  # the half used connection serves nobody else
        with front.connect() as client:
            client.send(GET)
            assert (client.answer().body, origin.heads[-1].startswith(b"GET / HTTP/1.1\r\n")) == (b"ok", True)


@pytest.mark.req("INL-144", "INL-145")
def test_it_lets_a_slow_origin_slow_the_visitor(front: Front, origin: Origin, steps: Steps) -> None:
    size = 48 * MIB

    async def script(talk: Talk) -> None:
        talk.writer.transport.pause_reading()
        await steps.reached("measured")
        talk.writer.transport.resume_reading()
        left = size
        while left:
            left -= len(await talk.reader.read(MIB))
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    origin.script = script
    memory = memory_of_worker(front)
    with front.connect() as client:
        before = memory()
        client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % size)
        sent = send_until_stuck(client, size)
        assert sent < size / 2
        assert memory() - before < 8 * MIB
        steps.done("measured")
        client.socket.settimeout(20)
        while sent < size:
            sent += client.socket.send(bytes(min(65536, size - sent)))
        assert client.answer().status == 200
        assert memory() - before < 8 * MIB


def send_until_stuck(client: Client, size: int) -> int:
    """Send up to ``size`` bytes until nobody takes more; how many were taken."""
    sent = 0
    client.socket.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        while sent < size:
            sent += client.socket.send(bytes(min(65536, size - sent)))
    return sent


@pytest.mark.req("INL-145")
def test_it_lets_a_slow_visitor_slow_the_origin(front: Front, origin: Origin, steps: Steps) -> None:
    size, written = 48 * MIB, [0]

    async def script(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while written[0] < size:
            await talk.say(bytes(65536))
            written[0] += 65536

    origin.script = script
    memory = memory_of_worker(front)
    with front.connect() as client:
        before = memory()
        client.send(GET)
        client.head()
        seen = -1
        while seen != written[0]:  # until the origin stands still
            seen = written[0]
            time.sleep(0.3)
        assert written[0] < size / 2
        assert memory() - before < 8 * MIB
        time.sleep(1.7)  # longer than PROXY_TIMEOUT_MS: a visitor's slowness is not the origin's
        left = size - len(client.buffer)
        while left:
            left -= len(client.socket.recv(MIB))


@pytest.mark.req("INL-145")
def test_it_asks_no_more_of_the_origin_while_a_visitor_has_answers_to_take(front: Front, origin: Origin) -> None:
    """Requests in a row, each answer of which would find room, are held back by the answers before them."""
    origin.script = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n" + bytes(40000))
    memory = memory_of_worker(front)
    with front.connect() as client:
        before = memory()
        client.send(GET * 1200)
        seen = -1
        while seen != len(origin.heads):  # until nothing is asked any longer
            seen = len(origin.heads)
            time.sleep(0.5)
        assert seen < 600
        assert memory() - before < 8 * MIB
        for _ in range(1200):
            assert len(client.answer().body) == 40000


@pytest.mark.req("INL-158", "INL-170", "INL-230", "CFG-060")
def test_it_waits_for_an_answer_no_longer_than_it_is_told(front: Front, origin: Origin) -> None:
    async def script(talk: Talk) -> None:
        await talk.body()
        with contextlib.suppress(ConnectionError):
            await talk.reader.read()
        talk.writer.close()

    origin.script = script
    began = time.monotonic()

    late = surge.rows(front, "open.test")  # a GET of a page and a POST of a script, at the same time

    assert time.monotonic() - began > 1.4
    assert late == surge.down(504, "origin_timeout", "timeout")
    assert not any(row.cdn_acts for row in late)


@pytest.mark.req("INL-158")
def test_it_waits_no_longer_for_a_head_that_comes_drop_by_drop(front: Front, origin: Origin) -> None:
    async def script(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
        with contextlib.suppress(ConnectionError):
            while not talk.writer.is_closing():
                await asyncio.sleep(0.2)
                await talk.say(b"X-More: 1\r\n")

    origin.script = script
    with front.connect() as fast, front.connect() as slow:
        fast.send(GET)
        slow.send(b"\r\n" + GET)
        for client in (fast, slow):
            answer = client.answer()
            assert (answer.status, answer.header("x-qm-origin")) == (504, "timeout")


@pytest.mark.req("INL-158")
def test_it_does_not_count_a_slow_upload_as_the_origins_time(front: Front, origin: Origin) -> None:
    with front.connect() as client:
        client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n\r\n")
        for _ in range(4):
            time.sleep(0.6)
            client.send(b"x")
        assert client.answer().status == 200


@pytest.mark.req("INL-160", "INL-147")
def test_it_cuts_a_silent_body_but_never_an_event_stream(front: Front, origin: Origin, steps: Steps) -> None:
    async def script(talk: Talk) -> None:
        kind = b"text/event-stream" if talk.target == b"/events" else b"text/plain"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
        await talk.say(head + b"1\r\na\r\n")
        if talk.target == b"/events":
            await asyncio.sleep(2.5)
            await talk.say(b"1\r\nb\r\n0\r\n\r\n")
        else:
            with contextlib.suppress(ConnectionError):
                await talk.reader.read()
            talk.writer.close()

    origin.script = script
    with front.connect() as stream, front.connect() as client:
        stream.send(b"GET /events HTTP/1.1\r\n" + HOST + b"\r\n")
        client.send(GET)
        answer = client.answer()
        assert (answer.status, answer.body, answer.is_whole) == (200, b"a", False)
        whole = stream.answer()
        assert (whole.body, whole.is_whole) == (b"ab", True)


@pytest.mark.req("INL-132")
def test_it_sends_again_only_what_may_be_sent_twice(front: Front, origin: Origin) -> None:
    async def script(talk: Talk) -> None:
        await talk.body()
        if talk.target == b"/half":
            await talk.say(b"HTTP/1.1 2")
        if talk.target != b"/":
            talk.writer.close()
            return
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    origin.script = script
    for line, rest, times in (
        (b"GET /drop", b"\r\n", 2),  # on the used connection, and once on a new one
        (b"HEAD /drop", b"\r\n", 2),
        (b"GET /half", b"\r\n", 1),
        (b"GET /drop", b"Content-Length: 1\r\n\r\nx", 1),
        (b"GET /drop", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1),
        (b"GET /drop", b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 1),
        (b"POST /drop", b"Content-Length: 1\r\n\r\nx", 1),
        (b"POST /drop", b"\r\n", 1),
        (b"DELETE /drop", b"\r\n", 1),
    ):
        for before in (b"", b"\r\n"):  # a line end takes it the long way
            with front.connect() as client:
                client.send(GET)
                client.answer()  # leaves a connection in the pool
                origin.heads.clear()
                client.send(before + line + b" HTTP/1.1\r\n" + HOST + rest)
                assert client.answer(method=line.split(b" ")[0].decode()).status == 502
                assert [head.split(b" HTTP")[0] for head in origin.heads] == [line] * times, (before, line, rest)


@pytest.mark.req("INL-132")
def test_it_does_not_send_again_what_timed_out(front: Front, origin: Origin) -> None:
    async def script(talk: Talk) -> None:
        if talk.target == b"/hang":
            with contextlib.suppress(ConnectionError):
                await talk.reader.read()
            return
        await saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")(talk)

    origin.script = script
    with front.connect() as client:
        client.send(GET)
        client.answer()
        client.send(b"GET /hang HTTP/1.1\r\n" + HOST + b"\r\n")
        assert client.answer().status == 504
    assert [head.split(b" ", 2)[1] for head in origin.heads] == [b"/", b"/hang"]


@pytest.mark.req("INL-236")
def test_it_serves_pipelined_requests_of_two_hosts_in_their_order(front: Front, origin: Origin) -> None:
    with front.connect() as client:
        shut = b"GET /b HTTP/1.1\r\nHost: shut.test\r\n\r\n"
        health = b"GET /healthz HTTP/1.1\r\nHost: queue.test\r\n\r\n"
        check = b"GET /api/check?room=shut HTTP/1.1\r\nHost: queue.test\r\n\r\n"
        client.send((GET + shut + health + check) * 5)
        statuses = [client.answer().status for _ in range(20)]
    assert statuses == [200, 503, 200, 200] * 5
    assert len(origin.heads) == 5
