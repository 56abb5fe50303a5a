"""Addresses that this server never connects to on behalf of a room, unless PROXY_ALLOW_PRIVATE says otherwise.

Source: INL-029, INL-030. IPv6 forms that carry an IPv4 address are refused whole; mapped ones are read as the IPv4 they
map (net_ranges.py).
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Final

from app.domain.net_ranges import RangeSet

INTERNAL: Final = RangeSet(
    ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
        # ::/96 has the unspecified address, loopback and IPv4 in its oldest IPv6 form.
        "::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16", "fc00::/7",
        "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip


def is_internal(packed: bytes) -> bool:
    """True for the 16 bytes of an address that is private, local, reserved, or hides an IPv4 address."""
    return packed in INTERNAL
