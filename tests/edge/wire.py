"""Raw sockets against the dev app: nothing between the test and the bytes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from types import TracebackType
from typing import Any

HOST = b"Host: queue.test\r\n"


class DevServer:
    """The dev app in processes of its own."""

    def __init__(self, workers: int = 1, **options: Any) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [sys.executable, "-m", "tests.edge.devapp", str(self.port), str(workers), json.dumps(options)]
        # A group of its own: Sanic's main, told twice to stop, kills the group it is in.
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def __enter__(self) -> DevServer:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
            try:
                with Wire(self.port) as wire:
                    wire.send(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
                    assert wire.answer().status == 200
                return self
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the dev app did not start")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Again and again: Sanic's own handler, which the dev app has, loses a signal that comes while it starts.
        for _ in range(20):
            self.process.terminate()
            try:
                self.process.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                continue
            return
        self.process.kill()
        self.process.communicate()
        raise AssertionError("the dev app did not stop")


class Answer:
    """One answer as it came."""

    def __init__(self, status: int, headers: list[tuple[str, str]], body: bytes, head: bytes) -> None:
        self.status = status
        self.lines = headers
        self.headers = dict(headers)
        self.body = body
        self.head = head

    @property
    def fields(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> Any:
        return self.fields.get("code")

    def all(self, name: str) -> list[str]:
        return [value for other, value in self.lines if other == name]


class Wire:
    """One connection."""

    def __init__(self, port: int, *, timeout: float = 10.0, source: str | None = None) -> None:
        """``source``: address of 127.0.0.0/8 to come from. Not bound without need: a bound socket may meet itself."""
        self.sock = socket.create_connection(("127.0.0.1", port), timeout, (source, 0) if source else None)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sock.close()

    def send(self, data: bytes) -> Wire:
        self.sock.sendall(data)
        return self

    def ask(self, line: str, *headers: str, body: bytes = b"") -> Answer:
        head = f"{line} HTTP/1.1\r\nHost: queue.test\r\n" + "".join(f"{each}\r\n" for each in headers)
        if body:
            head += f"Content-Length: {len(body)}\r\n"
        self.send(head.encode("latin-1") + b"\r\n" + body)
        return self.answer(head_only=line.startswith("HEAD "))

    def answer(self, *, head_only: bool = False) -> Answer:
        head = self._until(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        headers = [
            (name.decode().lower(), value.decode().strip()) for name, _, value in (x.partition(b":") for x in lines)
        ]
        status = int(first.split(b" ")[1])
        found = dict(headers)
        if head_only or status in (100, 204, 304):
            body = b""
        elif found.get("transfer-encoding") == "chunked":
            body = self._chunks()
        elif "content-length" in found:
            body = self._exactly(int(found["content-length"]))
        else:
            body = self.rest()
        return Answer(status, headers, body, head)

    def rest(self) -> bytes:
        """Everything until the server closes; ConnectionResetError counts as an end only when nothing came."""
        while data := self.sock.recv(65536):
            self.buffer += data
        taken, self.buffer = self.buffer, b""
        return taken

    def is_closed(self) -> bool:
        """Wait for the server to close, and tell whether it did without another byte."""
        try:
            return self.rest() == b""
        except ConnectionResetError:
            return True

    def _more(self) -> None:
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError(f"closed after {self.buffer!r}")
        self.buffer += data

    def _until(self, mark: bytes) -> bytes:
        while mark not in self.buffer:
            self._more()
        taken, _, self.buffer = self.buffer.partition(mark)
        return taken + mark

    def _exactly(self, count: int) -> bytes:
        while len(self.buffer) < count:
            self._more()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def _chunks(self) -> bytes:
        found = b""
        while size := int(self._until(b"\r\n"), 16):
            found += self._exactly(size)
            assert self._exactly(2) == b"\r\n"
        assert self._exactly(2) == b"\r\n"
        return found
