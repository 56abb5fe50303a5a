"""An origin's answer, read as strictly as a request (INL-133, INL-142, INL-236).

Bytes in, calls of a sink out; no I/O. What could be read in two ways is BAD_RESPONSE. Bodies are passed on as they
came, chunks included; only for a visitor who cannot read chunks are they taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from app.domain.inline.answer_lines import (
    CACHING,
    CONNECTION,
    COOKIE,
    ENCODING,
    LENGTH,
    TYPE,
    UPGRADE,
    BadLine,
    read_line,
)
from app.domain.inline.chunks import BadChunks, ChunkScanner
from app.domain.inline.failures import Failure, OriginFailed
from app.domain.inline.names import OWN_COOKIE

HEAD_MAX_BYTES: Final = 64 * 1024
INTERIM_MAX: Final = 16
"""Interim answers (1xx) of one request that are passed over."""
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?")
_FAIR_BYTES: Final = 4096
"""Up to here a copy costs less than another piece to be written."""


class Framing(IntEnum):
    """How the end of a body is known."""

    NONE = 0
    LENGTH = 1
    CHUNKED = 2
    CLOSE = 3
    TUNNEL = 4


@dataclass(slots=True)
class AnswerHead:
    """The head of a final answer, or of a 101."""

    status: int
    status_text: bytes
    """Status and reason as sent."""
    lines: list[bytes]
    """The header lines that may reach the visitor, without their line ends."""
    framing: Framing = Framing.CLOSE
    length: int = 0
    """With LENGTH; also of an answer to HEAD."""
    connection: bytes | None = None
    upgrade: bytes = b""
    cache_control: bytes = b""
    is_event_stream: bool = False
    is_kept: bool = True
    """The origin keeps the connection."""


class Sink(Protocol):
    """Who is told of an answer."""

    def on_head(self, head: AnswerHead) -> None:
        """The head is there. Called once, before anything of the body."""

    def on_body(self, data: bytes | memoryview) -> None:
        """Bytes of the body, to be passed on as they are."""

    def on_end(self, *, is_reusable: bool) -> None:
        """The answer is complete."""


class AnswerReader:
    """Reads the answer to one request."""

    __slots__ = (
        "_asked", "_buffer", "_interim", "_left", "_scanner", "_sink", "_wants_payload", "head", "is_over", "method",
    )  # fmt: skip

    def __init__(self, sink: Sink, method: str, *, asked: Sequence[bytes] = (), wants_payload: bool = False) -> None:
        """``asked``: protocols of an upgrade that was asked for; ``wants_payload``: bodies without chunk framing."""
        self._sink = sink
        self.method = method
        self._asked = asked
        self._wants_payload = wants_payload
        self._buffer = b""
        self._interim = 0
        self._left = 0
        self._scanner: ChunkScanner | None = None
        self.head: AnswerHead | None = None
        self.is_over = False

    @property
    def has_begun(self) -> bool:
        """Whether any byte of an answer has come."""
        return self.head is not None or bool(self._buffer) or self._interim > 0

    def feed(self, data: bytes) -> None:
        """Take bytes from the origin. Raises OriginFailed."""
        head = self.head
        if head is None:
            self._feed_head(data)
        elif self.is_over:
            raise OriginFailed(Failure.BAD_RESPONSE)
        else:
            self._feed_body(head, data)

    def eof(self) -> None:
        """The origin has closed its side. Raises OriginFailed when that breaks the answer off."""
        if self.is_over:
            return
        if self.head is None or self.head.framing is not Framing.CLOSE:
            raise OriginFailed(Failure.RESET)
        self.is_over = True
        if not self._wants_payload:
            self._sink.on_body(b"0\r\n\r\n")
        self._sink.on_end(is_reusable=False)

    def _feed_head(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        start = 0
        while True:
            end = buffer.find(b"\r\n\r\n", start)
            if end < 0:
                self._buffer = buffer[start:]
                self._judge_unfinished(self._buffer)
                return
            if end - start > HEAD_MAX_BYTES:
                raise OriginFailed(Failure.BAD_RESPONSE)
            head = self._read_head(buffer[start:end])
            start = end + 4
            if head.status >= 200 or head.status == 101:
                break
            self._interim += 1
            if self._interim > INTERIM_MAX:
                raise OriginFailed(Failure.BAD_RESPONSE)
        self._buffer = b""
        if head.framing is Framing.LENGTH:
            self._begin_length(head, buffer, start)
        else:
            self._begin(head, buffer[start:])

    def _judge_unfinished(self, buffer: bytes) -> None:
        """Refuse what cannot become a head, without waiting for its end."""
        if len(buffer) > HEAD_MAX_BYTES or not (buffer[:5].startswith(b"HTTP/"[: len(buffer)])):
            raise OriginFailed(Failure.BAD_RESPONSE)
        if buffer.count(b"\n") != buffer.count(b"\r\n"):
            raise OriginFailed(Failure.BAD_RESPONSE)

    def _read_head(self, raw: bytes) -> AnswerHead:
        """``raw``: lines with line ends between them."""
        first, *lines = raw.split(b"\r\n")
        match = _STATUS_LINE.fullmatch(first)
        if match is None:
            raise OriginFailed(Failure.BAD_RESPONSE)
        head = AnswerHead(int(match[2]), first[9:], [])
        try:
            self._take_lines(head, lines, is_old=match[1] == b"0")
        except BadLine as error:
            raise OriginFailed(Failure.BAD_RESPONSE) from error
        return head

    def _take_lines(self, head: AnswerHead, lines: list[bytes], *, is_old: bool) -> None:
        length = encoding = connection = None
        keep = head.lines.append
        for line in lines:
            said = read_line(line)
            if said is None:
                keep(line)
                continue
            kind, value = said
            if kind > ENCODING:
                keep(line)
            if kind == LENGTH:
                if length is not None or not value.isdigit() or len(value) > 18:
                    raise OriginFailed(Failure.BAD_RESPONSE)
                length = value
            elif kind == CONNECTION:
                connection = value if connection is None else connection + b", " + value
            elif kind == TYPE:
                head.is_event_stream = value[:17].lower() == b"text/event-stream"
            elif kind == ENCODING:
                if encoding is not None or value.lower() != b"chunked" or is_old:
                    raise OriginFailed(Failure.BAD_RESPONSE)
                encoding = value
            elif kind == CACHING:
                head.cache_control += b", " + value
            elif kind == UPGRADE:
                head.upgrade += (b", " if head.upgrade else b"") + value
            elif kind == COOKIE and value.partition(b"=")[0].rstrip(b" \t") == OWN_COOKIE:
                head.lines.pop()
        if length is not None and encoding is not None:
            raise OriginFailed(Failure.BAD_RESPONSE)
        head.connection = connection
        head.is_kept = not is_old and (connection is None or b"close" not in connection.lower())
        head.length = 0 if length is None else int(length)
        head.framing = self._framing(head, length is not None, encoding is not None)

    def _framing(self, head: AnswerHead, has_length: bool, is_chunked: bool) -> Framing:
        status = head.status
        if status == 101:
            self._judge_upgrade(head)
            return Framing.TUNNEL
        if status < 200:
            return Framing.NONE
        if status == 204 and (head.length or is_chunked):
            raise OriginFailed(Failure.BAD_RESPONSE)
        if self.method == "HEAD" or status in (204, 304):
            return Framing.NONE
        if is_chunked:
            return Framing.CHUNKED
        if has_length:
            return Framing.LENGTH if head.length else Framing.NONE
        return Framing.CLOSE

    def _judge_upgrade(self, head: AnswerHead) -> None:
        """A 101 is believed only when it names a protocol that was asked for (INL-156)."""
        asked = {name.lower() for name in self._asked}
        named = [part.strip(b" \t").lower() for part in head.upgrade.split(b",")]
        if not asked or not all(name in asked for name in named):
            raise OriginFailed(Failure.BAD_RESPONSE)

    def _begin(self, head: AnswerHead, rest: bytes) -> None:
        """The head is read; what came behind it is judged before anything is passed on."""
        framing = head.framing
        if framing is Framing.NONE:
            if self.method == "HEAD":
                head.is_kept = False  # some apps send a body all the same: it ends with its connection
            elif rest:
                raise OriginFailed(Failure.BAD_RESPONSE)
        elif framing is Framing.CHUNKED:
            trial = ChunkScanner()
            try:
                if trial.feed(rest) < len(rest):
                    raise OriginFailed(Failure.BAD_RESPONSE)
            except BadChunks as error:
                raise OriginFailed(Failure.BAD_RESPONSE) from error
            self._scanner = ChunkScanner()
        self.head = head
        self._sink.on_head(head)
        if framing is Framing.NONE:
            self._end(head)
        elif rest:
            self._feed_body(head, rest)

    def _begin_length(self, head: AnswerHead, buffer: bytes, start: int) -> None:
        """``_begin`` of a body whose length is known; it begins at ``start``."""
        here = len(buffer) - start
        if here > head.length:
            raise OriginFailed(Failure.BAD_RESPONSE)
        self._left = head.length
        self.head = head
        self._sink.on_head(head)
        if here:
            self._feed_length(head, buffer[start:] if here <= _FAIR_BYTES else memoryview(buffer)[start:])

    def _feed_body(self, head: AnswerHead, data: bytes) -> None:
        framing = head.framing
        if framing is Framing.LENGTH:
            self._feed_length(head, data)
        elif framing is Framing.CHUNKED:
            self._feed_chunks(head, data)
        elif framing is Framing.CLOSE:
            self._sink.on_body(data if self._wants_payload else b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self._sink.on_body(data)

    def _feed_length(self, head: AnswerHead, data: bytes | memoryview) -> None:
        left = self._left
        if len(data) > left:
            self._sink.on_body(data[:left])
            self._left = 0
            self._surplus()
            return
        self._left = left - len(data)
        self._sink.on_body(data)
        if not self._left:
            self._end(head)

    def _feed_chunks(self, head: AnswerHead, data: bytes) -> None:
        scanner = self._scanner
        assert scanner is not None
        payload: list[bytes] | None = [] if self._wants_payload else None
        try:
            taken = scanner.feed(data, payload)
        except BadChunks as error:
            raise OriginFailed(Failure.BAD_RESPONSE) from error
        if payload is None:
            self._sink.on_body(data if taken == len(data) else data[:taken])
        elif payload:
            self._sink.on_body(b"".join(payload))
        if taken < len(data):
            self._surplus()
        elif scanner.is_done:
            self._end(head)

    def _end(self, head: AnswerHead) -> None:
        self.is_over = True
        self._sink.on_end(is_reusable=head.is_kept)

    def _surplus(self) -> None:
        """More than was announced: what was announced is complete, and nothing more of this connection is believed."""
        self.is_over = True
        self._sink.on_end(is_reusable=False)
        raise OriginFailed(Failure.BAD_RESPONSE)
