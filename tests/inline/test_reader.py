"""An origin's answer byte by byte: what may be read in two ways, and after what a connection is used again."""

from __future__ import annotations

import pytest

from app.domain.inline.answers import HEAD_MAX_BYTES, AnswerHead, AnswerReader
from app.domain.inline.chunks import LINE_MAX_BYTES, TRAILERS_MAX_BYTES, BadChunks, ChunkScanner
from app.domain.inline.failures import Failure, OriginFailed

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Heard:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.heads: list[AnswerHead] = []
        self.body = b""
        self.ends: list[bool] = []

    def on_head(self, head: AnswerHead) -> None:
        self.heads.append(head)

    def on_body(self, data: bytes | memoryview) -> None:
        self.body += bytes(data)

    def on_end(self, *, is_reusable: bool) -> None:
        self.ends.append(is_reusable)


def read(raw: bytes, method: str = "GET", *, piece: int = 1 << 20) -> Heard:
    """Read ``raw`` in pieces. Raises OriginFailed."""
    heard = Heard()
    reader = AnswerReader(heard, method)
    for start in range(0, len(raw), piece):
        reader.feed(raw[start : start + piece])
    return heard


@pytest.mark.req("INL-236", "INL-141")
@pytest.mark.parametrize("piece", [1, 1 << 20])
@pytest.mark.parametrize(("raw", "method", "is_reusable"), [
    (OK + b"Content-Length: 2\r\n\r\nok", "GET", True),
    (OK + b"Content-Length: 0\r\n\r\n", "GET", True),
    (CHUNKED + b"2\r\nok\r\n0\r\nT: 1\r\n\r\n", "GET", True),
    (b"HTTP/1.1 304 Not\r\nContent-Length: 9\r\n\r\n", "GET", True),
    (b"HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n", "GET", True),
    (b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nok", "GET", True),
    (OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok", "GET", False),
    (OK + b"Connection: x\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nok", "GET", False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "GET", False),
    (OK + b"Content-Length: 2\r\n\r\n", "HEAD", False),
    (OK + b"\r\n", "HEAD", False),
])  # fmt: skip
def test_it_uses_a_connection_again_only_after_a_whole_answer(
    raw: bytes, method: str, is_reusable: bool, piece: int
) -> None:
    heard = read(raw, method, piece=piece)
    assert (len(heard.heads), heard.ends) == (1, [is_reusable])


@pytest.mark.req("INL-236")
@pytest.mark.parametrize("piece", [1, 1 << 20])
@pytest.mark.parametrize("raw", [
    OK + b"Content-Length: " + b"0" * 18 + b"2\r\n\r\nok",
    OK + b"Content-Length: 2\r\ncontent-length: 2\r\n\r\nok",
    OK + b"Content-Length: \r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: identity\r\n\r\n",
    b"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 204 No\r\nContent-Length: 1\r\n\r\n",
    b"HTTP/1.1 304 Not\r\n\r\nx", OK + b"Content-Length: 0\r\n\r\nx", OK + b"Content-Length: 2\r\n\r\nokx",
    CHUNKED + b"0\r\n\r\nx", CHUNKED + b"2\nok\r\n0\r\n\r\n", CHUNKED + b"2\r\nok\n0\r\n\r\n",
    CHUNKED + b"2\r\nok\r\n0\n\r\n", CHUNKED + b"2\r\nok\r\n0\r\n\n", CHUNKED + b"2\r\nokx\r\n0\r\n\r\n",
    CHUNKED + b"2 \r\nok\r\n0\r\n\r\n", CHUNKED + b"0x2\r\nok\r\n0\r\n\r\n", CHUNKED + b"+2\r\nok\r\n0\r\n\r\n",
    CHUNKED + b"000000002\r\nok\r\n0\r\n\r\n", CHUNKED + b"2;a\x00\r\nok\r\n0\r\n\r\n", CHUNKED + b"\r\n",
    CHUNKED + b"2;" + b"a" * LINE_MAX_BYTES + b"\r\nok\r\n0\r\n\r\n", CHUNKED + b"0\r\nno trailer\r\n\r\n",
    CHUNKED + b"0\r\nT: a\x00\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n", OK + b": x\r\n\r\n",
])  # fmt: skip
def test_it_believes_no_answer_that_ends_in_two_places(raw: bytes, piece: int) -> None:
    with pytest.raises(OriginFailed) as caught:
        read(raw, piece=piece)
    assert caught.value.failure is Failure.BAD_RESPONSE


@pytest.mark.req("INL-170")
def test_it_reads_a_head_of_64_kib_and_none_that_is_longer() -> None:
    start = OK + b"Content-Length: 2\r\nX: "
    whole = start + b"a" * (HEAD_MAX_BYTES - len(start))
    assert len(whole) == 64 * 1024
    for piece in (1000, 1 << 20):
        assert read(whole + b"\r\n\r\nok", piece=piece).body == b"ok"
        with pytest.raises(OriginFailed):
            read(whole + b"a\r\n\r\nok", piece=piece)


def test_it_reads_trailers_without_end_of_nobody() -> None:
    scanner = ChunkScanner()
    with pytest.raises(BadChunks):
        scanner.feed(b"0\r\n" + b"T: 1\r\n" * (TRAILERS_MAX_BYTES // 4 + 1))


@pytest.mark.req("INL-142")
@pytest.mark.parametrize("raw", [
    b"", OK, OK + b"Content-Length: 3\r\n\r\nok", CHUNKED + b"2\r\nok\r\n", CHUNKED + b"2\r\nok\r\n0\r\n",
])  # fmt: skip
def test_it_takes_no_part_of_an_answer_for_the_whole(raw: bytes) -> None:
    heard = Heard()
    reader = AnswerReader(heard, "GET")
    if raw:
        reader.feed(raw)
    with pytest.raises(OriginFailed) as caught:
        reader.eof()
    assert (caught.value.failure, heard.ends) == (Failure.RESET, [])
