"""The delivered edge gate in Node, between a stand-in of Cloudflare, a site, and a queue that a test may script."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

KEY = "pk_a-public-key-of-the-connectors-0123"
SCRIPT = Path(__file__).parent / "cloudflare.mjs"
PAGE = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
CALL = {"sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
WEBSOCKET = {"upgrade": "websocket", "sec-fetch-mode": "websocket", "sec-fetch-dest": "websocket"}
PATIENT_MS = "10000"
"""Longest time the Worker may be told to wait: no machine is slower."""
PASS: dict[str, Any] = {"action": "pass", "reason": "session", "recheckSec": 30}
QUEUE: dict[str, Any] = {
    "action": "queue", "reason": "new", "location": "https://queue.example/w/shop?qm_return=x&qm_from=y",
}  # fmt: skip


class Edge:
    """``with Edge(worker) as edge:``. ``settings``: what the Worker is given unless a request says otherwise."""

    def __init__(self, worker: Path) -> None:
        self._worker = worker
        self.settings: dict[str, Any] = {}
        self._isolates = 0
        self.isolate = "0"

    def __enter__(self) -> Edge:
        command = ["node", str(SCRIPT), str(self._worker)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        edge, _, queue = json.loads(self._process.stdout.readline())
        self.queue_url = f"http://127.0.0.1:{queue}"
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{edge}", timeout=30, trust_env=False)
        self.reset()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait(20)
        self._process.stdout.close()  # type: ignore[union-attr]

    def reset(self) -> None:
        """A new isolate in front of the scripted queue, and nothing seen yet."""
        self._isolates += 1
        self.isolate = str(self._isolates)
        self.settings = {"QM_URL": self.queue_url, "QM_ROOM": "shop", "QM_API_KEY": KEY, "QM_TIMEOUT_MS": PATIENT_MS}
        self.says(PASS)
        self.take()

    def says(self, body: Any = "", status: int = 200, **how: Any) -> None:
        """What the scripted queue answers from now on."""
        self._control(answer={"status": status, "body": body, **how})

    def take(self) -> dict[str, list[Any]]:
        """What came to ``site``, as ``checks``, ``points`` and ``log`` since the last time."""
        found: dict[str, list[Any]] = self._control(take=True)
        return found

    def peek(self) -> dict[str, list[Any]]:
        """The same, to be taken later."""
        found: dict[str, list[Any]] = self._control()
        return found

    def fuzz(self, count: int, **to: Any) -> dict[str, Any]:
        """Give the Worker ``count`` requests of strangers; to the real queue at ``url`` if there is one."""
        found: dict[str, Any] = self._control(fuzz={"count": count, **to})
        return found

    def ask(
        self,
        path: str = "/checkout",
        method: str = "GET",
        *,
        cookies: dict[str, str] | None = None,
        content: bytes | Iterator[bytes] | None = None,
        scheme: str = "https",
        ip: str = "203.0.113.9",
        headers: dict[str, str] | None = None,
        **settings: Any,
    ) -> httpx.Response:
        """A page request of a browser, unless ``headers`` say otherwise, with ``settings`` of the Worker besides."""
        own = {
            "x-test-env": json.dumps({**self.settings, **settings}), "x-test-isolate": self.isolate,
            "x-test-scheme": scheme, "x-test-ip": ip, "user-agent": "Browser/1.0",
            **(PAGE if headers is None else headers),
        }  # fmt: skip
        if cookies:
            own["cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        return self._http.request(method, path, headers=own, content=content)

    def _control(self, **wanted: Any) -> Any:
        answer = httpx.post(self.queue_url + "/control", json=wanted, timeout=120, trust_env=False)
        return answer.json()


def cookies_of(answer: httpx.Response) -> dict[str, str]:
    """Whole Set-Cookie lines of the queue by name."""
    lines = answer.headers.get_list("set-cookie")
    return {line.partition("=")[0]: line for line in lines if line.startswith("qm_")}
