"""Who is the visitor: the one rule that decides address, scheme and host of a request.

Pure: peer, headers and policy in, ``Client`` out. Everything else reads the ``Client`` and no forwarding header
(VIS-011 … VIS-018, VIS-030, VIS-031, CFG-098 … CFG-112, CFG-128 … CFG-130).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntFlag
from functools import lru_cache
from typing import Final

from app.domain import edge_secret
from app.domain.edge_secret import EdgeSecret
from app.domain.net_ranges import Network, RangeSet, address_text, budget_key, pack_address

HeaderGetter = Callable[[bytes], bytes | None]
"""Value of the header with this lower-case name, several lines joined by comma; None when it was not sent."""

HOST: Final = re.compile(
    r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?|\[(?P<v6>[0-9A-Fa-f:.]{2,45})\])(?::(?P<port>[0-9]{1,5}))?"
)
"""``name``, ``name:port``, IPv4 or ``[IPv6]``, as a whole."""

_PORTED_V4: Final = re.compile(r"([0-9.]{7,15}):[0-9]{1,5}")
_BRACKETED: Final = re.compile(r"\[([0-9A-Fa-f:.]{2,45})\](?::[0-9]{1,5})?")
_NO_PEER: Final = "0.0.0.0"  # noqa: S104 - not a bind address: the stand-in for a peer without one
_CHAIN_MAX_BYTES: Final = 256
_CHAIN: Final = b"x-forwarded-for"
FORWARDING_HEADERS: Final = (_CHAIN, b"forwarded", b"cf-connecting-ip", b"x-real-ip", b"true-client-ip")
"""Headers by which a proxy tells whom it speaks for (VIS-023, CFG-117)."""


class Note(IntFlag):
    """What there is to say about how a request came; it follows from peer and headers alone."""

    NONE = 0
    NOT_BY_EDGE = 1
    """The edge secret is set and was not sent, or sent wrong (VIS-028)."""
    NO_EDGE_ADDRESS = 2
    """It came through the edge without a ``CF-Connecting-IP`` that is an address (VIS-030)."""
    FORWARDED = 4
    """A peer that is no declared proxy sent a forwarding header (VIS-023)."""
    SHORT_CHAIN = 8
    """A declared proxy named fewer hops than TRUST_PROXY says there are (CFG-230)."""


@dataclass(frozen=True, slots=True)
class Client:
    """Address, scheme and host of one request, as everything in this server sees them."""

    address: str
    """The visitor's address, in one spelling (IPv4-mapped addresses as IPv4)."""
    packed: bytes
    """Its 16 bytes, IPv4 as ``::ffff:a.b.c.d``."""
    key: bytes
    """What budgets and caps count by: 4 bytes (IPv4) or the 8 bytes of the /64 (IPv6)."""
    peer: str
    """Address of the socket peer."""
    chain: str
    """The forwarded chain of a declared peer, entries joined by ``,``; behind the edge secret the one address that the
    edge names; empty from any other peer."""
    declared: bool
    """His address was told by a declared proxy, or by the edge, and was believed."""
    scheme: str
    """``http`` or ``https``."""
    host: str
    """Host with port as sent, in lower case; empty when an HTTP/1.0 request named none."""
    note: Note = Note.NONE

    @property
    def base(self) -> str:
        """``scheme://host`` by which he reaches this server; empty without a host."""
        return f"{self.scheme}://{self.host}" if self.host else ""


@dataclass(frozen=True)
class TrustPolicy:
    """Whose forwarding headers are believed; both halves are needed (VIS-012)."""

    hops: int = 0
    """``TRUST_PROXY``: which entry from the right is the visitor; 0 = none."""
    proxies: RangeSet = field(default_factory=RangeSet)
    """``TRUST_PROXY_IPS``."""
    edge: EdgeSecret | None = None
    """``EDGE_SECRET``; with it the other two have no effect (VIS-031)."""

    @classmethod
    def of(cls, hops: int, networks: Iterable[Network], edge: Iterable[str] = ()) -> TrustPolicy:
        """Policy of the settings."""
        secret = EdgeSecret(edge)
        return cls(hops, RangeSet(networks), secret if len(secret) else None)

    def declares(self, packed: bytes) -> bool:
        """Tell whether the peer with these 16 bytes is a declared proxy."""
        return self.edge is None and self.hops > 0 and packed in self.proxies


NO_PROXY: Final = TrustPolicy()
"""Nobody is believed."""


def is_host(text: str) -> bool:
    """Tell whether ``text`` has the form of a ``Host`` value (VIS-022)."""
    match = HOST.fullmatch(text)
    if match is None or len(text) > 260 or ".." in text:
        return False
    if match["v6"] is not None and pack_address(match["v6"]) is None:
        return False
    return match["port"] is None or int(match["port"]) <= 65535


def resolve_client(peer: str, get: HeaderGetter, policy: TrustPolicy, *, tls: bool = False) -> Client:
    """Say who sent a request.

    ``peer`` is the socket's address text (a zone is cut off), ``tls`` whether the socket itself speaks TLS.
    Never raises: what cannot be read counts as not sent.
    """
    return _resolve(_peer(peer, policy), get, policy, tls=tls)


