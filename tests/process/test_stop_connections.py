"""An orderly stop as connections see it: what is under way ends as ever, and nobody new gets in."""

from __future__ import annotations

import json
import signal
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest

from tests.harness import Server, wait_for

JOIN = b'{"roomId":"shop"}'


class Wire:
    """One connection to a server."""

    def __init__(self, server: Server) -> None:
        parts = urlsplit(server.url)
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=20)

    def ask(self, line: bytes, body: bytes = b"", *, send: int | None = None) -> None:
        head = line + b" HTTP/1.1\r\nHost: queue.example\r\nContent-Length: %d\r\n\r\n" % len(body)
        self.socket.sendall(head + body[:send])

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of one answer."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = self.socket.recv(65536)
            assert piece, f"closed after {data!r}"
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        while len(body) < int(headers.get("content-length", 0)):
            body += self.socket.recv(65536)
        return int(status.split()[1]), headers, body

    def ask_until_closed(self, line: bytes, body: bytes = b"") -> list[tuple[int, bytes]]:
        """Answers up to the one that ends the connection: a worker hears of a stop a tenth of a second late at most."""
        found: list[tuple[int, bytes]] = []
        while True:
            self.ask(line, body)
            status, headers, told = self.answer()
            found.append((status, told))
            if headers["connection"] == "close":
                return found

    def is_ended(self) -> bool:
        """Wait for the server to close it."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True


def is_refused(server: Server) -> bool:
    try:
        with ExitStack() as stack:
            stack.callback(Wire(server).socket.close)
        return False
    except ConnectionRefusedError:
        return True


@pytest.mark.req("VIS-213", "CFG-193", "CFG-194", "CFG-066", "CFG-192")
def test_a_stop_finishes_what_is_under_way_and_lets_nobody_new_in() -> None:
    with Server(env={"SHUTDOWN_GRACE_MS": "3000"}, workers=2) as server, ExitStack() as closing:
        key = {"Authorization": f"Bearer {server.admin_key}"}
        body = {"id": "shop", "targetUrl": "https://shop.example", "queueMaxPerIp": None}
        assert httpx.post(f"{server.url}/api/admin/rooms", json=body, headers=key).status_code == 200
        slow, idle, late, probe, stream = wires = [Wire(server) for _ in range(5)]
        for wire in wires:
            closing.callback(wire.socket.close)
        slow.ask(b"POST /api/join", JOIN, send=5)
        for wire in (idle, late, probe):  # connections that were open before
            wire.ask(b"GET /healthz")
            assert wire.answer()[0] == 200
        stream.ask(b"GET /events?room=shop")
        assert stream.answer()[1]["content-type"].startswith("text/event-stream")

        server.kill(signal.SIGTERM)
        wait_for(lambda: "stop_begun" in server.stderr)

        for status, told in probe.ask_until_closed(b"GET /healthz"):
            assert (status, json.loads(told)["ready"]) == (503, False)
        answers = late.ask_until_closed(b"POST /api/join", JOIN)
        assert [(status, json.loads(told).get("ticket", told)) for status, told in answers] == [
            (200, number + 1) for number in range(len(answers))
        ]
        assert probe.is_ended()
        assert late.is_ended()
        assert stream.is_ended()
        assert idle.is_ended()
        wait_for(lambda: is_refused(server))
        slow.socket.sendall(JOIN[5:])
        status, headers, told = slow.answer()
        assert (status, headers["connection"], json.loads(told)["ticket"]) == (200, "close", len(answers) + 1)
        assert slow.is_ended()
        assert server.wait() == 0
