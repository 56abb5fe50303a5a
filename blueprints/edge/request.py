"""A request of a hot route: what the edge has read, and readings that are made only when asked for.

Not here: parsing of the head (head.py), and requests of all other routes (those are Sanic's).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from app.core.clock import mono
from app.core.jsonbody import parse_object
from app.domain.budget import Budget
from app.domain.inline.hosts import InlineHost
from app.services.protection import Asker
from blueprints.edge.reading import Reading
from blueprints.edge.recurring import Repeat

SHORT_QUERY_BYTES: Final = 80

PARAMETERS_MAX: Final = 128
_DOCUMENT_DESTS: Final = (b"document", b"iframe", b"object", b"embed", b"frame")


class HotRequest:
    """One request, complete with its body."""

    __slots__ = (
        "_query",
        "asker",
        "began",
        "body",
        "budget",
        "client",
        "headers",
        "inline",
        "method",
        "path",
        "query_bytes",
        "reading",
        "repeat",
        "request_id",
    )

    def __init__(
        self, method: str, path: str, query_bytes: bytes, reading: Reading, body: bytes, request_id: str
    ) -> None:
        """See the attributes."""
        self.method = method
        """In capitals; ``HEAD`` is passed to the handler of ``GET``, which must then change nothing (VIS-039)."""
        self.path = path
        """As sent, ``/api/v1/…`` included."""
        self.query_bytes = query_bytes
        """Raw query, without the question mark."""
        self.reading = reading
        """What its header lines say; shared with other requests."""
        self.headers = reading.headers
        """Values by lower-case name; several lines of one name are joined by ``, `` (cookies by ``; ``)."""
        self.client = reading.client
        """Who asks: the only source of address, scheme and host."""
        self.body = body
        self.request_id = request_id
        """26-character ULID, sent back as ``X-QM-Request-Id``."""
        self.budget: Budget | None = None
        """Set by the handler once it counted the request: the edge writes ``X-RateLimit-*`` from it into every
        answer, a refusal included."""
        self.asker: Asker | None = None
        """What bot protection goes by, once it was looked at: the same when the request is judged again."""
        self.inline: InlineHost | None = None
        """The inline host below whose ``/__qm`` the path was asked; None on every other host."""
        self.repeat: Repeat | None = None
        """What is remembered of the very same request, where its route recurs."""
        self._query: Mapping[str, str] | None = None
        self.began = mono()
        """When it was whole, in seconds of ``clock.mono``."""

    @property
    def host(self) -> str:
        """Host of the request as the visitor sees it (VIS-018)."""
        return self.client.host

    @property
    def scheme(self) -> str:
        """``http`` or ``https`` as the visitor sees it."""
        return self.client.scheme

    @property
    def is_navigation(self) -> bool:
        """Whether a browser asks for a page to show (VIS-037)."""
        return is_navigation(self.headers)

    @property
    def query(self) -> Mapping[str, str]:
        """Query parameters; of a repeated one the first value (VIS-042)."""
        if self._query is None:
            self._query = parse_query(self.query_bytes)
        return self._query

    def header(self, name: bytes) -> str:
        """Value of a header as text (each byte one character); empty when it was not sent."""
        return self.headers.get(name, b"").decode("latin-1")

    def multi(self, name: bytes) -> list[bytes]:
        """The values of all lines of this (lower-case) name."""
        lines = self.reading.fields.lines
        if lines is None:
            value = self.headers.get(name)
            return [] if value is None else [value]
        return [value for other, value in lines if other == name]

    def cookies(self, name: str) -> list[str]:
        """The first 4 values of the cookie ``name``, in the order sent."""
        return self.reading.jar().get(name, [])

    def json(self, *, empty_ok: bool = False) -> dict[str, Any]:
        """The body as a JSON object; raises BadJson or BodyTooLarge (VIS-041)."""
        return parse_object(self.body, empty_ok=empty_ok)


def parse_query(raw: bytes) -> Mapping[str, str]:
    """Parameters of a raw query, first value wins; bytes that are not UTF-8 become U+FFFD."""
    return _parse_short(raw) if len(raw) <= SHORT_QUERY_BYTES else _parse_query(raw)


def _parse_query(raw: bytes) -> Mapping[str, str]:
    found: dict[str, str] = {}
    if not raw:
        return found
    for part in raw.split(b"&", PARAMETERS_MAX)[:PARAMETERS_MAX]:
        name, _, value = part.partition(b"=")
        text = _unquote(name)
        if text and text not in found:
            found[text] = _unquote(value)
    return found


_parse_short = lru_cache(1024)(_parse_query)
"""``room=shop`` is what every tag of a shop sends; made-up queries push each other out."""


def is_navigation(headers: dict[bytes, bytes]) -> bool:
    """Tell by its headers whether a request is a page navigation (VIS-037)."""
    mode, dest = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
    if mode is None and dest is None and b"sec-fetch-site" not in headers:
        return b"text/html" in headers.get(b"accept", b"").lower()
    return mode == b"navigate" or dest in _DOCUMENT_DESTS


def _unquote(raw: bytes) -> str:
    if b"+" in raw:
        raw = raw.replace(b"+", b" ")
    if b"%" in raw:
        raw = unquote_to_bytes(raw)
    return raw.decode("utf-8", "replace")
