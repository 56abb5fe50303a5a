"""The way from a web worker to its instance's process ``heavy``: a unix socket in a folder only this user may enter.

One connection carries one question and its answer, so that the end of either side ends the work. Frames: a letter, four
bytes of length, that many bytes. The asker sends a QUESTION; the answerer says TAKEN at once, WAIT while there is
nothing to send, then a HEAD, the BODY in pieces, and an END; or a REFUSAL at any time. What stops without END is no
whole answer. Nothing is kept here but what fits into the two buffers: a reader that is slow holds the writer up.

Belongs here: frames, and the asking end. Not here: who answers what (services/heavy_works.py), the answering process
(workers/heavy.py). Source: BUD-074, ADR 0012.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import structlog
import ujson

from app.core.errors import QmError, Unavailable

PIECE_MAX: Final = 64 * 1024
"""Most bytes of a frame of the body; each side holds a few of them."""
QUESTION_MAX: Final = 1024 * 1024
WAIT_EVERY_SEC: Final = 10.0
"""How often the answerer says that it is still there."""
SILENT_SEC: Final = 40.0
"""An answerer that says nothing for this long does not answer any more: it hangs, or cannot be started."""
CONNECT_SEC: Final = 5.0
BACKLOG: Final = 64
SOCKET_NAME: Final = "heavy.sock"

log = structlog.get_logger(__name__)


class Frame(IntEnum):
    """What a frame is."""

    QUESTION = ord("Q")
    TAKEN = ord("T")
    WAIT = ord("W")
    HEAD = ord("H")
    BODY = ord("B")
    END = ord("E")
    REFUSAL = ord("R")


class LinkBroken(Exception):
    """The other side ended in the middle, or said what nobody says."""


def bind_socket(folder: Path) -> socket.socket:
    """The socket on which questions arrive, in ``folder``, which has mode 0700. It is readable while one waits."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(folder / SOCKET_NAME))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def frame(kind: Frame, content: bytes = b"") -> bytes:
    """The bytes of one frame."""
    return bytes((kind,)) + len(content).to_bytes(4, "big") + content


async def read_frame(reader: asyncio.StreamReader, most: int = PIECE_MAX) -> tuple[Frame, bytes]:
    """The next frame. Raises LinkBroken."""
    try:
        head = await reader.readexactly(5)
        size = int.from_bytes(head[1:], "big")
        if size > most:
            raise LinkBroken(f"a frame of {size} bytes")
        return Frame(head[0]), await reader.readexactly(size) if size else b""
    except (asyncio.IncompleteReadError, ValueError, OSError) as error:
        raise LinkBroken(str(error)) from error


def refusal_bytes(refusal: QmError) -> bytes:
    """Content of a REFUSAL."""
    facts = {
        "sentence": refusal.sentence,
        "code": refusal.code,
        "status": refusal.status,
        "headers": refusal.headers,
        "members": refusal.members,
    }
    return ujson.dumps(facts).encode()


def _refusal(content: bytes) -> QmError:
    facts = ujson.loads(content)
    return QmError(
        facts["sentence"], code=facts["code"], status=facts["status"], headers=facts["headers"], **facts["members"]
    )


@dataclass(frozen=True, slots=True)
class HeavyAnswer:
    """``length``: bytes of the body where that is known before; ``pieces`` raises QmError when it breaks off."""

    length: int | None
    pieces: AsyncIterator[bytes]


class HeavyLink:
    """The asking end."""

    def __init__(self, path: str) -> None:
        """``path`` of the socket."""
        self._path = path

    @asynccontextmanager
    async def ask(self, question: Mapping[str, Any], note_sign: Callable[[], None]) -> AsyncIterator[HeavyAnswer]:
        """Ask, and wait until the answer begins; the end of the block ends the work, done or not.

        ``note_sign`` is called whenever the other side shows that it is at it. Raises QmError: the refusal of whoever
        answers, or Unavailable when nobody does.
        """
        try:
            async with asyncio.timeout(CONNECT_SEC):
                reader, writer = await asyncio.open_unix_connection(self._path, limit=PIECE_MAX)
        except (OSError, TimeoutError) as error:
            log.warning("heavy_process_not_reached", why=str(error))
            raise Unavailable from error
        try:
            writer.write(frame(Frame.QUESTION, ujson.dumps(question).encode()))
            kind, content = await _next(reader, note_sign)
            if kind is not Frame.HEAD:
                raise _broken(f"{kind.name} before the head")
            yield HeavyAnswer(ujson.loads(content)["length"], _pieces(reader, note_sign))
        finally:
            writer.transport.abort()


async def _pieces(reader: asyncio.StreamReader, note_sign: Callable[[], None]) -> AsyncIterator[bytes]:
    while True:
        kind, content = await _next(reader, note_sign)
        if kind is Frame.END:
            return
        yield content


async def _next(reader: asyncio.StreamReader, note_sign: Callable[[], None]) -> tuple[Frame, bytes]:
    """The next frame that means something. Raises QmError."""
    while True:
        try:
            async with asyncio.timeout(SILENT_SEC):
                kind, content = await read_frame(reader)
        except (LinkBroken, TimeoutError) as error:
            raise _broken(str(error) or "silent") from error
        note_sign()
        if kind is Frame.REFUSAL:
            raise _refusal(content)
        if kind not in (Frame.TAKEN, Frame.WAIT):
            return kind, content


def _broken(why: str) -> Unavailable:
    log.warning("heavy_work_broke_off", why=why)
    return Unavailable()