def _resolve(peer: tuple[bytes, str, bool], get: HeaderGetter, policy: TrustPolicy, *, tls: bool) -> Client:
    if policy.edge is not None:
        return _resolve_edge(peer, get, policy.edge, tls=tls)
    packed, peer_text, is_declared = peer
    scheme, host = ("https" if tls else "http"), _text(get(b"host")).lower()
    if not is_declared:
        note = Note.FORWARDED if any(get(name) is not None for name in FORWARDING_HEADERS) else Note.NONE
        return Client(peer_text, packed, budget_key(packed), peer_text, "", False, scheme, host, note)
    chain = get(_CHAIN)
    forwarded = [part.strip() for part in _text(chain).split(",")]
    visitor = _visitor(_from_right(forwarded, policy.hops)) or packed
    proto = _from_right(_values(get(b"x-forwarded-proto")), policy.hops).lower()
    outer = _from_right(_values(get(b"x-forwarded-host")), policy.hops).lower()
    return Client(
        address=address_text(visitor),
        packed=visitor,
        key=budget_key(visitor),
        peer=peer_text,
        chain=",".join(forwarded),
        declared=True,
        scheme=proto if proto in ("http", "https") else scheme,
        host=outer if is_host(outer) else host,
        # A request that names nobody is the proxy's own, of its health checks.
        note=Note.SHORT_CHAIN if chain is not None and len(forwarded) < policy.hops else Note.NONE,
    )


def _resolve_edge(peer: tuple[bytes, str, bool], get: HeaderGetter, edge: EdgeSecret, *, tls: bool) -> Client:
    """Who came through the edge. Its ``X-Forwarded-Host`` is the client's own, so ``Host`` counts (CFG-130)."""
    packed, peer_text, _ = peer
    scheme, host = ("https" if tls else "http"), _text(get(b"host")).lower()
    if not edge.opens(get(edge_secret.HEADER)):
        return Client(peer_text, packed, budget_key(packed), peer_text, "", False, scheme, host, Note.NOT_BY_EDGE)
    proto = _values(get(b"x-forwarded-proto"))[-1].lower()
    scheme = proto if proto in ("http", "https") else scheme
    visitor = _visitor(_text(get(b"cf-connecting-ip")))
    if visitor is None:
        return Client(peer_text, packed, budget_key(packed), peer_text, "", False, scheme, host, Note.NO_EDGE_ADDRESS)
    address = address_text(visitor)
    return Client(address, visitor, budget_key(visitor), peer_text, address, True, scheme, host)


class ClientResolver:
    """``resolve_client`` with a bounded memory, for the edge: a visitor is parsed once, not per request."""

    __slots__ = ("_declared", "_direct", "_edge", "_peer", "_policy")

    def __init__(self, policy: TrustPolicy, *, remember: int = 16384) -> None:
        """``remember`` bounds the clients kept; chains longer than 256 bytes are never kept."""
        self._policy = policy
        self._peer = lru_cache(remember)(lambda peer: _peer(peer, policy))
        self._direct = lru_cache(remember)(self._resolve_direct)
        self._declared = lru_cache(remember)(self._resolve_declared)
        self._edge = policy.edge

    def peer_key(self, peer: str) -> bytes:
        """What the connections of ``peer`` are counted by, like ``Client.key``."""
        return budget_key(self._peer(peer)[0])

    def is_declared(self, peer: str) -> bool:
        """Tell whether ``peer`` is a declared proxy."""
        return self._peer(peer)[2]

    def resolve(self, peer: str, headers: dict[bytes, bytes], *, declared: bool, tls: bool = False) -> Client:
        """Client of a request with these joined headers; ``declared`` is what ``is_declared(peer)`` said."""
        if self._edge is not None:  # not remembered: the memory would hold the secret
            return _resolve_edge(self._peer(peer), headers.get, self._edge, tls=tls)
        host = headers.get(b"host", b"")
        if not declared:
            return self._direct(peer, host, tls, not headers.keys().isdisjoint(FORWARDING_HEADERS))
        chain = headers.get(_CHAIN)
        proto = headers.get(b"x-forwarded-proto")
        outer = headers.get(b"x-forwarded-host")
        if len(chain or b"") + len(proto or b"") + len(outer or b"") > _CHAIN_MAX_BYTES:
            return self._resolve_declared(peer, host, tls, chain, proto, outer)
        return self._declared(peer, host, tls, chain, proto, outer)

    def _resolve_direct(self, peer: str, host: bytes, tls: bool, is_forwarded: bool) -> Client:
        sent = {b"host": host, **({_CHAIN: b""} if is_forwarded else {})}
        return _resolve(self._peer(peer), sent.get, self._policy, tls=tls)

    def _resolve_declared(
        self, peer: str, host: bytes, tls: bool, chain: bytes | None, proto: bytes | None, outer: bytes | None
    ) -> Client:
        sent = {b"host": host, b"x-forwarded-for": chain, b"x-forwarded-proto": proto, b"x-forwarded-host": outer}
        return _resolve(self._peer(peer), sent.get, self._policy, tls=tls)


def _peer(peer: str, policy: TrustPolicy) -> tuple[bytes, str, bool]:
    packed = pack_address(peer.partition("%")[0]) or pack_address(_NO_PEER)
    assert packed is not None  # the stand-in parses
    return packed, address_text(packed), policy.declares(packed)


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("latin-1").strip()


def _values(value: bytes | None) -> list[str]:
    return [part.strip() for part in _text(value).split(",")]


def _from_right(entries: list[str], hops: int) -> str:
    """Entry ``hops`` from the right (1 = the last); the leftmost one when there are fewer (CFG-102)."""
    return entries[-hops] if hops <= len(entries) else entries[0]


def _visitor(entry: str) -> bytes | None:
    """16 bytes of one entry of the chain; a port and brackets are cut off (VIS-012)."""
    match = _PORTED_V4.fullmatch(entry) or _BRACKETED.fullmatch(entry)
    return pack_address(match[1] if match else entry)
