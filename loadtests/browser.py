"""A browser as the line sees it: keeps cookies, joins, asks, checks, leaves. Used by demo, tests and surges.

Many of them share one HTTP client (a client of its own each would cost more than the visitor), so the cookie jar
is the browser's own.
"""

from __future__ import annotations

from typing import Any

import httpx

AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
HEADERS = {
    "User-Agent": AGENT,
    "Accept": "application/json",
    "Accept-Language": "en-GB,en;q=0.9,th;q=0.8",
    "Accept-Encoding": "gzip, deflate",
}


class Browser:
    """One visitor with a cookie jar of his own, in one room."""

    def __init__(self, client: httpx.AsyncClient, room: str, *, agent: str = AGENT) -> None:
        """``client`` has the server's base URL; its own cookie jar is never used."""
        self.client, self.room = client, room
        self.cookies: dict[str, str] = {}
        self.headers = {**HEADERS, "User-Agent": agent}
        self.token: str | None = None
        self.ticket: int | None = None
        self.door_key: str | None = None

    async def send(self, method: str, path: str, **kw: Any) -> httpx.Response:
        """Send one request with this browser's cookies and keep what the answer sets."""
        headers = {**self.headers, **kw.pop("headers", {})}
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = await self.client.request(method, path, headers=headers, **kw)
        for line in answer.headers.get_list("set-cookie"):
            name, _, rest = line.partition("=")
            value = rest.split(";", 1)[0]
            if "max-age=0" in line.lower():
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        self.client.cookies.clear()
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


def shared_client(base_url: str, connections: int = 100) -> httpx.AsyncClient:
    """The one client that many browsers share."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(base_url=base_url, limits=limits, timeout=30.0, trust_env=False)
