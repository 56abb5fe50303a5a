"""What an inline host is asked, read once for all requests that are alike.

A page has a hundred files, and the same files are asked for by everybody; the header lines of a browser come again with
each of them. Belongs here: what follows from a request line alone, and what follows for the proxy from header lines
alone. Not here: what may be done about it (front.py, fast.py).
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote_from_bytes

from app.domain.client_address import Note
from app.domain.hosts import PREFIX
from app.domain.inline.forwarding import Hop, request_fields
from app.domain.inline.hosts import HostIndex, InlineHost
from app.domain.inline.requests import has_override, is_page, names_media, wants_more_than_media
from blueprints.edge.head import request_line
from blueprints.edge.reading import Reading

ADMIN: Final = (b"/api/admin/", b"/api/v1/admin/")
LINES_KEPT: Final = 4096
LINE_KEPT_BYTES: Final = 256
"""Longer lines have something in them that does not come again."""
_URL_BYTES: Final = bytes(range(0x21, 0x7F))


class AskedLine:
    """A request line."""

    __slots__ = ("is_app", "is_media", "method", "minor", "path", "start", "target", "url")

    def __init__(self, line: bytes) -> None:
        """Raises like ``head.request_line``."""
        self.method, self.target, self.minor = request_line(line)
        self.path = path = self.target.partition(b"?")[0]
        self.is_app = bool(self.minor) and not is_own(path) and not path.startswith(ADMIN)
        """Whether it is of HTTP/1.1 and for the app, on whatever inline host."""
        self.is_media = names_media(self.method, path)
        self.start = line.rpartition(b" ")[0] + b" HTTP/1.1\r\n"
        """The line for the origin."""
        self.url = url_text(self.target)


class AskedLines(dict[bytes, AskedLine]):
    """Request lines by their bytes. Bounded; made-up ones only empty the memory. Raises like ``head.request_line``."""

    def __missing__(self, line: bytes) -> AskedLine:
        asked = AskedLine(line)
        if len(line) <= LINE_KEPT_BYTES:
            if len(self) >= LINES_KEPT:
                self.clear()
            self[line] = asked
        return asked


class AskedFields:
    """What header lines say to the proxy while an index holds."""

    __slots__ = (
        "base", "fields", "host", "index", "is_forced", "is_noted", "is_page", "is_plain", "length", "spoils_media",
    )  # fmt: skip

    def __init__(self, index: HostIndex, reading: Reading, block: bytes, hop: Hop) -> None:
        """``block``: the lines, without the line end of the last one."""
        headers, client = reading.headers, reading.client
        self.index = index
        self.host: InlineHost | None = index.find(headers.get(b"host"))
        """The inline host that is named."""
        self.is_plain = False
        """Nothing about them calls for more than forwarding behind the gate."""
        self.length = 0
        """Bytes of the body."""
        if self.host is None:
            return
        fields = reading.fields
        is_odd = b"upgrade" in headers or fields.chunked or fields.expects or bool(client.note & Note.NOT_BY_EDGE)
        if is_odd or hop.is_own(headers):
            return
        self.is_plain = True
        self.is_noted = bool(client.note)
        """There is something to say about how they came."""
        self.length = fields.length
        self.is_page = is_page(headers)
        self.is_forced = has_override(headers)
        self.spoils_media = wants_more_than_media(headers)
        self.fields = request_fields(block, headers, client, hop)
        """The lines for the origin."""
        self.base = f"{client.scheme}://{headers[b'host'].decode('latin-1')}"
        """Beginning of every URL that they ask for (INL-047)."""


def is_own(path: bytes) -> bool:
    """Tell whether a path is the queue's: exactly ``/__qm`` or below it (INL-054)."""
    return path.startswith(PREFIX) and path[len(PREFIX) : len(PREFIX) + 1] in (b"", b"/")


def url_text(target: bytes) -> str:
    """A target as the rules of rooms see it."""
    return (target if target.isascii() else quote_from_bytes(target, safe=_URL_BYTES).encode("ascii")).decode("ascii")
