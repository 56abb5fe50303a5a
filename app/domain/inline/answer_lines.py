"""The lines of an answer's head, read one by one (INL-133, INL-236).

Apps send the same few lines over and over, so those that tell nothing of a visitor are remembered as read.
"""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TEXT_BYTES: Final = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
"""Every byte that may stand in a line."""
_ALIKE_MAX: Final = 4096
_ALIKE_MAX_BYTES: Final = 192


class BadLine(ValueError):
    """Something that is no header line."""


# What a line is to the proxy; everything else passes as it is. Plain numbers: each answer is asked about each of its
# lines, and a member of an enum costs three times as much.
HOP: Final = 1
"""Of this leg alone, and nothing that the proxy needs to know; or ``X-QM-…``: only the queue may speak so (INL-135)."""
CONNECTION: Final = 2
UPGRADE: Final = 3
ENCODING: Final = 4
"""``Transfer-Encoding``. Up to here a line never reaches the visitor."""
LENGTH: Final = 5
TYPE: Final = 6
CACHING: Final = 7
"""``Cache-Control``."""
COOKIE: Final = 8
"""``Set-Cookie``."""

Said = tuple[int, bytes] | None
"""One of these numbers and the value, without the white space around it; None = the line passes as it is."""
_LINES: Final = {
    b"keep-alive": HOP,
    b"proxy-connection": HOP,
    b"te": HOP,
    b"connection": CONNECTION,
    b"upgrade": UPGRADE,
    b"transfer-encoding": ENCODING,
    b"content-length": LENGTH,
    b"content-type": TYPE,
    b"cache-control": CACHING,
    b"set-cookie": COOKIE,
}
_ALIKE: Final = frozenset(
    b"server date content-type content-length connection keep-alive transfer-encoding cache-control vary etag "
    b"last-modified accept-ranges content-encoding x-powered-by x-frame-options x-content-type-options age via "
    b"strict-transport-security referrer-policy permissions-policy expires pragma".split()
)
"""Names whose lines many answers share, and that hold nothing of a visitor."""


class _Lines(dict[bytes, Said]):
    """What each line says. Bounded; odd lines only empty the memory."""

    def __missing__(self, line: bytes) -> Said:
        name, colon, value = line.partition(b":")
        if not colon or _TOKEN.fullmatch(name) is None or line.translate(None, _TEXT_BYTES):
            raise BadLine
        name = name.lower()
        if name.startswith(b"x-qm-"):
            return HOP, b""
        kind = _LINES.get(name)
        said = None if kind is None else (kind, value.strip(b" \t"))
        if name in _ALIKE and len(line) <= _ALIKE_MAX_BYTES:
            if len(self) >= _ALIKE_MAX:
                self.clear()
            self[line] = said
        return said


read_line: Final = _Lines().__getitem__
"""What a line, without its line end, says. Raises BadLine."""


def name_of(line: bytes) -> bytes:
    """Its name in lower case."""
    return line.partition(b":")[0].lower()
