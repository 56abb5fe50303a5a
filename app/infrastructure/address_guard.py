"""Which addresses this server connects to for a room: resolving, and judging of every answer (04, section 2).

The address that is connected to is one of the very answer that was judged (INL-036), and a name with one internal
address among its own is refused whole (INL-035). Needs a second reviewer.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from app.domain.internal_addresses import is_internal
from app.domain.net_ranges import pack_address

_STORE_PORTS: Final = {
    "redis": 6379, "rediss": 6379, "valkey": 6379, "valkeys": 6379, "postgresql": 5432, "postgres": 5432,
    "smtp": 25, "smtps": 465,
}  # fmt: skip


class AddressRefused(Exception):
    """One of the addresses must not be connected to; nothing was sent."""


class NotResolved(Exception):
    """The name has no address."""


class AddressGuard:
    """Judges. ``own``: hosts and ports of this server's own stores, which no room may reach (INL-232)."""

    def __init__(self, *, allow_private: bool, own: Iterable[tuple[str, int]] = ()) -> None:
        self.allow_private = allow_private
        self._own = tuple(own)
        self._asked: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """Addresses of ``host`` (a literal without brackets), all of which may be connected to.

        Raises AddressRefused, NotResolved.
        """
        found = [host] if pack_address(host) is not None else await self._resolve(host, port)
        if not self.allow_private and any(map(is_internal_text, found)):
            raise AddressRefused
        for own_host, own_port in self._own:
            if own_port == port and (own_host == host or await self._overlaps(found, own_host, port)):
                raise AddressRefused
        return found

    async def _overlaps(self, found: list[str], host: str, port: int) -> bool:
        try:
            own = {pack_address(address) for address in await self._resolve(host, port)}
        except NotResolved:
            return False
        return any(pack_address(address.partition("%")[0]) in own for address in found)

    async def _resolve(self, host: str, port: int) -> list[str]:
        """``resolve``, with one question at a time for a name: while the resolver hangs, a thread for each request
        would soon be all that the machine has."""
        key = host, port
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = _ask(host, port)
            asked.add_done_callback(lambda _: self._asked.pop(key, None))
        return await _told(host, asyncio.shield(asked))


def is_internal_text(address: str) -> bool:
    """Tell whether the text of an address is one that is refused; one that cannot be read is."""
    packed = pack_address(address.partition("%")[0])
    return packed is None or is_internal(packed)


async def resolve(host: str, port: int) -> list[str]:
    """Addresses of a name, in the resolver's order. Raises NotResolved."""
    return await _told(host, _ask(host, port))


async def _told(host: str, answer: asyncio.Future[list[str]]) -> list[str]:
    try:
        return await answer
    except (OSError, UnicodeError) as error:
        raise NotResolved(host) from error


def _ask(host: str, port: int) -> asyncio.Future[list[str]]:
    """Ask the resolver, in a thread of its own, which nobody waits for at a stop: one that does not answer takes long
    to say so."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[str]] = loop.create_future()

    def settle(result: list[str] | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result or [])

    def look() -> None:
        result: list[str] | None = None
        failure: Exception | None = None
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            result = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        except (OSError, UnicodeError) as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:  # the loop was closed meanwhile
            return

    threading.Thread(target=look, name="resolve", daemon=True).start()
    return future


def own_ports(*urls: str) -> list[tuple[str, int]]:
    """Hosts and ports of store addresses; those reached by a socket file have none."""
    found = []
    for url in urls:
        parts = urlsplit(url)
        standard = _STORE_PORTS.get(parts.scheme)
        if parts.hostname and standard is not None:
            found.append((parts.hostname, parts.port or standard))
    return found
