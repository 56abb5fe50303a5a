"""The strict reading of heads, as a table and through the wire."""

from __future__ import annotations

import pytest

from app.core.errors import QmError
from blueprints.edge.head import BLOCK_MAX_BYTES, LINE_MAX_BYTES, Head, head_end, parse_head
from tests.edge.wire import DevServer, Wire

H = b"Host: queue.test"
CHUNKED = b"\r\nTransfer-Encoding: chunked"

REFUSED = [
    # (what, head without the empty line, status, code)
    ("two hosts", b"GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test", 400, "bad_host"),
    ("two equal hosts", b"GET / HTTP/1.1\r\nHost: a.test\r\nhost: a.test", 400, "bad_host"),
    ("no host", b"GET / HTTP/1.1\r\nAccept: */*", 400, "bad_host"),
    ("no header at all", b"GET / HTTP/1.1", 400, "bad_host"),
    ("empty host", b"GET / HTTP/1.1\r\nHost: ", 400, "bad_host"),
    ("host with path", b"GET / HTTP/1.1\r\nHost: a.test/x", 400, "bad_host"),
    ("host with user", b"GET / HTTP/1.1\r\nHost: me@a.test", 400, "bad_host"),
    ("host list", b"GET / HTTP/1.1\r\nHost: a.test, b.test", 400, "bad_host"),
    ("host with blank", b"GET / HTTP/1.1\r\nHost: a test", 400, "bad_host"),
    ("host with bad port", b"GET / HTTP/1.1\r\nHost: a.test:99999", 400, "bad_host"),
    ("host with word port", b"GET / HTTP/1.1\r\nHost: a.test:http", 400, "bad_host"),
    ("host non-ascii", "GET / HTTP/1.1\r\nHost: ä.test".encode(), 400, "bad_host"),
    ("host bad v6", b"GET / HTTP/1.1\r\nHost: [::zz]", 400, "bad_host"),
    ("host open v6", b"GET / HTTP/1.1\r\nHost: [::1", 400, "bad_host"),
    ("absolute form", b"GET http://a.test/ HTTP/1.1\r\n" + H, 400, "bad_host"),
    ("absolute form without path", b"GET http://a.test HTTP/1.1\r\n" + H, 400, "bad_host"),
    ("absolute form on a hot path", b"GET http://a.test/api/check HTTP/1.1\r\n" + H, 400, "bad_host"),
    ("length and chunked", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length: 3" + CHUNKED, 400, ""),
    ("chunked and length", b"POST / HTTP/1.1\r\n" + H + CHUNKED + b"\r\nContent-Length: 3", 400, ""),
    ("two lengths", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length: 3\r\nContent-Length: 4", 400, ""),
    ("two equal lengths", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length: 3\r\ncontent-length: 3", 400, ""),
    ("length list", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length: 3, 3", 400, ""),
    ("length with plus", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length: +3", 400, ""),
    ("length negative", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length: -3", 400, ""),
    ("length hex", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length: 0x3", 400, ""),
    ("length underscore", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length: 1_0", 400, ""),
    ("length empty", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length: ", 400, ""),
    ("length full width", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ３".encode(), 400, ""),
    ("length with blank inside", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length: 3 3", 400, ""),
    ("two transfer encodings", b"POST / HTTP/1.1\r\n" + H + CHUNKED + b"\r\nTransfer-Encoding: x", 400, ""),
    ("encoding list", b"POST / HTTP/1.1\r\n" + H + b"\r\nTransfer-Encoding: gzip, chunked", 400, ""),
    ("encoding twice chunked", b"POST / HTTP/1.1\r\n" + H + b"\r\nTransfer-Encoding: chunked, chunked", 400, ""),
    ("encoding identity", b"POST / HTTP/1.1\r\n" + H + b"\r\nTransfer-Encoding: identity", 400, ""),
    ("encoding with junk", b"POST / HTTP/1.1\r\n" + H + b"\r\nTransfer-Encoding: xchunked", 400, ""),
    ("encoding with vertical tab", b"POST / HTTP/1.1\r\n" + H + b"\r\nTransfer-Encoding: \x0bchunked", 400, ""),
    ("encoding in 1.0", b"POST / HTTP/1.0\r\n" + H + b"\r\nTransfer-Encoding: chunked", 400, ""),
    ("encoding name with blank", b"POST / HTTP/1.1\r\n" + H + b"\r\nTransfer-Encoding : chunked", 400, ""),
    ("length name with tab", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length\t: 3", 400, ""),
    ("blank before name", b"GET / HTTP/1.1\r\n" + H + b"\r\n X: 1", 400, ""),
    ("folded line", b"GET / HTTP/1.1\r\n" + H + b"\r\nX: 1\r\n\tmore", 400, ""),
    ("folded first header", b"GET / HTTP/1.1\r\n X: 1\r\n" + H, 400, ""),
    ("empty name", b"GET / HTTP/1.1\r\n" + H + b"\r\n: 1", 400, ""),
    ("no colon", b"GET / HTTP/1.1\r\n" + H + b"\r\nnonsense", 400, ""),
    ("known name without colon", b"GET / HTTP/1.1\r\n" + H + b"\r\nCookie", 400, ""),
    ("name with blank", b"GET / HTTP/1.1\r\n" + H + b"\r\nX Y: 1", 400, ""),
    ("name with bracket", b"GET / HTTP/1.1\r\n" + H + b"\r\nX(Y): 1", 400, ""),
    ("name non-ascii", b"GET / HTTP/1.1\r\n" + H + b"\r\nX\xe4: 1", 400, ""),
    ("nul in value", b"GET / HTTP/1.1\r\n" + H + b"\r\nX: a\0b", 400, ""),
    ("bare cr in value", b"GET / HTTP/1.1\r\n" + H + b"\r\nX: a\rb", 400, ""),
    ("bare lf in value", b"GET / HTTP/1.1\r\n" + H + b"\r\nX: a\nb", 400, ""),
    ("bare cr at end", b"GET / HTTP/1.1\r\n" + H + b"\r\nX: a\r", 400, ""),
    ("cr and lf apart", b"GET / HTTP/1.1\r\n" + H + b"\r\nX: a\rb\nc", 400, ""),
    ("lf ends the request line", b"GET / HTTP/1.1\n" + H, 400, ""),
    ("del in value", b"GET / HTTP/1.1\r\n" + H + b"\r\nX: a\x7fb", 400, ""),
    ("escape in value", b"GET / HTTP/1.1\r\n" + H + b"\r\nX: a\x1bb", 400, ""),
    ("relative target", b"GET foo HTTP/1.1\r\n" + H, 400, ""),
    ("query only", b"GET ?q HTTP/1.1\r\n" + H, 400, ""),
    ("star with get", b"GET * HTTP/1.1\r\n" + H, 400, ""),
    ("empty target", b"GET  HTTP/1.1\r\n" + H, 400, ""),
    ("fragment", b"GET /a#b HTTP/1.1\r\n" + H, 400, ""),
    ("tab in target", b"GET /a\tb HTTP/1.1\r\n" + H, 400, ""),
    ("del in target", b"GET /a\x7f HTTP/1.1\r\n" + H, 400, ""),
    ("nul in target", b"GET /a\0b HTTP/1.1\r\n" + H, 400, ""),
    ("blank in target", b"GET /a b HTTP/1.1\r\n" + H, 400, ""),
    ("two blanks", b"GET  / HTTP/1.1\r\n" + H, 400, ""),
    ("blank at the end", b"GET / HTTP/1.1 \r\n" + H, 400, ""),
    ("no version", b"GET /\r\n" + H, 400, ""),
    ("version 2", b"GET / HTTP/2.0\r\n" + H, 400, ""),
    ("version 1.2", b"GET / HTTP/1.2\r\n" + H, 400, ""),
    ("version in lower case", b"GET / http/1.1\r\n" + H, 400, ""),
    ("preface of http/2", b"PRI * HTTP/2.0", 400, ""),
    ("odd method", b"G(T / HTTP/1.1\r\n" + H, 400, ""),
    ("empty method", b" / HTTP/1.1\r\n" + H, 400, ""),
    ("upgrade with body", b"GET / HTTP/1.1\r\n" + H + b"\r\nUpgrade: websocket\r\nContent-Length: 1", 400, ""),
    ("trace", b"TRACE / HTTP/1.1\r\n" + H, 405, "method_not_allowed"),
    ("connect", b"CONNECT a.test:443 HTTP/1.1\r\n" + H, 405, "method_not_allowed"),
    ("line too long", b"GET /" + b"a" * LINE_MAX_BYTES + b" HTTP/1.1\r\n" + H, 414, None),
    ("block too large", b"GET / HTTP/1.1\r\n" + H + b"\r\nX: " + b"a" * BLOCK_MAX_BYTES, 431, None),
    ("odd expectation", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length: 1\r\nExpect: cake", 417, None),
]  # fmt: skip

TAKEN = [
    ("plain", b"GET /x?a=1 HTTP/1.1\r\n" + H),
    ("long line", b"GET /" + b"a" * (LINE_MAX_BYTES - 100) + b" HTTP/1.1\r\n" + H),
    ("large block", b"GET / HTTP/1.1\r\n" + H + b"\r\nX: " + b"a" * (BLOCK_MAX_BYTES - 100)),
    ("host with port", b"GET / HTTP/1.1\r\nHost: a.test:8080"),
    ("host v4", b"GET / HTTP/1.1\r\nHost: 10.0.0.7:80"),
    ("host v6", b"GET / HTTP/1.1\r\nHost: [2001:db8::1]:8080"),
    ("host with dot", b"GET / HTTP/1.1\r\nHost: a.test."),
    ("host with underscore", b"GET / HTTP/1.1\r\nHost: my_host"),
    ("1.0 without host", b"GET / HTTP/1.0"),
    ("no blank after colon", b"GET / HTTP/1.1\r\nHost:a.test\r\nX:1"),
    ("tabs around value", b"GET / HTTP/1.1\r\nHost:\ta.test\t"),
    ("many blanks around value", b"GET / HTTP/1.1\r\nHost:    a.test   "),
    ("empty value", b"GET / HTTP/1.1\r\n" + H + b"\r\nX:"),
    ("colon in value", b"GET / HTTP/1.1\r\n" + H + b"\r\nReferer: https://a.test: 8"),
    ("high bytes in value", b"GET / HTTP/1.1\r\n" + H + b"\r\nX: \xe4\xff"),
    ("high bytes in target", "GET /ä HTTP/1.1\r\n".encode() + H),
    ("dots and slashes", b"GET //a/../b;c/%zz/%2f?a=/../ HTTP/1.1\r\n" + H),
    ("odd but visible", b"GET /|{}^`\"<>\\ HTTP/1.1\r\n" + H),
    ("options star", b"OPTIONS * HTTP/1.1\r\n" + H),
    ("unknown method", b"PROPFIND / HTTP/1.1\r\n" + H),
    ("chunked in capitals", b"POST / HTTP/1.1\r\n" + H + b"\r\nTransfer-Encoding: Chunked"),
    ("length with zeros", b"POST / HTTP/1.1\r\n" + H + b"\r\nContent-Length: 0003"),
    ("upgrade", b"GET / HTTP/1.1\r\n" + H + b"\r\nConnection: Upgrade\r\nUpgrade: h2c"),
    ("symbols in name", b"GET / HTTP/1.1\r\n" + H + b"\r\n!#$%&'*+-.^_`|~: 1"),
]  # fmt: skip


def read(block: bytes) -> Head:
    head_end(block + b"\r\n\r\n")
    return parse_head(block)


@pytest.mark.parametrize(("block", "status", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_it_refuses_what_can_be_read_in_two_ways(block: bytes, status: int, code: str | None) -> None:
    with pytest.raises(QmError) as caught:
        read(block)

    assert caught.value.status == status
    assert caught.value.body().get("code") == ("bad_request" if code == "" else code)


@pytest.mark.parametrize("block", [row[1] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_it_takes_what_is_merely_unusual(block: bytes) -> None:
    assert read(block).block == block


@pytest.mark.req("VIS-022")
@pytest.mark.parametrize("route", [b"/", b"/stock", b"/api/check"])
def test_it_always_answers_a_refused_head_and_closes(dev: DevServer, route: bytes) -> None:
    for what, block, status, code in REFUSED:
        with Wire(dev.port) as wire:
            wire.send(block.replace(b" / ", b" " + route + b" ", 1) + b"\r\n\r\n")

            answer = wire.answer()

            assert answer.status == status, what
            assert answer.fields.get("code") == ("bad_request" if code == "" else code), what
            assert answer.headers["connection"] == "close", what
            assert len(answer.headers["x-qm-request-id"]) == 26, what
            assert answer.headers["cache-control"] == "no-store", what
            assert wire.is_closed(), what


def test_it_never_gives_no_answer_or_a_failure_for_any_target(dev: DevServer) -> None:
    for _, block in TAKEN:
        with Wire(dev.port) as wire:
            wire.send(
                block + b"\r\n\r\n" + (b"0\r\n\r\n" if b"hunked" in block else b"abc" if b"0003" in block else b"")
            )

            assert wire.answer().status in (200, 404, 405)


@pytest.mark.parametrize(
    ("lines", "minor", "kept"),
    [
        ([], 1, True),
        ([], 0, False),
        (["close"], 1, False),
        (["Close"], 1, False),
        (["keep-alive, close"], 1, False),
        (["keep-alive", "close"], 1, False),
        (["keep-alive"], 0, True),
        (["Keep-Alive"], 0, True),
        (["keep-alive, X"], 1, True),
        (["Upgrade"], 1, True),
        (["x"], 0, False),
    ],
)
def test_it_decides_by_tokens_whether_the_connection_is_kept(lines: list[str], minor: int, kept: bool) -> None:
    block = f"GET / HTTP/1.{minor}\r\nHost: a" + "".join(f"\r\nConnection: {line}" for line in lines)

    assert parse_head(block.encode()).keep_alive is kept


def test_it_joins_lines_of_one_name_and_keeps_them_apart() -> None:
    head = parse_head(b"GET / HTTP/1.1\r\n" + H + b"\r\nX-A: 1\r\nx-a: 2\r\nCookie: a=1\r\nCookie: b=2")

    assert head.headers[b"x-a"] == b"1, 2"
    assert head.headers[b"cookie"] == b"a=1; b=2"
    assert [value for name, value in head.pairs() if name == b"x-a"] == [b"1", b"2"]


def test_it_asks_for_more_until_the_head_is_whole() -> None:
    whole = b"GET / HTTP/1.1\r\n" + H + b"\r\n\r\n"

    assert [head_end(whole[:count]) for count in range(len(whole))] == [-1] * len(whole)
    assert head_end(whole) == len(whole) - 4


def test_it_refuses_a_bare_line_feed_without_waiting_for_an_end(wire: Wire) -> None:
    wire.send(b"GET /api/check HTTP/1.1\nHost: a\n\n")

    assert wire.answer().code == "bad_request"


@pytest.mark.req("VIS-042")
def test_it_refuses_a_line_without_end_as_soon_as_it_is_too_long(wire: Wire) -> None:
    wire.send(b"GET /" + b"a" * 17000)

    assert wire.answer().status == 414


@pytest.mark.req("VIS-042")
def test_it_refuses_a_block_without_end_as_soon_as_it_is_too_large(wire: Wire) -> None:
    wire.send(b"GET / HTTP/1.1\r\nX: " + b"a" * 33000)

    assert wire.answer().status == 431
