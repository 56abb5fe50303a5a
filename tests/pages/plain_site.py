"""A server with rooms, a site behind it, and visitors without script, each from an address of his own."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.harness import Server, wait_for

NAVIGATION = {
    "accept": "text/html,application/xhtml+xml", "accept-language": "en-GB,en;q=0.9", "accept-encoding": "gzip",
    "sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document",
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
}  # fmt: skip
"""Headers of a navigation that a page of this host began."""


class PlainSite:
    """The server as these tests use it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.url = server.url
        self._addresses = iter(range(10, 250))
        self._open: list[httpx.Client] = []

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.server.admin_key}"}
        answer = httpx.request(method, f"{self.url}/api/admin/{path}", json=body, headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def room(self, name: str, **fields: Any) -> str:
        """A room in which nobody is let in; its first place is taken, so that no first credit lets anybody in."""
        self.admin("POST", "rooms", {"id": name, "targetUrl": "https://www.shop.example/", "rate": 0, **fields})
        return name

    def waiting(self, room: str) -> int:
        """How many stand in line, or before the doors."""
        found = self.admin("GET", f"rooms/{room}")["room"]
        return int(found["waiting"]) + int(found["preQueue"])

    def visitor(self, address: str = "", **headers: str) -> httpx.Client:
        """Somebody who keeps cookies and follows nothing by himself."""
        transport = httpx.HTTPTransport(local_address=address or f"127.0.0.{next(self._addresses)}")
        sent = {**NAVIGATION, **{name.replace("_", "-"): value for name, value in headers.items()}}
        client = httpx.Client(base_url=self.url, transport=transport, headers=sent, timeout=30)
        self._open.append(client)
        return client

    def close(self) -> None:
        for client in self._open:
            client.close()


def refresh(answer: httpx.Response) -> tuple[int, str]:
    """When and where a page loads itself again; (0, "") if it does not."""
    found = re.search(r'<meta http-equiv="refresh" content="(\d+);url=([^"]*)">', answer.text)
    return (int(found[1]), found[2].replace("&amp;", "&")) if found else (0, "")


def heading(answer: httpx.Response) -> str:
    """The page's heading as one sentence."""
    found = re.search(r"<h1>(.*?)</h1>", answer.text)
    assert found, answer.text
    return " ".join(re.sub(r"<[^>]+>", " ", found[1]).split())


def until(claim: Any) -> None:
    wait_for(claim, 30)


@contextmanager
def landing() -> Iterator[str]:
    """A site that says ``landed``; its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<h1>landed</h1>")

        def log_message(self, *_words: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()
