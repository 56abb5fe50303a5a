"""Upgrades: joined sockets, half-closes, refusals before a socket to the origin is opened."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import threading
import time

import pytest

from tests.harness import wait_for
from tests.inline.conftest import Front
from tests.inline.origin import Origin, Talk, plain, saying
from tests.inline.people import Visitor
from tests.inline.test_streaming import MIB, Steps, memory_of_worker, send_until_stuck
from tests.inline.test_streaming import steps as steps

UP = "GET /socket HTTP/1.1\nHost: {}\nConnection: keep-alive, Upgrade\nUpgrade: {}\nSec-WebSocket-Key: x\nOrigin: http://o"
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: y\r\n\r\n"
)


def upgrade(host: str = "open.test", protocol: str = "websocket", extra: str = "") -> bytes:
    return (UP.format(host, protocol) + extra).replace("\n", "\r\n").encode() + b"\r\n\r\n"


async def echo(talk: Talk) -> None:
    """Switch, greet at once, echo until the other side ends, then say goodbye."""
    await talk.say(SWITCH + b"hello ")
    while data := await talk.reader.read(65536):
        await talk.say(data)
    await talk.say(b"bye")
    talk.writer.close()


@pytest.mark.req("INL-148", "INL-151", "INL-153")
@pytest.mark.parametrize("protocol", ["websocket", "WebSocket", "websocket, other"])
def test_it_joins_the_two_sockets(front: Front, origin: Origin, protocol: str) -> None:
    origin.script = echo
    with front.connect() as client:
        # The visitor's first bytes come with the handshake, the origin's with its answer.
        client.send(upgrade(protocol=protocol, extra="\nCookie: a=1; qm_console=x") + b"early ")
        head = client.head()
        assert (head.status, head.header("upgrade"), head.header("sec-websocket-accept")) == (101, "websocket", "y")
        assert client.exactly(12) == b"hello early "
        for size in (1, 70_000, 1_000_000):
            client.send(bytes(size))
            assert client.exactly(size) == bytes(size)
        client.socket.shutdown(socket.SHUT_WR)  # half-close: the origin may still speak
        assert client.rest() == b"bye"
    received = origin.heads[0].split(b"\r\n")
    assert b"Upgrade: " + protocol.encode() in received
    assert b"Connection: Upgrade" in received
    assert {b"Sec-WebSocket-Key: x", b"Origin: http://o", b"Cookie: a=1", b"X-Forwarded-Host: open.test"} <= set(
        received
    )


@pytest.mark.req("INL-145", "INL-153")
@pytest.mark.parametrize("slow", ["origin", "visitor"])
def test_it_lets_the_slow_side_of_a_joined_connection_slow_the_other(
    front: Front, origin: Origin, steps: Steps, slow: str
) -> None:
    size, written = 32 * MIB, [0]

    async def script(talk: Talk) -> None:
        if slow == "visitor":
            await talk.say(SWITCH)
            while written[0] < size:
                await talk.say(bytes(65536))
                written[0] += 65536
            talk.writer.close()
            return
        talk.writer.transport.pause_reading()
        await talk.say(SWITCH)
        await steps.reached("measured")
        talk.writer.transport.resume_reading()
        left = size
        while left:
            left -= len(await talk.reader.read(MIB))
        await talk.say(b"all")

    origin.script = script
    memory = memory_of_worker(front)
    with front.connect() as client:
        before = memory()
        client.send(upgrade())
        assert client.head().status == 101
        if slow == "visitor":
            seen = -1
            while seen != written[0]:  # until the origin stands still
                seen = written[0]
                time.sleep(0.3)
            assert written[0] < size / 2
            assert memory() - before < 8 * MIB
            left = size - len(client.buffer)
            while left:
                left -= len(client.socket.recv(MIB))
            assert client.socket.recv(1) == b""
        else:
            sent = send_until_stuck(client, size)
            assert sent < size / 2
            assert memory() - before < 8 * MIB
            steps.done("measured")
            client.socket.settimeout(20)
            client.send(bytes(size - sent))
            assert client.exactly(3) == b"all"


@pytest.mark.req("INL-153")
def test_it_passes_the_end_of_the_origin_on(front: Front, origin: Origin) -> None:
    heard: list[bytes] = []

    async def script(talk: Talk) -> None:
        await talk.say(SWITCH + b"last")
        talk.writer.write_eof()
        heard.append(await talk.reader.read())
        talk.writer.close()

    origin.script = script
    with front.connect() as client:
        client.send(upgrade())
        assert client.head().status == 101
        assert client.rest() == b"last"  # half-closed: this side may still speak
        client.send(b"after")
        client.socket.shutdown(socket.SHUT_WR)
        wait_for(lambda: bool(heard))
    assert heard == [b"after"]


@pytest.mark.req("INL-153")
def test_it_passes_a_reset_on_in_both_directions(front: Front, origin: Origin) -> None:
    ended: list[object] = []

    async def script(talk: Talk) -> None:
        await talk.say(SWITCH)
        if talk.target == b"/socket":
            try:
                ended.append(await talk.reader.read())
            except ConnectionError as error:
                ended.append(error)
        await talk.reader.read(1)

    async def breaking(talk: Talk) -> None:
        await talk.say(SWITCH)
        await talk.reader.read(1)
        sock = talk.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        talk.writer.transport.abort()

    origin.script = script
    client = front.connect()
    client.send(upgrade())
    client.until(b"\r\n\r\n")
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()
    wait_for(lambda: bool(ended))
    assert isinstance(ended[0], ConnectionResetError)

    origin.script = breaking
    with front.connect() as client:
        client.send(upgrade())
        client.until(b"\r\n\r\n")
        client.send(b"x")
        with pytest.raises(ConnectionResetError):
            client.rest()


@pytest.mark.req("CFG-176")
def test_health_counts_connections_to_origins(front: Front, origin: Origin) -> None:
    def upstream() -> int:
        return int(front.admin("GET", "health")[1]["connections"]["upstream"])

    origin.script = echo
    wait_for(lambda: upstream() == origin.open)
    before = upstream()
    held = [front.connect() for _ in range(3)]
    for client in held:
        client.send(upgrade())
        client.until(b"hello ")

    wait_for(lambda: upstream() == origin.open >= 3)
    for client in held:
        client.socket.close()
    wait_for(lambda: upstream() == origin.open <= before)


@pytest.mark.req("INL-152")
def test_it_passes_any_other_answer_to_a_handshake_as_it_is(front: Front, origin: Origin) -> None:
    origin.script = saying(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")
    with front.connect() as client:
        client.send(upgrade())
        assert (client.answer().status, origin.connections > 0) == (403, True)
        origin.script = plain
        client.send(b"GET / HTTP/1.1\r\nHost: open.test\r\n\r\n")
        assert client.answer().body == b"ok"


@pytest.mark.req("INL-149", "INL-150", "INL-148", "INL-155")
@pytest.mark.parametrize("target", ["/socket", "/x.js"])
def test_it_lets_nobody_upgrade_who_waits(front: Front, origin: Origin, target: str) -> None:
    before = origin.connections
    with front.connect() as client:
        client.send(
            upgrade("shut.test", extra="\nAccept: text/html\nSec-Fetch-Mode: navigate").replace(
                b"/socket", target.encode()
            )
        )
        answer = client.answer()
    said = json.loads(answer.body)
    assert (answer.status, said["code"], said["reload"]) == (503, "queued", True)
    assert (answer.header("x-qm-queued"), answer.header("retry-after")) == ("1", "5")
    assert (origin.heads, origin.connections) == ([], before)


@pytest.mark.req("INL-154", "VIS-006")
def test_it_upgrades_nothing_of_its_own(front: Front, origin: Origin) -> None:
    for path in (b"/__qm/socket", b"/__qm/events", b"/__qm"):
        with front.connect() as client:
            client.send(upgrade().replace(b"/socket", path))
            answer = client.answer()
            assert (answer.status, json.loads(answer.body)["code"]) == (501, "upgrade_not_supported")
    assert origin.heads == []


@pytest.mark.req("INL-156")
def test_it_opens_no_tunnel_of_http_2(front: Front, origin: Origin) -> None:
    with front.connect() as client:
        for protocol in ("h2c", "H2C", "h2c, H2c", "HTTP/2.0"):
            client.send(upgrade(protocol=protocol, extra="\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"))
            assert client.answer().body == b"ok"
            lines = [line.partition(b":")[0].lower() for line in origin.heads[-1].split(b"\r\n")]
            assert not {b"upgrade", b"connection", b"http2-settings"} & set(lines)
        unmeant = client.ask("GET / HTTP/1.1\nHost: open.test\nUpgrade: websocket\nConnection: keep-alive")
        assert (unmeant.body, b"upgrade" in origin.heads[-1].lower()) == (b"ok", False)
        client.send(upgrade(protocol="h2c, websocket"))
        assert client.answer().body == b"ok"
    assert b"Upgrade: websocket" in origin.heads[-1].split(b"\r\n")


@pytest.mark.req("INL-156", "INL-236")
@pytest.mark.parametrize("named", [b"Upgrade: other\r\n", b"", b"Upgrade: websocket, h2c\r\n"])
def test_it_believes_only_a_protocol_that_was_asked_for(front: Front, origin: Origin, named: bytes) -> None:
    origin.script = saying(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n" + named + b"\r\n")
    with front.connect() as client:
        client.send(upgrade())
        answer = client.answer()
    assert (answer.status, answer.header("x-qm-origin")) == (502, "bad_response")


@pytest.mark.req("INL-157")
def test_it_says_when_the_origin_cannot_be_reached_during_a_handshake(front: Front, origin: Origin) -> None:
    origin.script = saying(b"", close=True)
    with front.connect() as client:
        client.send(upgrade(extra="\nAccept: text/html"))
        answer = client.answer()
        assert (answer.status, answer.header("x-qm-origin"), answer.header("connection")) == (502, "reset", "close")
        assert json.loads(answer.body)["code"] == "origin_unreachable"
        assert client.rest() == b""


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"


@pytest.mark.req("INL-147")
@pytest.mark.parametrize("is_whole", [True, False])
def test_it_ends_an_event_stream_with_what_it_rests_on(front: Front, origin: Origin, is_whole: bool) -> None:
    """As a joined connection; any other answer goes on to its end. A request in pieces goes another way through."""
    ended: list[bytes] = []

    async def script(talk: Talk) -> None:
        is_stream = talk.target == b"/events"
        await talk.say(EVENTS if is_stream else EVENTS.replace(b"event-stream", b"plain"))
        with contextlib.suppress(ConnectionError):
            for _ in range(300):  # it never falls silent, for which it would be cut
                if is_over.is_set() and not is_stream:
                    break
                await talk.say(b"1\r\n.\r\n")
                await asyncio.sleep(0.1)
            await talk.say(b"0\r\n\r\n")
        ended.append(talk.target)
        talk.writer.close()

    origin.script = script
    is_over = threading.Event()
    room = f"events-{is_whole}".lower()
    front.room(room, rate=6000, queueMaxPerIp=None)
    visitor = Visitor(front, room)
    visitor.wait_for_turn()
    held = {}
    for path in ("/events", "/file"):
        client = held[path] = front.connect(timeout=15.0)
        cookies = "; ".join(f"{name}={value}" for name, value in visitor.jar.items())
        lines = f"GET {path} HTTP/1.1\nHost: {visitor.host}\nUser-Agent: {visitor.agent}\nCookie: {cookies}\n\n"
        asked = lines.replace("\n", "\r\n").encode()
        cut = len(asked) if is_whole else 20
        client.send(asked[:cut])
        if not is_whole:
            wait_for(lambda: front.admin("GET", "health")[0] == 200)  # the first piece is read by then
            client.send(asked[cut:])
        assert client.until(b"hello")
    front.admin("POST", f"rooms/{room}/eject", {"ref": visitor.api(f"status?room={room}")["ref"]})

    assert not held["/events"].rest().endswith(b"0\r\n\r\n")  # no last chunk: it shows that more was to come
    wait_for(lambda: ended == [b"/events"])
    again = front.connect()
    again.send(asked)
    assert json.loads(again.answer().body)["code"] == "queued"
    is_over.set()
    assert held["/file"].until(b"0\r\n\r\n")
    for each in (visitor, again, *held.values()):
        each.close()


@pytest.mark.req("INL-153")
def test_it_ends_a_joined_connection_with_what_it_rests_on(front: Front, origin: Origin) -> None:
    """By eject and by the room's deletion; a session that idles out cuts nothing, its longest end does."""
    origin.script = echo
    front.room("sockets", rate=6000, queueMaxPerIp=None)
    front.room("idle", rate=6000, queueMaxPerIp=None, sessionTtlSec=1)
    front.room("short", rate=6000, queueMaxPerIp=None, sessionMaxSec=3)
    visitors = [Visitor(front, name, agent=f"B/{name}") for name in ("sockets", "idle", "short")]
    held = []
    for visitor in visitors:
        visitor.wait_for_turn()
        client = front.connect(timeout=12.0)
        cookies = "; ".join(f"{name}={value}" for name, value in visitor.jar.items())
        client.send(upgrade(visitor.host, extra=f"\nUser-Agent: {visitor.agent}\nCookie: {cookies}"))
        assert client.head().status == 101
        assert client.exactly(6) == b"hello "
        held.append(client)
    front.room("anybody", state="bypass")
    crowd = [front.connect(timeout=12.0) for _ in range(45)]
    for client in crowd:
        client.send(upgrade("anybody.test"))
        assert client.until(b"hello ")
    ref = visitors[0].api("status?room=sockets")["ref"]
    front.admin("POST", "rooms/sockets/eject", {"ref": ref})
    front.admin("DELETE", "rooms/anybody")

    assert held[0].rest() == b""  # within 10 s, or the socket's own timeout fails this
    assert held[2].rest() == b""
    for client in crowd:  # they rest on the room alone
        assert client.rest() == b""
    held[1].send(b"still")
    assert held[1].exactly(5) == b"still"
    front.admin("DELETE", "rooms/idle")
    front.room("idle", rate=6000)  # made anew at once, it is another room
    assert held[1].rest() == b""
    for each in (*visitors, *held, *crowd):
        each.close()
