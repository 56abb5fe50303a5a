"""Callers of a running server, each at an address of its own, so that no test can lock out another."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx

from tests.harness import Server

TARGET = "https://shop.example"
_numbers = itertools.count(1)


class Caller:
    """A client behind the declared proxy; ``key`` None = without credential."""

    def __init__(self, server: Server, key: str | None, **headers: str) -> None:
        number = next(_numbers)
        own = {"X-Forwarded-For": f"198.51.{number // 250}.{number % 250 + 1}", **headers}
        if key is not None:
            own["Authorization"] = f"Bearer {key}"
        self.http = httpx.Client(base_url=server.url, headers=own, timeout=60)

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.request(method, path, content=content, **more)

    def keep_cookie(self, value: str) -> None:
        """Send this console session from now on, and no cookie that an answer sets."""
        self.http.headers["Cookie"] = f"qm_console={value}"


class Callers:
    """Makes callers and closes them at the end of a test."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._made: list[Caller] = []

    def with_key(self, key: str | None, **headers: str) -> Caller:
        """A script with this Bearer key."""
        self._made.append(Caller(self._server, key, **headers))
        return self._made[-1]

    def page(self) -> Caller:
        """The console's page before signing in."""
        return self.with_key(None, **{"X-QM-CSRF": "1", "Sec-Fetch-Site": "same-origin"})

    def signed_in(self, key: str = "") -> Caller:
        """The console's page after signing in with ``key``, ADMIN_KEY by default."""
        page = self.page()
        answer = page("POST", "/api/admin/session", {"key": key or self._server.admin_key})
        page.http.cookies.clear()
        page.keep_cookie(session_of(answer))
        return page

    def close(self) -> None:
        """End every connection."""
        for caller in self._made:
            caller.http.close()


def session_of(answer: httpx.Response) -> str:
    """Value of the session cookie that an answer sets."""
    name, _, value = answer.headers["set-cookie"].partition(";")[0].partition("=")
    assert name == "qm_console"
    return str(value)


def code(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal."""
    return answer.status_code, answer.json()["code"]


def fresh_id() -> str:
    """A room id that no other test uses."""
    return f"room-{next(_numbers)}"
