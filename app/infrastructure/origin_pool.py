"""Connections to the sites behind inline rooms: opened after judging the address, kept for reuse, never shared.

Belongs here: sockets and their loss. Not here: what is sent and read (the edge), which origin is asked
(services/origin_choice.py). Source: INL-034 … INL-041, INL-132, INL-159.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import ssl
import struct
from typing import Any, Final, Protocol

from app.core.clock import mono
from app.domain.inline.failures import Failure, OriginFailed
from app.domain.origins import Origin
from app.infrastructure.address_guard import AddressGuard, AddressRefused, NotResolved
from app.infrastructure.rate_limiter import RateLimiter

IDLE_MAX: Final = 128
"""Idle connections kept per origin and process."""
IDLE_SEC: Final = 4.0
"""How long an idle one may be taken again: servers drop them after 5 s and more."""
UNREPEATABLE_IDLE_SEC: Final = 1.0
"""The same for a request that must not be sent twice: the later, the likelier the origin is just closing it."""
ADDRESSES_TRIED: Final = 3
ADDRESS_SEC: Final = 3.0
"""Time for one of several addresses."""
REST_READ: Final = 65_536
REST_READS: Final = 4
"""How much of an answer is read from a connection that is broken off already; the visitor's slowness does not count."""
GAUGE: Final = "upstream"
"""Gauge of the connections that all workers of the instance have open."""
_GAUGE_KEY: Final = b"origins"
_RESET: Final = struct.pack("ii", 1, 0)


class Owner(Protocol):
    """Who uses a connection at the moment."""

    def on_data(self, data: bytes) -> None:
        """Bytes came."""

    def on_eof(self) -> bool:
        """The origin sends no more; True keeps the other direction open."""

    def on_lost(self, *, is_reset: bool) -> None:
        """The connection is gone; ``is_reset``: it was broken off."""

    def on_writable(self, is_writable: bool) -> None:
        """The origin reads more slowly than it is written to, or has caught up."""


