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
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import structlog
import ujson

from app.core.clock import mono
from app.core.errors import QmError, Unavailable
from app.core.streams import send

PIECE_MAX: Final = 64 * 1024
"""Most bytes of a frame of the body; each side holds a few of them."""
QUESTION_MAX: Final = 1024 * 1024
WAIT_EVERY_SEC: Final = 10.0
"""How often the answerer says that it is still there."""
SILENT_SEC: Final = 40.0
"""An answerer that says nothing for this long does not answer any more: it hangs, or cannot be started."""
LOOK_SEC: Final = 5.0
"""How often the asker is looked at until his answer begins."""
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


class HeavyUnavailable(Unavailable):
    """503 ``heavy_unavailable``: the process for heavy work ended in the middle, or does not answer."""

    code = "heavy_unavailable"
    sentence = "The process that makes exports and long reports ended, or does not answer. Ask again shortly."


@dataclass(frozen=True, slots=True)
class Question:
    """What one connection asks for; ``args`` is what JSON can say."""

    kind: str
    args: Mapping[str, Any]
    is_head: bool = False
    """Only the head of the answer is wanted."""
    by: str = ""
    """Who asks: a name of the audit trail."""
    request_id: str = ""

    @property
    def told(self) -> dict[str, str]:
        """What the log says of it at each line."""
        return {"kind": self.kind, "by": self.by, "request_id": self.request_id}


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
    async def ask(self, question: Question, note_sign: Callable[[], None]) -> AsyncIterator[HeavyAnswer]:
        """Ask, and wait until the answer begins; the end of the block ends the work, done or not.

        ``note_sign`` is called whenever the other side shows that it is at it, and every LOOK_SEC until the answer
        begins; what it raises ends the asking. Raises QmError: the refusal of whoever answers, or HeavyUnavailable when
        nobody does, which is told the log as the end of the work.
        """
        try:
            async with asyncio.timeout(CONNECT_SEC):
                reader, writer = await asyncio.open_unix_connection(self._path, limit=PIECE_MAX)
        except (OSError, TimeoutError) as error:
            log.warning("heavy_process_not_reached", why=str(error))
            raise HeavyUnavailable from error
        try:
            listener = _Listener(reader, question, note_sign)
            with contextlib.suppress(OSError):  # the listener is about to hear that the other side has ended
                send(writer, frame(Frame.QUESTION, ujson.dumps(asdict(question)).encode()))
            yield HeavyAnswer(await listener.length(), listener.pieces())
        finally:
            writer.transport.abort()


class _Listener:
    """Hears the answer to one question."""

    def __init__(self, reader: asyncio.StreamReader, question: Question, note_sign: Callable[[], None]) -> None:
        self._reader = reader
        self._question = question
        self._note_sign = note_sign
        self._began = mono()
        self._bytes = 0

    async def length(self) -> int | None:
        """The answer begins: its length, where that is known."""
        waiting = asyncio.ensure_future(self._next())
        try:
            while not (await asyncio.wait({waiting}, timeout=LOOK_SEC))[0]:
                self._note_sign()
        finally:
            waiting.cancel()
        kind, content = await waiting
        if kind is not Frame.HEAD:
            raise self._ended("process_confused")
        length: int | None = ujson.loads(content)["length"]
        return length

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body."""
        while True:
            kind, content = await self._next()
            if kind is Frame.END:
                return
            self._bytes += len(content)
            yield content

    async def _next(self) -> tuple[Frame, bytes]:
        """The next frame that means something. Raises QmError."""
        while True:
            try:
                async with asyncio.timeout(SILENT_SEC):
                    kind, content = await read_frame(self._reader)
            except LinkBroken as error:
                raise self._ended("process_ended") from error
            except TimeoutError as error:
                raise self._ended("process_silent") from error
            self._note_sign()
            if kind is Frame.REFUSAL:
                raise _refusal(content)
            if kind not in (Frame.TAKEN, Frame.WAIT):
                return kind, content

    def _ended(self, outcome: str) -> HeavyUnavailable:
        """Tell the log of the end that the other side cannot tell of any more (BUD-081)."""
        log.warning(
            "heavy_work_ended", **self._question.told, outcome=outcome, sec=round(mono() - self._began, 3),
            bytes=self._bytes,
        )  # fmt: skip
        return HeavyUnavailable()
