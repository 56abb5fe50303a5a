"""Salted digests that tell a visitor again without keeping his address, cookie or User-Agent.

Belongs here: what goes into each digest. Not here: which proof counts (the engine), whom to believe about an
address (client_address.py). The salt is made with the room, so digests of two rooms cannot be joined, and
without it an IPv4 address cannot be found by trying all. Source: ENG-102 … ENG-106, ENG-152.

The engine compares these digests with ``==`` inside Lua: no secret is compared there, only salted hashes of one,
so the time of a comparison tells nothing that could be used.
"""

from __future__ import annotations

import socket
from functools import lru_cache
from hashlib import sha256
from typing import Final

from app.domain.client_address import Client

DIGEST_BYTES: Final = 16
ADDRESS_BYTES: Final = 8
AGENT_MAX_CHARS: Final = 512
"""Connectors cut the User-Agent here (PAG-216), so every digest does: both ways must give the same."""
_CHAIN_MAX_CHARS: Final = 256
_V4_BYTES: Final = 4
_MAPPED_V4: Final = bytes(10) + b"\xff\xff"
_CONTROLS: Final = dict.fromkeys((*range(32), *range(127, 160)))


class Digester:
    """Digests of one room; made once per room copy."""

    __slots__ = ("_address", "_cookie", "_door", "_loose", "_strict")

    def __init__(self, salt: bytes) -> None:
        """``salt``: 16 random bytes of the room."""
        self._cookie, self._strict, self._loose, self._door, self._address = (
            salt + purpose + b"\0" for purpose in (b"cookie", b"strict", b"loose", b"door", b"addr")
        )

    def cookie(self, value: str) -> bytes:
        """Digest of a ``qms_<room>`` value."""
        return sha256(self._cookie + value.encode("utf-8", "replace")).digest()[:DIGEST_BYTES]

    def door(self, key: str) -> bytes:
        """Digest of a door key."""
        return sha256(self._door + key.encode("utf-8", "replace")).digest()[:DIGEST_BYTES]

    def address(self, packed: bytes) -> bytes:
        """8-byte digest by which places are counted (caps). ``packed``: 16 bytes, IPv4 mapped."""
        return self.place(packed)[0]

    def place(self, packed: bytes) -> tuple[bytes, int]:
        """``address`` and ``net`` of a ticket record (layout.py), by which an address and its networks are counted.

        IPv6 needs three digests where IPv4 needs one (ENG-295). They share the eight bytes: four of the /48, four of
        the /64. The /56 is told from the others of its /48 by one byte, so none is taken for another.
        """
        network = network_of(packed)
        if len(network) == _V4_BYTES:
            return sha256(self._address + network).digest()[:ADDRESS_BYTES], 0
        wide = sha256(self._address + network[:6]).digest()
        narrow = sha256(self._address + network).digest()
        return wide[:4] + narrow[:4], 1 + (wide[4] + network[6]) % 256

    def strict(self, peer: str, chain: str, agent: bytes) -> bytes:
        """Digest of socket peer, forwarded chain ("" from an undeclared peer) and ``clean_agent`` (ENG-103)."""
        value = b"\0".join((normal_address(peer), normal_chain(chain), agent))
        return sha256(self._strict + value).digest()[:DIGEST_BYTES]

    def loose(self, packed: bytes, agent: bytes) -> bytes:
        """Digest of visitor address and ``clean_agent`` (ENG-104). ``packed``: 16 bytes, IPv4 mapped."""
        return sha256(self._loose + network_of(packed) + b"\0" + agent).digest()[:DIGEST_BYTES]


def fingerprints(digester: Digester, client: Client, header: bytes) -> tuple[bytes, bytes]:
    """Strict and loose digest of a client with this ``User-Agent`` header."""
    if len(header) > AGENT_MAX_CHARS or len(client.chain) > _CHAIN_MAX_CHARS:
        return _fingerprints(digester, client.peer, client.chain, client.packed, header)
    return _known_fingerprints(digester, client.peer, client.chain, client.packed, header)


def _fingerprints(digester: Digester, peer: str, chain: str, packed: bytes, header: bytes) -> tuple[bytes, bytes]:
    agent = clean_agent(header)
    return digester.strict(peer, chain, agent), digester.loose(packed, agent)


_known_fingerprints = lru_cache(16384)(_fingerprints)
"""Of the visitors who were here last: a page asks every few seconds."""


def _arrival(digester: Digester, packed: bytes, header: bytes) -> bytes:
    return digester.address(packed) + digester.loose(packed, clean_agent(header))[:ADDRESS_BYTES]


_known_arrival = lru_cache(16384)(_arrival)


def arrival(digester: Digester, client: Client, header: bytes) -> bytes:
    """16 bytes by which arrivals are counted (ENG-217): those of the address, then those of address and agent."""
    return (_arrival if len(header) > AGENT_MAX_CHARS else _known_arrival)(digester, client.packed, header)


def network_of(packed: bytes) -> bytes:
    """What counts as one address (ENG-106): 4 bytes of IPv4, mapped or not, or the /64 of IPv6."""
    return packed[12:] if packed.startswith(_MAPPED_V4) else packed[:8]


def normal_address(text: str) -> bytes:
    """``text`` with the parts that ENG-106 does not look at taken away; other text as it is."""
    if ":" not in text:
        return text.encode("utf-8", "replace")
    try:
        packed = socket.inet_pton(socket.AF_INET6, text.partition("%")[0])
    except (OSError, ValueError):
        return text.encode("utf-8", "replace")
    if packed.startswith(_MAPPED_V4):
        return socket.inet_ntoa(packed[12:]).encode()
    return packed[:8].hex().encode()


def normal_chain(chain: str) -> bytes:
    """A forwarded chain (entries with commas between) with each entry normalised; "" stays empty."""
    if ":" not in chain:
        return chain.replace(" ", "").encode("utf-8", "replace")
    return b",".join(normal_address(entry.strip()) for entry in chain.split(","))


def clean_agent(header: bytes) -> bytes:
    """A User-Agent as digests see it: no control characters, bad UTF-8 replaced, at most 512 characters."""
    return _clean_short(header) if len(header) <= AGENT_MAX_CHARS else _clean(header)


def _clean(header: bytes) -> bytes:
    if len(header) <= AGENT_MAX_CHARS and header.isascii() and header.decode("ascii").isprintable():
        return header
    text = header.decode("utf-8", "replace").translate(_CONTROLS)
    return text[:AGENT_MAX_CHARS].encode()


_clean_short = lru_cache(2048)(_clean)
"""Browsers of one build all send the same; made-up values push each other out."""
