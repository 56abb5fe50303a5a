"""The end of a chunked body, found without changing a byte of it.

Strict: what two readers could cut in two places is refused (INL-051, INL-236). Used for answers of origins; the edge
reads the chunks of requests itself.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

LINE_MAX_BYTES: Final = 256
TRAILERS_MAX_BYTES: Final = 32 * 1024
_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class BadChunks(ValueError):
    """The framing cannot be read."""


class _At(IntEnum):
    SIZE = 0
    DATA = 1
    DATA_END = 2
    TRAILERS = 3
    DONE = 4


class ChunkScanner:
    """Follows one chunked body as it comes in, in whatever pieces."""

    __slots__ = ("_at", "_left", "_line", "_trailer_bytes")

    def __init__(self) -> None:
        self._at = _At.SIZE
        self._left = 0
        self._line = b""
        """Beginning of a line whose end has not come."""
        self._trailer_bytes = 0

    @property
    def is_done(self) -> bool:
        """Whether the body has ended."""
        return self._at is _At.DONE

    def feed(self, data: bytes, payload: list[bytes] | None = None) -> int:
        """Read on; how many bytes of ``data`` belong to the body, all of them unless it ends within.

        ``payload`` gets the bytes without their framing. Raises BadChunks.
        """
        position, end = 0, len(data)
        while position < end and self._at is not _At.DONE:
            if self._at is _At.DATA:
                taken = min(self._left, end - position)
                if payload is not None:
                    payload.append(data[position : position + taken])
                position += taken
                self._left -= taken
                if not self._left:
                    self._at = _At.DATA_END
            else:
                position = self._read_line(data, position)
        return position

    def _read_line(self, data: bytes, position: int) -> int:
        found = data.find(b"\n", position)
        piece = data[position : found + 1] if found >= 0 else data[position:]
        line = self._line + piece
        limit = LINE_MAX_BYTES if self._at is not _At.TRAILERS else TRAILERS_MAX_BYTES
        if len(line) > limit:
            raise BadChunks
        if found < 0:
            self._line = line
            return len(data)
        self._line = b""
        if line[-2:] != b"\r\n":
            raise BadChunks
        self._take_line(line[:-2])
        return found + 1

    def _take_line(self, line: bytes) -> None:
        if self._at is _At.SIZE:
            match = _SIZE_LINE.fullmatch(line)
            if match is None:
                raise BadChunks
            self._left = int(match[1], 16)
            self._at = _At.DATA if self._left else _At.TRAILERS
        elif self._at is _At.DATA_END:
            if line:
                raise BadChunks
            self._at = _At.SIZE
        elif not line:
            self._at = _At.DONE
        else:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > TRAILERS_MAX_BYTES or _TRAILER.fullmatch(line) is None:
                raise BadChunks
