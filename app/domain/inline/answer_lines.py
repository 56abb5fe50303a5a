"""The lines of an answer's head, read one by one (INL-133, INL-236).

Apps send the same few lines over and over, so those that tell nothing of a visitor are remembered as read.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TEXT_BYTES: Final = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
"""Every byte that may stand in a line."""
_ALIKE_MAX: Final = 4096
_ALIKE_MAX_BYTES: Final = 192


class BadLine(ValueError):
    """Something that is no header line."""


class Line(IntEnum):
    """What a line is to the proxy."""

    PLAIN = 0
    """Passes as it is."""
    HOP = 1
    """Of this leg alone, and nothing that the proxy needs to know."""
    CONNECTION = 2
    UPGRADE = 3
    ENCODING = 4
    """``Transfer-Encoding``."""
    LENGTH = 5
    TYPE = 6
    CACHING = 7
    """``Cache-Control``."""
    COOKIE = 8
    """``Set-Cookie``."""
    OURS = 9
    """``X-QM-…``: only the queue may speak so (INL-135)."""


HOPS: Final = frozenset({Line.HOP, Line.CONNECTION, Line.UPGRADE, Line.ENCODING, Line.OURS})
"""What never reaches the visitor."""
_KINDS: Final = {
    b"keep-alive": Line.HOP,
    b"proxy-connection": Line.HOP,
    b"te": Line.HOP,
    b"connection": Line.CONNECTION,
    b"upgrade": Line.UPGRADE,
    b"transfer-encoding": Line.ENCODING,
    b"content-length": Line.LENGTH,
    b"content-type": Line.TYPE,
    b"cache-control": Line.CACHING,
    b"set-cookie": Line.COOKIE,
}
_ALIKE: Final = frozenset(
    b"server date content-type content-length connection keep-alive transfer-encoding cache-control vary etag "
    b"last-modified accept-ranges content-encoding x-powered-by x-frame-options x-content-type-options age via "
    b"strict-transport-security referrer-policy permissions-policy expires pragma".split()
)
"""Names whose lines many answers share, and that hold nothing of a visitor."""


class _Kinds(dict[bytes, Line]):
    """Kind by line. Bounded; odd lines only empty the memory."""

    def __missing__(self, line: bytes) -> Line:
        name, colon, _ = line.partition(b":")
        if not colon or _TOKEN.fullmatch(name) is None or line.translate(None, _TEXT_BYTES):
            raise BadLine
        name = name.lower()
        kind = _KINDS.get(name, Line.PLAIN)
        if name.startswith(b"x-qm-"):
            return Line.OURS
        if name in _ALIKE and len(line) <= _ALIKE_MAX_BYTES:
            if len(self) >= _ALIKE_MAX:
                self.clear()
            self[line] = kind
        return kind


kind_of: Final = _Kinds().__getitem__
"""The kind of a line without its line end. Raises BadLine."""


def name_of(line: bytes) -> bytes:
    """Its name in lower case."""
    return line.partition(b":")[0].lower()


def value_of(line: bytes) -> bytes:
    """Its value, without the white space around it."""
    return line.partition(b":")[2].strip(b" \t")
