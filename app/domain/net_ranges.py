"""Addresses and ranges of addresses: one reading of their text, one way to ask "is it in the list".

Every address is held as the 16 bytes of its IPv6 form, IPv4 as ``::ffff:a.b.c.d``, so that a mapped address and
its IPv4 form are the same one everywhere (VIS-016, CFG-103).
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

Network = IPv4Network | IPv6Network

_MAPPED: Final = b"\0" * 10 + b"\xff\xff"
_MAPPED_NET: Final = int.from_bytes(_MAPPED, "big") << 32


def pack_address(text: str) -> bytes | None:
    """16 bytes of an IPv4 or IPv6 address without port, brackets or zone; None when ``text`` is no address."""
    try:
        if ":" in text:
            return socket.inet_pton(socket.AF_INET6, text)
        return _MAPPED + socket.inet_pton(socket.AF_INET, text)
    except (OSError, ValueError):  # ValueError: NUL or non-ASCII characters
        return None


def address_text(packed: bytes) -> str:
    """The one spelling of an address that appears in logs, records and headers."""
    if packed.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed)


def budget_key(packed: bytes) -> bytes:
    """What is counted: 4 bytes of IPv4, or the 8 bytes of the /64 of IPv6 (VIS-016, CFG-104)."""
    if packed.startswith(_MAPPED):
        return packed[12:]
    return packed[:8]


def parse_ranges(text: str) -> tuple[Network, ...]:
    """Networks of a comma list of addresses and CIDR ranges; empty entries are skipped (CFG-111).

    Raises ValueError whose text is the first entry that is neither.
    """
    found: list[Network] = []
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        try:
            found.append(ip_network(entry, strict=False))
        except ValueError:
            raise ValueError(entry) from None
    return tuple(found)


class RangeSet:
    """A list of ranges that is asked often."""

    __slots__ = ("_ranges", "networks")

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        """``networks`` of both families; a range inside ``::ffff:0:0/96`` is the IPv4 range it maps."""
        self.networks = tuple(networks)
        self._ranges = tuple(dict.fromkeys(_as_mask(network) for network in self.networks))

    def __bool__(self) -> bool:
        """Tell whether any range is listed."""
        return bool(self._ranges)

    def __contains__(self, packed: object) -> bool:
        """Tell whether the address with these 16 bytes lies in one of the ranges."""
        if not isinstance(packed, bytes):
            return False
        value = int.from_bytes(packed, "big")
        return any(value & mask == net for mask, net in self._ranges)


def _as_mask(network: Network) -> tuple[int, int]:
    bits = network.prefixlen + (96 if network.version == 4 else 0)
    base = int(network.network_address) + (_MAPPED_NET if network.version == 4 else 0)
    mask = ((1 << bits) - 1) << (128 - bits)
    return mask, base & mask
