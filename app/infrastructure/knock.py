"""One knock at a site: the question a visitor's browser would ask, bounded in time, size, addresses and redirects.

Belongs here: the choice of the address, one HTTP/1.1 exchange. Not here: which addresses may be connected to
(address_guard.py), when a knock is due, what many of them mean. Source: MSH-025 … MSH-027, MSH-034, INL-038.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin

from app.core.clock import mono
from app.core.streams import send
from app.domain.origins import Origin, origin_text, parse_web_url
from app.infrastructure.address_guard import AddressGuard, AddressRefused, NotResolved

AGENT: Final = "Mozilla/5.0 (compatible; QueueManager-Knock/1)"
CONNECT_SEC: Final = 3.0
ANSWER_BYTES: Final = 4096
ADDRESSES_TRIED: Final = 3
REDIRECTS: Final = 3
"""Most redirects inside the same host that are followed; one to another host is the site's answer."""
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: [^\r\n]*)?\r?\n")
_LOCATION: Final = re.compile(rb"^location:[ \t]*([^\r\n]*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_NO_HEAD: Final = frozenset({405, 501})
_MOVED: Final = frozenset({301, 302, 303, 307, 308})


class Refused(Exception):
    """The site's address is one that must not be connected to; nothing was sent."""


class KnockFailed(Exception):
    """No HTTP answer came. ``kind``: class of the failure."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Answer:
    """What a site answered. ``ms``: from the first packet to the end of the answer's head."""

    status: int
    ms: int
    location: str = ""


class Knocker:
    """Knocks. ``own``: hosts and ports of this server's own stores, which no room may reach (INL-232)."""

    def __init__(self, *, timeout_ms: int, allow_private: bool, own: Iterable[tuple[str, int]] = ()) -> None:
        self._timeout = timeout_ms / 1000
        self._guard = AddressGuard(allow_private=allow_private, own=own)
        self._tls = ssl.create_default_context()

    async def knock(self, site: Origin) -> Answer:
        """Ask ``site`` for its first page. Raises Refused, and KnockFailed when no answer came in time."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._ask(site)
        except TimeoutError as error:
            raise KnockFailed("timeout") from error

    async def _ask(self, site: Origin) -> Answer:
        path, method, moved = "/", "HEAD", 0
        while True:
            answer = await self._exchange(site, method, path)
            if method == "HEAD" and answer.status in _NO_HEAD:
                method = "GET"
                continue
            onward = _same_host(site, path, answer) if answer.status in _MOVED and moved < REDIRECTS else None
            if onward is None:
                return answer
            site, path = onward
            moved += 1

    async def _exchange(self, site: Origin, method: str, path: str) -> Answer:
        began = mono()
        reader, writer = await self._connect(site)
        try:
            host = origin_text(site).partition("://")[2]
            head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {AGENT}\r\nAccept: */*\r\n"
            send(writer, f"{head}Connection: close\r\n\r\n".encode("ascii"))
            await writer.drain()
            status, location = await read_head(reader)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            raise KnockFailed("reset") from error
        except ssl.SSLError as error:
            raise KnockFailed("tls") from error
        finally:
            writer.transport.abort()
        return Answer(status, round((mono() - began) * 1000), location)

    async def _connect(self, site: Origin) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        addresses = await self._addresses(site)
        name = site.host.strip("[]")
        tls: dict[str, Any] = {"ssl": self._tls, "server_hostname": name} if site.scheme == "https" else {}
        failure: Exception = OSError("no address")
        for address in addresses[:ADDRESSES_TRIED]:
            try:
                async with asyncio.timeout(CONNECT_SEC):
                    return await asyncio.open_connection(address, site.port, limit=ANSWER_BYTES, **tls)
            except ssl.SSLError as error:
                raise KnockFailed("tls") from error
            except (OSError, TimeoutError) as error:
                failure = error
        raise KnockFailed("timeout" if isinstance(failure, TimeoutError) else "connect") from failure

    async def _addresses(self, site: Origin) -> list[str]:
        try:
            return await self._guard.addresses(site.host.strip("[]"), site.port)
        except AddressRefused as error:
            raise Refused from error
        except NotResolved as error:
            raise KnockFailed("dns") from error


async def read_head(reader: asyncio.StreamReader) -> tuple[int, str]:
    """Status and ``Location`` of the final answer; interim ones are passed over. Raises KnockFailed."""
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            head = await reader.read(ANSWER_BYTES)  # a long head: its first line is enough
        except asyncio.IncompleteReadError as error:
            if not error.partial:
                raise
            head = error.partial
        match = _STATUS_LINE.match(head)
        if match is None:
            raise KnockFailed("bad_response")
        status = int(match[1])
        if status >= 200 or status == 101:
            location = _LOCATION.search(head)
            return status, location[1].decode("latin-1") if location else ""


def _same_host(site: Origin, path: str, answer: Answer) -> tuple[Origin, str] | None:
    """Where a redirect leads, when that is the same host; None: it is the site's answer as it is."""
    url = parse_web_url(urljoin(origin_text(site) + path, answer.location)) if answer.location else None
    if url is None or url.origin.host != site.host:
        return None
    _, _, rest = url.text().partition("://")
    return url.origin, "/" + rest.partition("/")[2].partition("#")[0]
