"""``proxyOrigin``: its form, and what it may not point at (INL-005 … INL-012, INL-031, INL-032). Pure.

Needs a second reviewer.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from typing import Any, Final

from app.domain.inline.hosts import host_name, is_literal
from app.domain.internal_addresses import is_internal
from app.domain.net_ranges import address_text, pack_address
from app.domain.origins import Origin, origin_text, parse_origin, parse_web_url
from app.domain.room import RoomConfig

MAX_CHARS: Final = 512
_FORM: Final = re.compile(r"(https?)://([^/?#@\\\s]+)/?", re.IGNORECASE | re.ASCII)
_NUMERIC: Final = re.compile(r"(?:.*\.)?(?:0[xX][0-9A-Fa-f]*|[0-9]+)")
"""What ends in a number may be read as an IPv4 address: decimal, octal, hexadecimal, short (INL-031)."""


def proxy_origin(value: Any) -> str | None:
    """The stored form of a ``proxyOrigin``: None, or scheme, host and port in their one spelling.

    ValueError with the end of a sentence when it is neither.
    """
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > MAX_CHARS or not value.isascii():
        raise ValueError("must be an address of at most 512 characters, or null")
    match = _FORM.fullmatch(value)
    if match is None:
        raise ValueError("must be scheme, host and port only")
    scheme, place = match.groups()
    has_port = ":" in place.rpartition("]")[2]
    host, port = place.rsplit(":", 1) if has_port else (place, "")
    if has_port and not port:
        raise ValueError("has a colon without a port")
    canonical = _canonical(host)
    origin = parse_origin(f"{scheme}://{canonical}" + (f":{port}" if port else ""))
    if origin is None:
        raise ValueError("must be scheme, host and port only")
    return origin_text(origin)


def _canonical(host: str) -> str:
    """The one spelling of a host; literals in any form are read as what a resolver would take them for."""
    if host.startswith("["):
        packed = pack_address(host[1:-1].partition("%")[0])
        if packed is None or not host.endswith("]") or "%" in host:
            raise ValueError("has an IPv6 address that cannot be read")
        text = address_text(packed)
        return f"[{text}]" if ":" in text else text
    host = host.lower().removesuffix(".")
    if _NUMERIC.fullmatch(host) is None:
        return host
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        raise ValueError("has an IPv4 address that cannot be read") from None


def origin_of(config: RoomConfig) -> Origin | None:
    """The origin of an inline room."""
    return None if config.proxy_origin is None else parse_origin(config.proxy_origin)


def is_private_literal(origin: Origin) -> bool:
    """Tell whether the host is, by its text alone, an internal address or a name of this machine (INL-032)."""
    host = origin.host.strip("[]")
    packed = pack_address(host)
    if packed is not None:
        return is_internal(packed)
    return host == "localhost" or host.endswith(".localhost")


def loops(origin: Origin, public: Iterable[tuple[str, int | None]]) -> str | None:
    """The public host that ``origin`` points back at (INL-008, INL-009).

    ``public``: compared names with their ports. A name loops at any port, an address only at its own.
    """
    name = host_name(origin.host)
    for host, port in public:
        if host == name and (not is_literal(host) or port is None or port == origin.port):
            return host
    return None


def public_place(config: RoomConfig) -> tuple[str, int] | None:
    """Compared name and port of a room's ``targetUrl``."""
    url = parse_web_url(config.target_url)
    return None if url is None else (host_name(url.origin.host), url.origin.port)


def same_host_rooms(config: RoomConfig, others: Iterable[RoomConfig]) -> list[RoomConfig]:
    """Other inline rooms that share the host of ``config``."""
    place = public_place(config)
    if place is None:
        return []
    inline = (other for other in others if other.id != config.id and other.is_inline)
    return [other for other in inline if (public_place(other) or ("", 0))[0] == place[0]]
