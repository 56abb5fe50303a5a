"""What the gate reads from a request's head: page or call, bypass, upgrade (04, sections 7, 8 and 12).

Every doubt ends at the gate. Pure. Needs a second reviewer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from app.domain.inline.names import OVERRIDES

MEDIA: Final = frozenset(
    b"js mjs cjs css map png jpg jpeg gif webp avif svg ico bmp apng woff woff2 ttf otf eot "
    b"mp3 m4a aac ogg oga opus wav flac mp4 m4v webm mov ogv".split()
)
"""Extensions of media files (INL-091)."""
_PLAIN_PATH: Final = re.compile(rb"(?:/[A-Za-z0-9!$&'()*+,\-.:=@_~]+)+")
"""Segments without anything that a reader of URLs would rewrite (INL-092)."""
_DOT_SEGMENT: Final = re.compile(rb"/\.\.?(?:/|$)|\./")
"""``.``, ``..``, and a segment that ends in a dot, which some systems leave out."""
_SCRIPT_SEGMENT: Final = re.compile(rb"\.(?:php|phtml|asp|aspx|ashx|jsp|jspx|do|cgi|pl|cfm)/", re.IGNORECASE)
_PAGE_DESTS: Final = frozenset({b"document", b"iframe", b"object", b"embed", b"frame"})
Headers = Mapping[bytes, bytes]
"""Values by lower-case name."""


def is_page(headers: Headers) -> bool:
    """Tell whether a browser will show the answer (INL-099); everything else is a call."""
    mode, dest = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
    if mode is None and dest is None:
        return b"text/html" in headers.get(b"accept", b"").lower()
    return mode == b"navigate" or dest in _PAGE_DESTS


def has_override(headers: Headers) -> bool:
    """Tell whether a header may lead an app to another path or method, in either spelling (INL-233)."""
    if not OVERRIDES.isdisjoint(headers):
        return True
    return any(b"_" in name and name.replace(b"_", b"-") in OVERRIDES for name in headers)


def is_media(method: str, path: bytes, headers: Headers) -> bool:
    """Tell whether a request bypasses the gate by the four conditions and INL-233 (INL-089 … INL-093).

    ``path``: as sent, without its query.
    """
    return names_media(method, path) and not wants_more_than_media(headers)


def names_media(method: str, path: bytes) -> bool:
    """The conditions that rest on the request line (INL-090 … INL-092)."""
    if method not in ("GET", "HEAD") or path.rpartition(b".")[2].lower() not in MEDIA:
        return False
    return not (_PLAIN_PATH.fullmatch(path) is None or _DOT_SEGMENT.search(path) or _SCRIPT_SEGMENT.search(path))


def wants_more_than_media(headers: Headers) -> bool:
    """Tell whether header lines keep a media file from bypassing: page, upgrade, other path (INL-093, INL-233)."""
    return headers.get(b"sec-fetch-dest") in _PAGE_DESTS or b"upgrade" in headers or has_override(headers)


def wanted_upgrade(headers: Headers) -> list[bytes]:
    """Protocols that a request asks to change to, as spelled; none of HTTP/2 (INL-148, INL-156)."""
    asked = headers.get(b"upgrade")
    if asked is None or b"upgrade" not in _tokens(headers.get(b"connection", b"").lower()):
        return []
    return [name for name in _tokens(asked) if name.lower().partition(b"/")[0] not in (b"h2c", b"h2", b"http")]


def is_media_pattern(pattern: str) -> bool:
    """Tell whether a rule names media files by their ending, so that they do not bypass (INL-239)."""
    path = pattern.partition("?")[0]
    ending = path.rpartition(".")[2].lower()
    return "." in path and ending.isascii() and ending.encode() in MEDIA


def _tokens(value: bytes) -> list[bytes]:
    return [token for part in value.split(b",") if (token := part.strip(b" \t"))]
