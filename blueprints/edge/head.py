"""Strict reading of a request's head, for every host and route (INL-050, INL-051, VIS-022, VIS-042).

What two readers could understand in two ways is refused here, before anything acts on it: a proxy in front may share
one connection between visitors. Bytes in, ``Head`` or a refusal out; no I/O.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from app.core.errors import BadRequest, MethodNotAllowed, QmError
from app.domain.client_address import is_host

LINE_MAX_BYTES: Final = 16 * 1024
BLOCK_MAX_BYTES: Final = 32 * 1024
LINES_MAX: Final = 256
"""No client needs more headers, and each costs time to read."""

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_ABSOLUTE: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://")
_TEXT_BYTES: Final = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
"""Every byte that may stand in a head apart from line ends."""
_METHODS: Final = {
    name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
}
_COMMON_NAMES: Final = (
    "Host Connection User-Agent Accept Accept-Language Accept-Encoding Cookie Origin Referer Content-Type "
    "Content-Length Transfer-Encoding Cache-Control Pragma Expect Upgrade Authorization If-None-Match "
    "X-Forwarded-For X-Forwarded-Proto X-Forwarded-Host X-Real-IP Forwarded CF-Connecting-IP True-Client-IP Via "
    "Sec-Fetch-Site Sec-Fetch-Mode Sec-Fetch-Dest Sec-Fetch-User Sec-CH-UA Sec-CH-UA-Mobile Sec-CH-UA-Platform "
    "Upgrade-Insecure-Requests DNT Priority Keep-Alive X-QM-Door-Key X-QM-CSRF X-QM-Edge"
)
_NAMES: Final = {
    form: name.lower().encode()
    for name in _COMMON_NAMES.split()
    for form in (name.encode(), name.lower().encode(), name.title().encode(), name.capitalize().encode())
}
"""Spellings that clients really use, ready checked; any other name is checked each time. Names end at ``": "``."""
_ALIKE_NAMES: Final = frozenset(
    b"host connection user-agent accept accept-language accept-encoding origin content-type content-length "
    b"cache-control pragma sec-fetch-site sec-fetch-mode sec-fetch-dest sec-ch-ua sec-ch-ua-mobile "
    b"sec-ch-ua-platform dnt priority x-forwarded-proto x-forwarded-host".split()
)
"""Headers of which many visitors send the very same line, and none that holds an address, a page or a secret."""
_ALIKE_MAX_BYTES: Final = 192
_ALIKE_MAX: Final = 4096


class Uncoded(QmError):
    """A refusal whose answer has no ``code``: 408, 414, 417 and 431 (VIS-048)."""

    def body(self) -> dict[str, Any]:
        """Only the sentence."""
        return {"error": self.sentence, **self.members}


class BadHost(BadRequest):
    """400 ``bad_host``: no host, two, an unreadable one, or an absolute target."""

    code = "bad_host"
    sentence = "The Host of this request cannot be read."


class Fields:
    """The header lines of a request that were understood, and what they say of framing.

    Shared by all requests that bring the very same lines: nobody may change them.
    """

    __slots__ = ("chunked", "expects", "headers", "keep_alive", "length", "lines")

    def __init__(self, headers: dict[bytes, bytes], lines: list[tuple[bytes, bytes]] | None, minor: int) -> None:
        """Framing members are set by ``parse_fields``."""
        self.headers = headers
        """By lower-case name; lines of one name are joined by ``, ``, cookies by ``; ``."""
        self.lines = lines
        """All lines in order, where a name came twice; None when ``headers`` already says everything."""
        self.length = 0
        """Content-Length; 0 when there is none."""
        self.chunked = False
        self.expects = False
        """The client waits for ``100 Continue``."""
        self.keep_alive = minor == 1


class Head(Fields):
    """A head that was understood."""

    __slots__ = ("block", "method", "minor", "path", "query", "target")

    def __init__(self, block: bytes, line: tuple[str, bytes, int], fields: Fields) -> None:
        """``line``: what ``request_line`` read."""
        super().__init__(fields.headers, fields.lines, 1)
        self.length, self.chunked, self.expects = fields.length, fields.chunked, fields.expects
        self.keep_alive = fields.keep_alive
        self.block = block
        """All bytes, without the empty line."""
        self.method, self.target, self.minor = line
        self.path, _, self.query = self.target.partition(b"?")

    def pairs(self) -> list[tuple[bytes, bytes]]:
        """All header lines as (lower-case name, value)."""
        return self.lines if self.lines is not None else list(self.headers.items())


def head_end(buffer: bytes | bytearray) -> int:
    """Where the empty line that ends the head begins; -1 when more bytes are needed.

    Raises the refusal of a line or block over its limit, and of a bare LF, without waiting for the end.
    """
    end = buffer.find(b"\r\n\r\n")
    first = buffer.find(b"\r\n", 0, LINE_MAX_BYTES + 2)
    if first < 0 and len(buffer) > LINE_MAX_BYTES:
        raise Uncoded("The request line is longer than 16 KB.", status=414)
    if (end if end >= 0 else len(buffer)) - first - 2 > BLOCK_MAX_BYTES:
        raise Uncoded("The headers are larger than 32 KB.", status=431)
    if end < 0 and buffer.count(b"\n") != buffer.count(b"\r\n"):
        raise BadRequest
    return end


class _Lines(dict[bytes, tuple[bytes, bytes]]):
    """Header lines as (lower-case name, value): looked up where many send the same, read where not.

    Raises BadRequest for a line that is none. Bounded; made-up lines only empty the memory.
    """

    def __missing__(self, line: bytes) -> tuple[bytes, bytes]:
        if line.translate(None, _TEXT_BYTES):  # a bare CR or LF, NUL or another control
            raise BadRequest
        # The form nearly every client sends, "Name: value"; anything else goes the long way.
        spelling, colon, value = line.partition(b": ")
        if not colon or (name := _NAMES.get(spelling)) is None:
            return _field(line)
        field = name, value.strip(b" \t")
        if name in _ALIKE_NAMES and len(line) <= _ALIKE_MAX_BYTES:
            if len(self) >= _ALIKE_MAX:
                self.clear()
            self[line] = field
        return field


_read_line: Final = _Lines().__getitem__


def parse_head(block: bytes) -> Head:
    """Read a head (without its empty line). Raises BadRequest, BadHost, MethodNotAllowed or Uncoded."""
    first, _, rest = block.partition(b"\r\n")
    line = request_line(first)
    return Head(block, line, parse_fields(rest, line[2]))


def parse_fields(block: bytes, minor: int) -> Fields:
    """Read header lines, without the line end of the last one. Raises like ``parse_head``."""
    lines = block.split(b"\r\n") if block else []
    if len(lines) > LINES_MAX:
        raise Uncoded(f"A request may have {LINES_MAX} headers at most.", status=431)
    headers = dict(map(_read_line, lines))
    fields = Fields(headers, None, minor)
    if len(headers) != len(lines):
        fields.lines = pairs = list(map(_read_line, lines))
        fields.headers = headers = _joined_fields(pairs)
    _frame(fields, headers, minor)
    return fields


def request_line(line: bytes) -> tuple[str, bytes, int]:
    """Method, target and minor version. Raises like ``parse_head``."""
    parts = line.split(b" ")
    if len(parts) != 3 or line.translate(None, _TEXT_BYTES):
        raise BadRequest
    raw_method, target, version = parts
    if version == b"HTTP/1.1":
        minor = 1
    elif version == b"HTTP/1.0":
        minor = 0
    else:
        raise BadRequest
    method = _METHODS.get(raw_method)
    if method is None:
        if _TOKEN.fullmatch(raw_method) is None:
            raise BadRequest
        method = raw_method.decode("ascii")
    elif method in ("TRACE", "CONNECT"):
        raise MethodNotAllowed(headers={"Allow": "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"})
    if target[:1] != b"/" and not (target == b"*" and method == "OPTIONS"):
        raise BadHost if _ABSOLUTE.match(target) else BadRequest
    if b"#" in target or b"\t" in target:
        raise BadRequest
    return method, target, minor


def _field(line: bytes) -> tuple[bytes, bytes]:
    """Lower-case name and value of any header line."""
    name, colon, value = line.partition(b":")
    if not colon or _TOKEN.fullmatch(name) is None:
        raise BadRequest
    return name.lower(), value.strip(b" \t")


def _joined_fields(fields: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers of a head in which a name comes twice."""
    headers: dict[bytes, bytes] = {}
    for name, value in fields:
        headers[name] = _joined(name, headers[name], value) if name in headers else value
    return headers