class OriginLink(asyncio.Protocol):
    """One connection. Belongs to at most one request at a time (``owner``)."""

    __slots__ = ("_pool", "idle_since", "is_lost", "is_paused", "key", "owner", "transport")

    def __init__(self, pool: OriginPool, key: Origin) -> None:
        self._pool = pool
        self.key = key
        self.owner: Owner | None = None
        self.transport: Any = None
        self.idle_since = 0.0
        self.is_lost = False
        self.is_paused = False
        """Too much is written that the origin has not taken."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(low=65536, high=262144)

    def data_received(self, data: bytes) -> None:
        if self.owner is None:
            self.abort()  # nothing was asked: it must not be taken for the next answer
        else:
            self.owner.on_data(data)

    def eof_received(self) -> bool:
        return self.owner is not None and self.owner.on_eof()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.is_lost = True
        self._pool.forget(self)
        if exc is not None and self.owner is not None:
            self._hand_over_rest()
        if self.owner is not None:
            owner, self.owner = self.owner, None
            owner.on_lost(is_reset=exc is not None)

    @property
    def is_tls(self) -> bool:
        """Whether only the transport can read what comes."""
        return self.key.scheme == "https"

    def has_unread(self) -> bool:
        """Whether bytes or the end of the origin lie in the socket and were not told of yet."""
        sock = None if self.is_lost else self.transport.get_extra_info("socket")
        if sock is None or sock.fileno() < 0:
            return False
        look = select.poll()
        look.register(sock.fileno(), select.POLLIN)
        return bool(look.poll(0))

    def _hand_over_rest(self) -> None:
        """Give the owner what came before the origin broke off and was not read yet.

        A site that refuses an upload answers and closes. Its reset may be noticed by the next write, which ends the
        transport, while the answer still lies in the socket (INL-146).
        """
        sock = self.transport.get_extra_info("socket")
        if self.is_tls or sock is None or sock.fileno() < 0:
            return
        with contextlib.suppress(OSError):
            for _ in range(REST_READS):
                data = os.read(sock.fileno(), REST_READ)
                if not data or self.owner is None:  # no more, or it has all it wanted
                    return
                self.owner.on_data(data)

    def pause_writing(self) -> None:
        self.is_paused = True
        if self.owner is not None:
            self.owner.on_writable(False)

    def resume_writing(self) -> None:
        self.is_paused = False
        if self.owner is not None:
            self.owner.on_writable(True)

    def abort(self) -> None:
        """Break it off; its owner hears nothing more."""
        self.owner = None
        if self.is_lost or self.transport is None:
            return
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()


class OriginPool:
    """The connections of one process."""

    def __init__(self, guard: AddressGuard, *, timeout_sec: float, limiter: RateLimiter | None = None) -> None:
        """``timeout_sec``: for DNS, TCP and TLS of one connection together (INL-159). ``limiter``: counts those that
        are open, for all workers of the instance."""
        self._guard = guard
        self._limiter = limiter
        self._timeout = timeout_sec
        self._idle: dict[Origin, list[OriginLink]] = {}
        self._links: set[OriginLink] = set()
        self._tls = ssl.create_default_context()

    @property
    def open_links(self) -> int:
        """Connections that are open, idle ones included."""
        return len(self._links)

    def take_idle(self, origin: Origin, *, is_repeatable: bool) -> OriginLink | None:
        """A connection that was used before and is free."""
        idle = self._idle.get(origin)
        limit = mono() - (IDLE_SEC if is_repeatable else UNREPEATABLE_IDLE_SEC)
        while idle:
            link = idle.pop()
            if link.is_lost or link.transport.is_closing():
                continue
            if link.idle_since >= limit:
                return link
            if link.idle_since >= mono() - IDLE_SEC:
                idle.append(link)
                return None
            link.abort()
        return None

    async def connect(self, origin: Origin) -> OriginLink:
        """A new connection. Raises OriginFailed."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._connect(origin)
        except TimeoutError as error:
            raise OriginFailed(Failure.TIMEOUT) from error

    def give_back(self, link: OriginLink) -> None:
        """Keep a connection whose last exchange was complete in both directions."""
        link.owner = None
        idle = self._idle.setdefault(link.key, [])
        if link.is_lost or link.is_paused or link.transport.is_closing() or len(idle) >= IDLE_MAX:
            link.abort()
            return
        link.idle_since = mono()
        link.transport.resume_reading()
        idle.append(link)

    def forget(self, link: OriginLink) -> None:
        """A connection is gone."""
        if link in self._links:
            self._links.remove(link)
            if self._limiter is not None:
                self._limiter.gauge_leave(GAUGE, _GAUGE_KEY)
        idle = self._idle.get(link.key)
        if idle and link in idle:
            idle.remove(link)

    def close(self) -> None:
        """Close everything."""
        for link in list(self._links):
            link.abort()

    async def _connect(self, origin: Origin) -> OriginLink:
        host = origin.host.strip("[]")
        try:
            addresses = await self._guard.addresses(host, origin.port)
        except AddressRefused as error:
            raise OriginFailed(Failure.BLOCKED_ADDRESS) from error
        except NotResolved as error:
            raise OriginFailed(Failure.DNS) from error
        tls: dict[str, Any] = {"ssl": self._tls, "server_hostname": host} if origin.scheme == "https" else {}
        tried = addresses[:ADDRESSES_TRIED]
        failure = OriginFailed(Failure.CONNECT)
        for address in tried:
            try:
                async with asyncio.timeout(ADDRESS_SEC if address != tried[-1] else None):
                    return await self._open(origin, address, tls)
            except ssl.SSLError as error:
                raise OriginFailed(Failure.TLS) from error
            except TimeoutError:
                failure = OriginFailed(Failure.TIMEOUT)
            except OSError:
                failure = OriginFailed(Failure.CONNECT)
        raise failure

    async def _open(self, origin: Origin, address: str, tls: dict[str, Any]) -> OriginLink:
        loop = asyncio.get_running_loop()
        link = OriginLink(self, origin)
        await loop.create_connection(lambda: link, address, origin.port, **tls)
        if not link.is_lost:
            self._links.add(link)
            if self._limiter is not None:
                self._limiter.gauge_enter(GAUGE, _GAUGE_KEY, per_key=0, in_all=0)
        return link
