"""A client that sends bytes as they are and reads answers strictly."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from types import TracebackType


@dataclass
class Answer:
    """One answer."""

    status: int
    reason: bytes
    lines: list[tuple[bytes, bytes]]
    body: bytes
    is_whole: bool = True

    def values(self, name: str) -> list[str]:
        return [value.decode("latin-1") for key, value in self.lines if key.lower() == name.lower().encode()]

    def header(self, name: str) -> str | None:
        found = self.values(name)
        return found[0] if found else None


class Client:
    """One connection."""

    def __init__(self, url: str, *, timeout: float = 20.0) -> None:
        host, _, port = url.partition("://")[2].partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.socket.sendall(part)

    def more(self) -> bool:
        """Read on; False at the end."""
        data = self.socket.recv(1 << 16)
        self.buffer += data
        return bool(data)

    def until(self, mark: bytes) -> bytes:
        """Bytes up to and with ``mark``."""
        while mark not in self.buffer:
            if not self.more():
                raise EOFError(self.buffer)
        end = self.buffer.index(mark) + len(mark)
        taken, self.buffer = self.buffer[:end], self.buffer[end:]
        return taken

    def exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            if not self.more():
                raise EOFError(self.buffer)
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        while self.more():
            pass
        taken, self.buffer = self.buffer, b""
        return taken

    def head(self) -> Answer:
        """The head of the next answer."""
        raw = self.until(b"\r\n\r\n")[:-4]
        first, *lines = raw.split(b"\r\n")
        _, status, *reason = first.split(b" ", 2)
        pairs = [line.partition(b":")[::2] for line in lines]
        return Answer(int(status), reason[0] if reason else b"", [(k, v.strip()) for k, v in pairs], b"")

    def answer(self, *, method: str = "GET") -> Answer:
        """The next whole answer; ``is_whole`` False when it broke off."""
        found = self.head()
        if method == "HEAD" or found.status in (204, 304):
            return found
        try:
            if found.header("transfer-encoding"):
                while size := int(self.until(b"\r\n").split(b";")[0], 16):
                    found.body += self.exactly(size)
                    assert self.exactly(2) == b"\r\n"
                while self.until(b"\r\n") != b"\r\n":
                    pass
            elif found.header("content-length") is not None:
                found.body = self.exactly(int(found.header("content-length") or 0))
            else:
                found.body = self.rest()
        except (EOFError, ConnectionError):
            found.is_whole = False
            found.body, self.buffer = found.body + self.buffer, b""
        return found

    def ask(self, head: str, body: bytes = b"") -> Answer:
        """Send a request whose lines end in line feeds here, and read its answer."""
        self.send(head.strip().replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body)
        return self.answer(method=head.split(" ", 1)[0])
