"""Heads and bodies that two readers could understand in two ways: refused, and nothing reaches the origin."""

from __future__ import annotations

import pytest

from tests.inline.conftest import Front
from tests.inline.origin import Origin

HOST = b"Host: open.test\r\n"
BAD = [
    b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nab",
    b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 2, 2\r\n\r\nab",
    b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +2\r\n\r\nab",
    b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 0x2\r\n\r\nab",
    b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b" folded: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X: a\rb\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X: a\nY: b\r\n\r\n",
    b"GET / HTTP/1.1\n" + HOST + b"\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b": x\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X Y: x\r\n\r\n",
    b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /a\x01 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET a HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET * HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET ?q HTTP/1.1\r\n" + HOST + b"\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1 \r\n" + HOST + b"\r\n",
    b"POST /up HTTP/1.1\r\n" + HOST + b"Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nab",
]
BAD_HOSTS = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: open.test/x\r\n\r\n",
    b"GET http://open.test/ HTTP/1.1\r\n" + HOST + b"\r\n",
]
BAD_CHUNKS = [
    b"x\r\n",
    b"-1\r\n",
    b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    b"5\nhello\r\n0\r\n\r\n",
    b"5\r\nhelloX\r\n0\r\n\r\n",
    b"000000005\r\nhello\r\n0\r\n\r\n",
    b"2\r\nhi\r\n0\r\nbad line\r\n\r\n",
    b"2\r\nhi\r\n0\r\nX: a\nY: b\r\n\r\n",
]


@pytest.mark.req("INL-051")
@pytest.mark.parametrize("host", [b"open.test", b"queue.test"])
def test_it_refuses_what_could_be_read_in_two_ways(front: Front, origin: Origin, host: bytes) -> None:
    for raw in BAD:
        with front.connect() as client:
            client.send(raw.replace(b"open.test", host) + b"GET /second HTTP/1.1\r\nHost: open.test\r\n\r\n")
            answer = client.answer()
            assert (answer.status, b'"bad_request"' in answer.body) == (400, True), raw
            assert client.rest() == b"", raw
    assert origin.heads == []


@pytest.mark.req("INL-050")
def test_it_refuses_a_host_that_cannot_be_told(front: Front, origin: Origin) -> None:
    for raw in BAD_HOSTS:
        with front.connect() as client:
            client.send(raw)
            answer = client.answer()
            assert (answer.status, b'"bad_host"' in answer.body) == (400, True), raw
    assert origin.heads == []


@pytest.mark.req("INL-051")
def test_it_ends_with_chunks_that_cannot_be_read(front: Front, origin: Origin) -> None:
    """The head may have reached the origin by then; a whole request never does."""
    done: list[bytes] = []

    async def script(talk) -> None:  # type: ignore[no-untyped-def]
        done.append(await talk.body())

    origin.script = script
    for chunks in BAD_CHUNKS:
        with front.connect() as client:
            client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
            answer = client.answer()
            assert (answer.status, b'"bad_request"' in answer.body) == (400, True), chunks
            assert client.rest() == b"", chunks
    assert done == []


@pytest.mark.req("INL-131")
def test_it_has_bounds_for_line_and_block_and_none_for_a_body(front: Front, origin: Origin) -> None:
    for raw, status in (
        (b"GET /" + b"a" * 17_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 33_000 + b"\r\n\r\n", 431),
    ):
        with front.connect() as client:
            client.send(raw)
            assert client.answer().status == status
    # One that another test sent in pieces may be on its way still.
    assert [head for head in origin.heads if head.startswith(b"GET")] == []
    with front.connect() as client:
        client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 20000000\r\n\r\n", b"x" * 20_000_000)
        assert client.answer().status == 200
