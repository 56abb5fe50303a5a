"""A browser as the line sees it: keeps cookies, joins, asks, checks, leaves. Used by demo, tests and surges.

Many of them share one HTTP client (a client of its own each would cost more than the visitor), so the cookie jar
is the browser's own.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
RETRY_SEC = 0.25
HEADERS = {
    "User-Agent": AGENT,
    "Accept": "application/json",
    "Accept-Language": "en-GB,en;q=0.9,th;q=0.8",
    "Accept-Encoding": "gzip, deflate",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read to its end."""

    status_code: int
    headers: Any
    body: bytes

    def json(self) -> dict[str, Any]:
        """The JSON object of the body."""
        found: dict[str, Any] = json.loads(self.body)
        return found


class Browser:
    """One visitor with a cookie jar of his own, in one room."""

    def __init__(self, client: aiohttp.ClientSession, room: str, *, agent: str = AGENT) -> None:
        """``client`` has the server's base URL and keeps no cookie."""
        self.client, self.room = client, room
        self.cookies: dict[str, str] = {}
        self.headers = {**HEADERS, "User-Agent": agent}
        self.token: str | None = None
        self.ticket: int | None = None
        self.door_key: str | None = None

    async def send(self, method: str, path: str, **kw: Any) -> Answer:
        """Send one request with this browser's cookies and keep what the answer sets."""
        headers = {**self.headers, **kw.pop("headers", {})}
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        async with self.client.request(method, path, headers=headers, **kw) as response:
            answer = Answer(response.status, response.headers, await response.read())
        for line in answer.headers.getall("Set-Cookie", []):
            name, _, rest = line.partition("=")
            if "max-age=0" in line.lower():
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = rest.split(";", 1)[0]
        return answer

    async def join(self, **body: Any) -> dict[str, Any]:
        """Ask for a place; the visitor state, with ``status`` of the answer."""
        answer = await self.send("POST", "/api/join", json={"roomId": self.room, **body})
        state: dict[str, Any] = answer.json() | {"status": answer.status_code}
        self.token = state.get("token", self.token)
        self.ticket = state.get("ticket", self.ticket)
        return state

    async def status(self) -> dict[str, Any]:
        """Ask how the place stands."""
        answer = await self.send("GET", f"/api/status?room={self.room}")
        return answer.json() | {"status": answer.status_code}

    async def check(self, url: str) -> dict[str, Any]:
        """Stand at the door of ``url`` as a page of the queue's own origin would."""
        body = {"url": url} | ({"doorKey": self.door_key} if self.door_key else {})
        answer = await self.send("POST", f"/api/check?room={self.room}", json=body)
        state: dict[str, Any] = answer.json() | {"status": answer.status_code}
        self.door_key = state.get("doorKey", self.door_key)
        return state

    async def leave(self) -> dict[str, Any]:
        """Give the place, pass or session up."""
        answer = await self.send("POST", "/api/leave", json={"roomId": self.room})
        return answer.json() | {"status": answer.status_code}


async def patiently(ask: Callable[[], Awaitable[dict[str, Any]]], *, seconds: float = 60.0) -> dict[str, Any]:
    """Ask again while a store is away or the connection breaks, as the page does; the last answer after ``seconds``.

    ``ask`` is a call of a Browser, for example ``browser.status``.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            state = await ask()
        except (aiohttp.ClientError, TimeoutError):
            state = {"status": 0, "code": "no_answer"}
        if state["status"] not in (0, 503) or time.monotonic() > end:
            return state
        await asyncio.sleep(RETRY_SEC)


def shared_client(base_url: str, connections: int = 100) -> aiohttp.ClientSession:
    """The one client that many browsers share; it keeps no cookie, or one browser would send another's."""
    return aiohttp.ClientSession(
        base_url,
        connector=aiohttp.TCPConnector(limit=connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=60),
    )
