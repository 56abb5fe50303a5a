"""Origins: which pages may ask about a room, and where a released visitor may be sent.

Belongs here: origin patterns, the judgement of a return URL, putting a token into one. Not here: counting of
refusals, the choice of the target (services/visitor.py). Pure; made once per room copy. Source: ENG-206 … ENG-210,
VIS-126, VIS-153. Needs a second reviewer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

MAX_URL_CHARS: Final = 4096
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(
    r"(https?)://"
    r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9.-]{1,253})"
    r"(?::([0-9]{1,5}))?"
    r"(?=[/?#]|$)([^?#\\]*)(\?[^#]*)?(#.*)?",
    re.IGNORECASE | re.DOTALL | re.ASCII,
).fullmatch
_PATTERN: Final = re.compile(
    r"(https?)://(\*\.)?(\[[0-9a-f:.]{2,45}\]|[a-z0-9.-]{1,253})(?::([0-9]{1,5}))?", re.IGNORECASE | re.ASCII
).fullmatch
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]").search
_NEEDS_ESCAPE: Final = re.compile(r"[^!#-;=?-\[\]^_a-z|~{}]").search
"""Anything that is sent percent-encoded behind the host: space, quotes, angle brackets, backslash, non-ASCII."""
_SAFE: Final = "!#$%&'()*+,-./:;=?@[]^_|~{}"
_LABEL: Final = re.compile(r"[a-z0-9-]{1,63}").fullmatch
_HEX: Final = re.compile(r"0x[0-9a-f]*").fullmatch
TOKEN_PARAMETER: Final = "qm_token"  # noqa: S105 (a name)


class Origin(NamedTuple):
    """Scheme, lower-case host and port, default ports filled in. Equal tuples are one origin."""

    scheme: str
    host: str
    port: int


class WebUrl(NamedTuple):
    """An absolute ``http(s)`` URL in judged parts; written anew from them, never from the text received."""

    origin: Origin
    path: str
    """With its leading slash, or empty."""
    query: str
    """With its question mark, or empty."""
    fragment: str
    """With its hash, or empty."""

    def text(self) -> str:
        """The URL as it is sent: everything behind the host percent-encoded where a browser would."""
        return origin_text(self.origin) + _escaped((self.path or "/") + self.query + self.fragment)


def parse_web_url(text: str) -> WebUrl | None:
    """The parts of ``text`` if this server and a browser must read it alike, else None (ENG-209)."""
    if len(text) > MAX_URL_CHARS or _CONTROL(text) is not None:
        return None
    match = _URL(text)
    if match is None:
        return None
    scheme, host, port, path, query, fragment = match.groups()
    origin = _origin(scheme, host, port)
    if origin is None or not _is_encodable(text):
        return None
    return WebUrl(origin, path, query or "", fragment or "")


def parse_origin(text: str) -> Origin | None:
    """The origin that an ``Origin`` header names; None for ``null`` and for anything that is no origin."""
    match = _PATTERN(text)
    if match is None or match[2]:
        return None
    return _origin(match[1], match[3], match[4])


def origin_text(origin: Origin) -> str:
    """``scheme://host[:port]`` without a default port."""
    if _DEFAULT_PORTS[origin.scheme] == origin.port:
        return f"{origin.scheme}://{origin.host}"
    return f"{origin.scheme}://{origin.host}:{origin.port}"


@dataclass(frozen=True, slots=True)
class OriginPattern:
    """``scheme://host[:port]``; ``is_wildcard``: every subdomain of ``origin.host`` at any depth, not itself."""

    origin: Origin
    is_wildcard: bool

    def covers(self, origin: Origin) -> bool:
        """Tell whether ``origin`` is meant by this pattern (ENG-208)."""
        if not self.is_wildcard:
            return origin == self.origin
        own = self.origin
        return origin.scheme == own.scheme and origin.port == own.port and origin.host.endswith("." + own.host)


def parse_pattern(text: str) -> OriginPattern:
    """Read one entry of ``returnOrigins`` or ``tagOrigins``; ValueError with a sentence when it is none."""
    match = _PATTERN(text)
    origin = None if match is None else _origin(match[1], match[3], match[4])
    if match is None or origin is None:
        raise ValueError(f'"{text[:100]}" is not an origin of the form scheme://host[:port]')
    is_wildcard = match[2] is not None
    if is_wildcard and ("." not in origin.host or origin.host.startswith("[") or _is_number(origin.host)):
        raise ValueError(f'"{text[:100]}": "*." needs a domain of at least two labels behind it')
    return OriginPattern(origin, is_wildcard)


class OriginPolicy:
    """A list of patterns plus the origin of the target, which is always in it (ENG-207)."""

    __slots__ = ("_exact", "_wild")

    def __init__(self, target_url: str, patterns: Iterable[str]) -> None:
        """``patterns`` were validated when they were saved; one that cannot be read covers nothing."""
        target = parse_web_url(target_url)
        parsed = [pattern for pattern in map(_pattern_or_none, patterns) if pattern is not None]
        self._exact = frozenset(p.origin for p in parsed if not p.is_wildcard) | ({target.origin} if target else set())
        self._wild = tuple(p for p in parsed if p.is_wildcard)

    def covers(self, origin: Origin) -> bool:
        """Tell whether ``origin`` is in the list."""
        return origin in self._exact or any(pattern.covers(origin) for pattern in self._wild)

    def judge(self, url: str) -> str | None:
        """The return URL as it may be sent, rewritten from its parts; None = refused (ENG-209, ENG-210)."""
        parts = parse_web_url(url)
        return parts.text() if parts is not None and self.covers(parts.origin) else None


def with_token(url: str, token: str) -> str:
    """``url`` with ``qm_token=<token>`` in its query, in place of any that is there; the fragment is kept.

    A parameter counts as there however its name is percent-encoded: a reader takes the first one.
    """
    rest, hash_, fragment = url.partition("#")
    path, _, query = rest.partition("?")
    if query and (TOKEN_PARAMETER in query or "%" in query):
        query = "&".join(part for part in query.split("&") if unquote(part.partition("=")[0]) != TOKEN_PARAMETER)
    joint = f"{query}&" if query else ""
    return f"{path}?{joint}{TOKEN_PARAMETER}={token}{hash_}{fragment}"


def _pattern_or_none(text: str) -> OriginPattern | None:
    try:
        return parse_pattern(text)
    except ValueError:
        return None


def _origin(scheme: str, host: str, port: str | None) -> Origin | None:
    scheme, host = scheme.lower(), host.lower()
    number = int(port) if port else _DEFAULT_PORTS[scheme]
    if not 0 < number <= 65535:
        return None
    if not host.startswith("[") and (
        not all(map(_LABEL, host.removesuffix(".").split("."))) or (_is_number(host) and not _is_address(host))
    ):
        return None
    return Origin(scheme, host, number)


def _is_number(host: str) -> bool:
    """Tell whether a browser reads the host as an IPv4 address: its last label is a number."""
    last = host.removesuffix(".").rpartition(".")[2]
    return last.isdigit() or _HEX(last) is not None


def _is_address(host: str) -> bool:
    """Tell whether it is one in the only spelling that a browser sends: ``127.1`` becomes ``127.0.0.1``."""
    labels = host.split(".")
    return len(labels) == 4 and all(one.isdigit() and one == str(int(one)) and int(one) < 256 for one in labels)


def _is_encodable(text: str) -> bool:
    """No lone surrogate: it could not be percent-encoded."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _escaped(text: str) -> str:
    return text if _NEEDS_ESCAPE(text) is None else quote(text, safe=_SAFE)
