"""Whether a private store answers, asked over its socket without a client library (main has no event loop)."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Final

PG_USER: Final = "qm"
"""Superuser of the private Postgres; only the owner of the socket's directory can reach it."""
_WAIT_SEC: Final = 1.0


def valkey_answers(path: Path) -> bool:
    """True when the Valkey behind ``path`` has loaded its data and takes commands."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            _connect(link, path)
            link.sendall(b"PING\r\n")
            return link.recv(16).startswith(b"+PONG")
    except OSError:
        return False


def postgres_answers(path: Path) -> bool:
    """True when the Postgres behind ``path`` opens a session. Source: PostgreSQL manual, "Message Flow"."""
    body = struct.pack("!i", 3 << 16) + f"user\0{PG_USER}\0database\0postgres\0\0".encode()
    try:
        with socket.socket(socket.AF_UNIX) as link:
            _connect(link, path)
            link.sendall(struct.pack("!i", len(body) + 4) + body)
            while (kind := _next_message(link)) not in (b"Z", b"E", b""):
                pass
            if kind == b"Z":
                link.sendall(b"X\x00\x00\x00\x04")
            return kind == b"Z"
    except OSError:
        return False


def _connect(link: socket.socket, path: Path) -> None:
    link.settimeout(_WAIT_SEC)
    link.connect(str(path))


def _next_message(link: socket.socket) -> bytes:
    """Type byte of the next message; b"" at the end of the stream."""
    head = _read(link, 5)
    if len(head) < 5:
        return b""
    _read(link, struct.unpack("!i", head[1:])[0] - 4)
    return head[:1]


def _read(link: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size and (part := link.recv(size - len(got))):
        got += part
    return got
