"""The requests of the bench: byte for byte what the tag and the waiting page send, one visitor address each.

Eight browser headers, JSON bodies with `token`, `url` and `doorKey`, cookies where a browser would send them, and the
visitor's address by `X-Forwarded-For` of a declared proxy.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

AGENT = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
)
PAGE = "https://shop.example/checkout/basket?step=2"
ADDRESSES = 10_000
BROWSER_HEADERS = (
    "Host: 127.0.0.1:{port}\r\n"
    "User-Agent: " + AGENT + "\r\n"
    "Accept: */*\r\n"
    "Accept-Language: en-GB,en;q=0.9,th;q=0.8\r\n"
    "Accept-Encoding: gzip, deflate, br\r\n"
    'sec-ch-ua: "Chromium";v="130", "Not?A_Brand";v="99"\r\n'
    "Referer: https://shop.example/\r\n"
    "Connection: keep-alive\r\n"
)


@dataclass(frozen=True, slots=True)
class Holder:
    """A visitor with a ticket: what his browser would send."""

    address: str
    token: str
    session: str
    door_key: str = ""


def address(n: int) -> str:
    """One of the 10,000 client addresses."""
    n %= ADDRESSES
    return f"10.20.{n >> 8}.{n & 255}"


def _post(port: int, path: str, body: dict[str, str], extra: str = "") -> bytes:
    payload = json.dumps(body, separators=(",", ":")).encode()
    head = (
        f"POST {path} HTTP/1.1\r\n" + BROWSER_HEADERS.format(port=port) + extra + "Content-Type: application/json\r\n"
        f"Content-Length: {len(payload)}\r\n\r\n"
    )
    return head.encode() + payload


def bare(port: int) -> bytes:
    """The yardstick's request: a GET with the same browser headers."""
    return ("GET / HTTP/1.1\r\n" + BROWSER_HEADERS.format(port=port) + "\r\n").encode()


def check(port: int, room: str, holder: Holder) -> bytes:
    """The tag's check: a cross-site POST, so without cookies."""
    body = {"token": holder.token, "url": PAGE, "doorKey": holder.door_key, "tag": "1.4.0"}
    extra = f"X-Forwarded-For: {holder.address}\r\nOrigin: https://shop.example\r\nSec-Fetch-Site: cross-site\r\n"
    return _post(port, f"/api/check?room={room}", body, extra + "Sec-Fetch-Mode: cors\r\n")


def status(port: int, room: str, holder: Holder) -> bytes:
    """The waiting page's poll, by cookie."""
    cookie = f"Cookie: qm_{room}={holder.token}; qms_{room}={holder.session}\r\n"
    extra = f"X-Forwarded-For: {holder.address}\r\n{cookie}"
    return (f"GET /api/status?room={room} HTTP/1.1\r\n" + BROWSER_HEADERS.format(port=port) + extra + "\r\n").encode()


def join(port: int, room: str, n: int) -> bytes:
    """The waiting page's join of somebody new."""
    extra = f"X-Forwarded-For: {address(n)}\r\nOrigin: http://127.0.0.1:{port}\r\nSec-Fetch-Site: same-origin\r\n"
    return _post(port, "/api/join", {"roomId": room, "returnUrl": PAGE}, extra)


def cycles(requests: Sequence[bytes], connections: int) -> list[Iterator[bytes]]:
    """Deal ``requests`` out to the connections; each goes round its own share for ever."""
    return [itertools.cycle(requests[i::connections] or requests) for i in range(connections)]


def joins(port: int, room: str, connections: int) -> list[Iterator[bytes]]:
    """Endless newcomers for each connection."""
    numbers = itertools.count()

    def endless() -> Iterator[bytes]:
        for n in numbers:
            yield join(port, room, n)

    return [endless() for _ in range(connections)]
