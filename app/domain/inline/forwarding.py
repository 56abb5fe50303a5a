"""The head that goes to an origin, and the head that comes back to the visitor (04, sections 10 and 11).

What is not named here passes byte for byte, in its order and spelling. Pure. Needs a second reviewer.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.client_address import Client
from app.domain.inline.answer_lines import name_of
from app.domain.inline.answers import AnswerHead
from app.domain.inline.names import (
    CLIENT_CLAIMS,
    HOP_BY_HOP,
    HOP_MARK,
    NEVER_NAMED,
    OURS,
    OWN_COOKIE,
    SET_HERE,
    is_disguised,
)
from app.domain.keyring import hkdf

_ODD_LINE: Final = re.compile(
    rb"^(?:x-forwarded-|x-qm-|connection|keep-alive|proxy-|te:|trailer:|transfer-encoding|upgrade:|expect:|http2-|"
    rb"cookie:|forwarded:|x-real-ip|cf-|true-client|x-client-ip|x-cluster-|fastly-client|x-original-host|x-host:|"
    rb"wl-proxy|[^:\r\n]*_)",
    re.IGNORECASE | re.MULTILINE,
)
"""Beginnings of lines that are looked at one by one; all others pass untouched."""
_CACHEABLE_BAR: Final = re.compile(rb"(?:^|[,\s])(?:private|no-store)(?=[\t ]*(?:,|$))", re.IGNORECASE)
"""Says that no shared cache may store; ``private="a-field"`` speaks of that field alone."""
_CDN_CACHING: Final = re.compile(rb"[a-z0-9-]+-cache-control|surrogate-control|edge-control|x-accel-expires")
"""Names of lines by which caches in front are told to store what ``Cache-Control`` keeps from them (INL-140)."""
_PLAIN_CONNECTIONS: Final = frozenset({b"keep-alive", b"close", b"upgrade", b"keep-alive, upgrade"})


@dataclass(frozen=True, slots=True)
class Hop:
    """What this deployment says of itself to every origin."""

    mark: bytes
    """Value of ``X-QM-Hop`` (INL-042)."""
    known: tuple[bytes, ...] = ()
    """Marks that are this deployment's: those of SECRET and of SECRET_PREVIOUS."""
    is_behind_edge: bool = False
    """EDGE_SECRET is set: the address that the edge names is the whole chain (INL-125)."""

    def is_own(self, headers: Mapping[bytes, bytes]) -> bool:
        """Tell whether a request has come out of this deployment's own proxy."""
        sent = headers.get(HOP_MARK)
        return sent is not None and any(hmac.compare_digest(sent, mark) for mark in self.known)

    @classmethod
    def of(cls, secrets: Sequence[str], *, is_behind_edge: bool) -> Hop:
        """Marks of the signing secrets, the present one first, each from the key ``hop`` of its secret (CFG-146)."""
        marks = tuple(hkdf(text.encode(), b"qm:hop", 16).hex().encode() for text in secrets)
        return cls(marks[0], marks, is_behind_edge)


def request_fields(
    block: bytes, headers: dict[bytes, bytes], client: Client, hop: Hop, *, upgrade: Sequence[bytes] = ()
) -> bytes:
    """The header lines for the origin, with the empty line; they rest on nothing but the visitor's own.

    ``block``: the visitor's header lines without the line end of the last one, read
    strictly before; ``headers``: the same by lower-case name; ``upgrade``: protocols to ask for.
    """
    named = _named(headers.get(b"connection"))
    is_believed = client.declared and not hop.is_behind_edge
    parts: list[bytes] = []
    position = 0
    block += b"\r\n"
    if named:
        parts += [kept for each in block.split(b"\r\n")[:-1] if (kept := _kept_line(each, is_believed, named))]
    else:
        for match in _ODD_LINE.finditer(block):
            start = match.start()
            end = block.index(b"\r\n", start) + 2
            parts += (block[position:start], _kept_line(block[start : end - 2], is_believed, named))
            position = end
        parts.append(block[position:])
    if b"transfer-encoding" in headers:
        parts.append(b"Transfer-Encoding: chunked\r\n")
    if b"te" in headers and b"trailers" in _tokens(headers[b"te"]):
        parts.append(b"TE: trailers\r\n")
    if upgrade:
        parts.append(b"Connection: Upgrade\r\nUpgrade: %b\r\n" % b", ".join(upgrade))
    parts.append(_forwarded(headers.get(b"host", b""), client, hop))
    return b"".join(parts)


