"""On which hosts the console answers, and what becomes of ``/__qm`` where no room is proxied.

Pure: settings, host and raw path in, a word out. Which hosts are inline is the index's (inline/hosts.py).
Source: VIS-008, CFG-160 … CFG-171, INL-060 … INL-072.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final
from urllib.parse import unquote_to_bytes

from app.domain.inline.hosts import host_name, is_literal

PREFIX: Final = b"/__qm"
_CONSOLE: Final = frozenset({b"", b"/public/admin.html", b"/progress", b"/api/admin", b"/api/v1/admin"})
_TREES: Final = (b"/api/admin/", b"/api/v1/admin/", b"/assets/console/")

UNTOLD: Final = "PUBLIC_URL is unset, so it cannot be told where the console is."


class Console(Enum):
    """What a host says about a path."""

    SERVED = 0
    """It may be answered."""
    WITHHELD = 1
    """A bare 404: nothing tells that a console exists elsewhere (CFG-170)."""
    NO_PREFIX = 2
    """404 ``not_inline_host``."""


class HostPolicy:
    """ADMIN_HOST and PUBLIC_URL."""

    __slots__ = ("_admin_hosts", "_public_name", "_public_url")

    def __init__(self, admin_hosts: Iterable[str] = (), public_url: str | None = None) -> None:
        """``admin_hosts``: entries of ADMIN_HOST in lower case; none = the console answers on every host (CFG-161)."""
        self._admin_hosts = frozenset(admin_hosts)
        self._public_url = public_url.rstrip("/") if public_url else None
        self._public_name = host_name(public_url.partition("://")[2].partition("/")[0]) if public_url else ""

    def judge(self, host: str, path: bytes, *, inline: bool = False, any_inline: bool = False) -> Console:
        """What ``host`` (lower case, with its port) says about the raw path of a request.

        ``inline``: the path was asked below ``/__qm`` of an inline host; ``any_inline``: some room is inline.
        """
        if inline:
            is_served = not is_console(path) or self.serves_console(host, inline=True)
            return Console.SERVED if is_served else Console.WITHHELD
        if path.startswith(PREFIX) and path[len(PREFIX) : len(PREFIX) + 1] in (b"", b"/"):
            return Console.WITHHELD if self._admin_hosts else Console.NO_PREFIX
        if not (self._admin_hosts or any_inline) or not is_console(path):
            return Console.SERVED
        return Console.SERVED if self.serves_console(host, inline=False, any_inline=any_inline) else Console.WITHHELD

    def serves_console(self, host: str, *, inline: bool, any_inline: bool = True) -> bool:
        """Tell whether the console answers on ``host`` (INL-060 … INL-066)."""
        if self._admin_hosts:
            return self._is_admin(host)
        if inline or not any_inline:
            return True
        name = host_name(host)
        return is_literal(name) or name == self._public_name

    def keeps_admin(self, host: str) -> bool:
        """Tell whether ``/api/admin`` of an inline host that is an address stays the queue's (INL-067)."""
        return is_literal(host_name(host)) and (not self._admin_hosts or self._is_admin(host))

    def console(self) -> dict[str, str]:
        """The member that says where the console is, if that was told this server (INL-069)."""
        return {"console": f"{self._public_url}/"} if self._public_url else {}

    def where(self, sentence: str) -> str:
        """``sentence`` and where the console is, or why that cannot be told (INL-069)."""
        rest = f"The console is at {self._public_url}/" if self._public_url else UNTOLD
        return f"{sentence} {rest}"

    def _is_admin(self, host: str) -> bool:
        """An entry with a port matches that port only; a closing dot counts for nothing (CFG-171)."""
        name, port = split_port(host)
        name = name.removesuffix(".")
        return name in self._admin_hosts or f"{name}:{port}" in self._admin_hosts


def is_console(path: bytes) -> bool:
    """Tell whether a raw path is one of the console's, in any spelling that a router might take for it."""
    plain = unquote_to_bytes(path) if b"%" in path else path
    while b"//" in plain:
        plain = plain.replace(b"//", b"/")
    plain = plain.lower()
    return plain.rstrip(b"/") in _CONSOLE or plain.startswith(_TREES)


def split_port(host: str) -> tuple[str, str]:
    """Name and port of a ``Host`` value; the port is empty when there is none."""
    if host.endswith("]"):
        return host, ""
    name, colon, port = host.rpartition(":")
    return (name, port) if colon else (host, "")