def _joined(key: bytes, earlier: bytes, value: bytes) -> bytes:
    """Value of a name that comes a second time."""
    if key == b"host":
        raise BadHost
    if key in (b"content-length", b"transfer-encoding"):
        raise BadRequest
    return earlier + (b"; " if key == b"cookie" else b", ") + value


def _frame(fields: Fields, headers: dict[bytes, bytes], minor: int) -> None:
    """Host, length of the body, and what becomes of the connection."""
    host = headers.get(b"host")
    if host is None:
        if minor:
            raise BadHost
    elif not _is_good_host(host):
        raise BadHost
    length = headers.get(b"content-length")
    if length is not None:
        if not length.isdigit():
            raise BadRequest
        fields.length = int(length[-18:]) if len(length.lstrip(b"0")) <= 18 else 10**18
    if b"transfer-encoding" in headers:
        if length is not None or not minor or headers[b"transfer-encoding"].lower() != b"chunked":
            raise BadRequest
        fields.chunked = True
    connection = headers.get(b"connection")
    if connection is not None and connection != b"keep-alive":
        options = [option.strip() for option in connection.lower().split(b",")]
        fields.keep_alive = b"close" not in options and (minor == 1 or b"keep-alive" in options)
    elif connection is not None:
        fields.keep_alive = True
    if b"expect" in headers and minor:
        if headers[b"expect"].lower() != b"100-continue":
            raise Uncoded("Only 100-continue can be expected of this server.", status=417)
        fields.expects = fields.chunked or fields.length > 0
    if b"upgrade" in headers and (fields.chunked or fields.length):
        raise BadRequest


@lru_cache(1024)
def _is_good_host(value: bytes) -> bool:
    return len(value) <= 260 and is_host(value.decode("latin-1"))