def _kept_line(line: bytes, is_believed: bool, named: frozenset[bytes]) -> bytes:
    """The line with its end as it is forwarded; nothing when it is not. ``is_believed``: by a declared proxy."""
    name = line.partition(b":")[0].lower()
    if name == b"cookie":
        return _without_own_cookie(line)
    if name in HOP_BY_HOP or name in SET_HERE or name in OURS or name in named or is_disguised(name):
        return b""
    if name in CLIENT_CLAIMS and not is_believed:
        return b""
    return line + b"\r\n"


def _without_own_cookie(line: bytes) -> bytes:
    """A ``Cookie`` line without the console's session, other cookies as they are (INL-137, INL-139)."""
    if OWN_COOKIE not in line:
        return line + b"\r\n"
    name, _, value = line.partition(b":")
    parts = value.split(b";")
    kept = [part for part in parts if part.partition(b"=")[0].strip(b" \t") != OWN_COOKIE or b"=" not in part]
    if len(kept) == len(parts):
        return line + b"\r\n"
    rest = b";".join(kept).strip(b" \t")
    return b"%b: %b\r\n" % (name, rest) if rest else b""


def _forwarded(host: bytes, client: Client, hop: Hop) -> bytes:
    """The lines that tell of the visitor's leg, and the empty line (INL-119 … INL-125)."""
    scheme = client.scheme
    _, colon, port = host.rpartition(b":") if not host.endswith(b"]") else (b"", b"", b"")
    shown_port = port if colon and port else b"443" if scheme == "https" else b"80"
    chain = client.address
    if client.declared and not hop.is_behind_edge and client.chain:
        chain = f"{client.chain.replace(',', ', ')}, {client.address}"
    return b"".join(
        (
            b"X-Forwarded-Host: ", host, b"\r\nX-Forwarded-Proto: ", scheme.encode(), b"\r\nX-Forwarded-Port: ",
            shown_port, b"\r\nX-Forwarded-For: ", chain.encode("latin-1"), b"\r\nX-QM-Hop: ", hop.mark, b"\r\n\r\n",
        )
    )  # fmt: skip


def _named(connection: bytes | None) -> frozenset[bytes]:
    """Headers that ``Connection`` names, in lower case, apart from its own words."""
    if connection is None or connection.lower() in _PLAIN_CONNECTIONS:
        return frozenset()
    return frozenset(_tokens(connection)) - NEVER_NAMED - {b"keep-alive", b"close", b"upgrade"}


def _tokens(value: bytes) -> list[bytes]:
    return [token for part in value.lower().split(b",") if (token := part.strip(b" \t"))]


@dataclass(frozen=True, slots=True)
class Added:
    """What the queue adds to an answer of the app."""

    cookies: Sequence[bytes] = ()
    """Ready ``Set-Cookie`` values (INL-082)."""


NOTHING_ADDED: Final = Added()


def answer_head(head: AnswerHead, added: Added, *, is_chunked: bool, connection: bytes) -> bytes:
    """The head for the visitor, with its empty line.

    ``is_chunked``: the body is sent in chunks; ``connection``: value of ``Connection``, empty for none.
    """
    is_hidden = bool(added.cookies) and not _CACHEABLE_BAR.search(head.cache_control)
    kept = [b"HTTP/1.1 " + head.status_text, *head.lines]
    named = _named(head.connection)
    if named or is_hidden:
        dropped = named - _NEVER_NAMED_IN_ANSWERS | ({b"cache-control"} if is_hidden else set())
        kept[1:] = [line for line in head.lines if name_of(line) not in dropped]
    if added.cookies:
        kept[1:] = [line for line in kept[1:] if _CDN_CACHING.fullmatch(name_of(line)) is None]
    if is_chunked:
        kept.append(b"Transfer-Encoding: chunked")
    if is_hidden:
        kept.append(b"Cache-Control: private, no-cache")
    if connection:
        kept.append(b"Connection: " + connection)
    if head.status == 101:
        kept.append(b"Upgrade: " + head.upgrade)
    if head.status >= 500:
        kept.append(b"X-QM-Origin: http-%d" % head.status)
    kept += [b"Set-Cookie: " + cookie for cookie in added.cookies]
    kept += _HEAD_END
    return b"\r\n".join(kept)


_HEAD_END: Final = (b"", b"")
_NEVER_NAMED_IN_ANSWERS: Final = frozenset(b"content-length set-cookie content-type location cache-control".split())
