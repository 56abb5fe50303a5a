"""Heads and bodies that two readers could understand in two ways: refused, and nothing reaches the origin."""

from __future__ import annotations

import pytest

from app.core.errors import QmError
from blueprints.edge.head import head_end
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
    b"POST /up HTTP/1.1\r\n"
    + HOST
    + b"Upgrade: x\r\nConnection: Upgrade\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /a\tb HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /a\x00 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /a\x7f HTTP/1.1\r\n" + HOST + b"\r\n",
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
    b"5\r\nhelloXX0\r\n\r\n",
    b"5;a\x00\r\nhello\r\n0\r\n\r\n",
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
def test_it_reads_a_line_of_16_kib_and_a_block_of_32_kib_and_no_more() -> None:
    line, block = 16 * 1024, 32 * 1024
    assert head_end(b"a" * line + b"\r\n" + b"b" * block + b"\r\n\r\n") == line + 2 + block
    for longer, status in ((b"a" * (line + 1) + b"\r\nb", 414), (b"a\r\n" + b"b" * (block + 1), 431)):
        for end in (b"", b"\r\n\r\n"):
            with pytest.raises(QmError) as caught:
                head_end(longer + end)
            assert caught.value.status == status


@pytest.mark.req("INL-237", "INL-228")
def test_it_lets_no_cdn_keep_a_refusal(front: Front, origin: Origin) -> None:
    """CDNs store refusals of names like ``app.js`` by themselves."""
    file, host = b"GET /app.js HTTP/1.1\r\n", b"Host: shut.test\r\n"
    below = [b"/__qm/nothing", b"/__qm/assets/none.js", b"/__qm/api/admin/me", b"/__qm/metrics", b"/__qm/api/check",
             b"/__qm/docs/none", b"/__qm/connectors/none", b"/__qm/fonts/none.woff2", b"/__qm/w/elsewhere"]  # fmt: skip
    asked: list[tuple[int, bytes]] = [
        (400, file + host + host),
        (400, file + host + b"X : 1\r\n"),
        (400, b"GET /app.js#x HTTP/1.1\r\n" + host),
        (405, file.replace(b"GET", b"TRACE") + host),
        (414, file.replace(b"app", b"a" * 17_000) + host),
        (431, file + host + b"X: " + b"a" * 33_000 + b"\r\n"),
        (417, file + host + b"Expect: x\r\n"),
        (503, file + host + b"Sec-Fetch-Dest: document\r\n"),
        (503, file.replace(b"GET", b"POST") + host),
        (501, b"GET /__qm/app.js HTTP/1.1\r\n" + host + b"Connection: Upgrade\r\nUpgrade: x\r\n"),
        *((0, b"GET " + path + b" HTTP/1.1\r\n" + host) for path in below),
        (404, b"POST /__qm/app.js HTTP/1.1\r\n" + host + b"Service-Worker: script\r\n"),
        (502, file + b"Host: deafer.test\r\n"),
    ]
    front.room("deafer", state="bypass", proxyOrigin="http://127.0.0.1:1")
    for before in (b"", b"\r\n"):
        for status, raw in asked:
            with front.connect() as client:
                client.send(before + raw + b"\r\n")
                answer = client.answer()
            assert answer.values("cache-control") == ["no-store"], raw[:80]
            assert answer.status == status or (not status and 400 <= answer.status < 500), (answer.status, raw[:80])
            assert (answer.header("etag"), answer.header("server")) == (None, None)
    # One that another test sent in pieces may be on its way still.
    assert [head for head in origin.heads if b"Host: shut.test" in head] == []


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
