"""A visitor of an inline host with a cookie jar: what his browser would send."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.inline.conftest import Front
from tests.inline.raw import Answer, Client

PAGE = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
CALL = {"Accept": "application/json", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}


class Visitor:
    """One browser on one host."""

    def __init__(self, front: Front, room: str, *, host: str | None = None, agent: str = "Browser/1.0") -> None:
        self.front = front
        self.before = b""
        """Sent before each request: a line end takes it to the connection's task, which serves few requests else."""
        self.room = room
        self.host = host or f"{room}.test"
        self.agent = agent
        self.jar: dict[str, str] = {}
        self.client: Client | None = None

    def ask(self, method: str, target: str, body: bytes = b"", **headers: str) -> Answer:
        """One request; cookies of the answer are kept."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.host}", f"User-Agent: {self.agent}"]
        if self.jar:
            lines.append("Cookie: " + "; ".join(f"{name}={value}" for name, value in self.jar.items()))
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        if self.client is None:
            self.client = self.front.connect()
        self.client.send(self.before)
        answer = self.client.ask("\n".join(lines), body)
        if answer.header("connection") == "close":
            self.client.socket.close()
            self.client = None
        for cookie in answer.values("set-cookie"):
            name, _, rest = cookie.partition("=")
            value = rest.partition(";")[0]
            if "Max-Age=0" in cookie:
                self.jar.pop(name, None)
            else:
                self.jar[name] = value
        return answer

    def page(self, target: str = "/", method: str = "GET", **headers: str) -> Answer:
        """A navigation."""
        return self.ask(method, target, **{**PAGE, **headers})

    def call(self, target: str = "/api/cart", method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
        """A fetch of a script."""
        return self.ask(method, target, body, **{**CALL, **headers})

    def api(self, path: str, body: Any = None) -> dict[str, Any]:
        """A call of the queue's own page."""
        data = b"" if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", **CALL}
        answer = self.ask("GET" if body is None else "POST", "/__qm/api/" + path, data, **kind)
        assert answer.status == 200, answer
        return json.loads(answer.body)

    def join(self) -> dict[str, Any]:
        return self.api("join", {"roomId": self.room})

    def wait_for_turn(self) -> dict[str, Any]:
        """Join, and wait until let in."""
        self.join()
        end = time.monotonic() + 20
        while (state := self.api(f"status?room={self.room}"))["state"] != "passed":
            assert time.monotonic() < end, state
            time.sleep(0.05)
        return state

    def enter(self) -> Answer:
        """Wait for the turn and go in."""
        self.wait_for_turn()
        answer = self.page()
        assert answer.status == 200, answer
        return answer

    def close(self) -> None:
        if self.client is not None:
            self.client.socket.close()
            self.client = None
