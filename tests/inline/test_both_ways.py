"""Both directions at once, over TLS to the app too, and handshakes that the app leaves unanswered."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import wait_for
from tests.inline.conftest import Front
from tests.inline.origin import Origin, Talk
from tests.inline.test_streaming import HOST, MIB, memory_of_worker
from tests.inline.test_upgrade import SWITCH, echo, upgrade
from tests.process.tls import make_certificate


async def mirror(talk: Talk) -> None:
    """Each chunk of the upload comes back before the next one is read."""
    await talk.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while size := int(await talk.reader.readline(), 16):
        data = await talk.reader.readexactly(size + 2)
        await talk.say(b"%x\r\n%b" % (size, data))
    await talk.reader.readexactly(2)
    await talk.say(b"0\r\n\r\n")


@pytest.fixture(scope="module")
def behind_tls(the_front: Front, authority: Path) -> Iterator[Origin]:
    """An origin that speaks TLS, behind room ``sealed``."""
    with Origin(tls=make_certificate(authority, "ours", "origin", "IP:127.0.0.1")) as made:
        the_front.room("sealed", state="bypass", proxyOrigin=made.address)
        yield made
        the_front.admin("DELETE", "rooms/sealed")


@pytest.mark.req("INL-143", "INL-144", "INL-146")
@pytest.mark.parametrize("host", [b"open.test", b"sealed.test"])
def test_it_passes_an_answer_on_while_the_upload_goes_on(
    front: Front, origin: Origin, behind_tls: Origin, host: bytes
) -> None:
    origin.script = behind_tls.script = mirror
    with front.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % host)
        for number in range(1, 40):
            said = b"%d," % number * number
            client.send(b"%x\r\n%b\r\n" % (len(said), said))
            client.until(said)  # the next is sent when this one is back
        client.send(b"0\r\n\r\n")
        assert client.rest().endswith(b"0\r\n\r\n"), "the answer is whole, and then the connection ends"
    behind_tls.reset()


@pytest.mark.req("INL-041", "INL-132", "INL-148", "INL-153")
def test_it_speaks_tls_to_an_app_whose_certificate_it_believes(front: Front, behind_tls: Origin) -> None:
    before, memory = behind_tls.connections, memory_of_worker(front)
    with front.connect() as client:
        for _ in range(5):
            assert client.ask("GET /x HTTP/1.1\nHost: sealed.test").body == b"ok"
        assert behind_tls.connections <= before + 1, "one handshake for all of them"
        size, at_start = 24 * MIB, memory()
        client.send(b"POST / HTTP/1.1\r\nHost: sealed.test\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // MIB):
            client.send(bytes(MIB))
        assert client.answer().body == b"ok"
        assert memory() - at_start < 8 * MIB
    behind_tls.script = echo
    with front.connect() as client:
        client.send(upgrade("sealed.test") + b"early ")
        assert client.head().status == 101
        assert client.exactly(12) == b"hello early "
        client.send(bytes(300_000))
        assert client.exactly(300_000) == bytes(300_000)
    behind_tls.reset()


@pytest.mark.req("INL-148", "INL-151", "INL-153")
def test_it_joins_sockets_for_whatever_protocol_both_sides_agree_on(front: Front, origin: Origin) -> None:
    async def script(talk: Talk) -> None:
        await talk.say(SWITCH.replace(b"websocket", b"chat/2") + b"\x00\xff")
        await talk.say(bytes(reversed(await talk.reader.readexactly(3))))
        talk.writer.close()

    origin.script = script
    with front.connect() as client:
        client.send(upgrade(protocol="chat/2, chat/1") + b"abc")
        assert client.head().values("upgrade") == ["chat/2"]
        assert client.rest() == b"\x00\xffcba"
    assert b"Upgrade: chat/2, chat/1" in origin.heads[0].split(b"\r\n")


@pytest.mark.req("INL-157", "INL-158", "INL-177")
def test_it_waits_for_the_answer_to_a_handshake_no_longer_than_for_any_other(front: Front, origin: Origin) -> None:
    """And has let go of both connections then."""

    async def silent(talk: Talk) -> None:
        await talk.reader.read()
        talk.writer.close()

    origin.script, before = silent, origin.open
    with front.connect() as client:
        client.send(upgrade(extra="\nAccept: text/html"))
        answer = client.answer()
        assert (answer.status, answer.header("x-qm-origin"), answer.header("connection")) == (504, "timeout", "close")
        assert json.loads(answer.body)["code"] == "origin_timeout"
        assert client.rest() == b""
    wait_for(lambda: origin.open <= before)


@pytest.mark.slow
@pytest.mark.req("INL-145", "INL-133")
def test_it_gives_a_slow_visitor_all_of_an_answer_that_ends_his_connection(front: Front, origin: Origin) -> None:
    size = 16 * MIB

    async def script(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        await talk.say(*[bytes(MIB)] * 16)

    origin.script = script
    with front.connect() as client:
        client.send(b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        client.head()
        for _ in range(4):
            time.sleep(3)  # longer than a server waits for the end of a connection that it has closed
            client.exactly(MIB)
        assert len(client.rest()) == size - 4 * MIB
