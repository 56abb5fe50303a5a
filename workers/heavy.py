"""Process ``heavy``: makes exports and long reports, so that none of them runs where visitors are answered (BUD-074).

Main starts it when somebody asks for the first one, and it ends when nobody has for a while; questions come over a
socket that main keeps open all the time (ADR 0012). It has nothing to do with rooms: rebuilds, draws and the leader's
duties are those of process ``jobs``, which it cannot delay.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import structlog
import ujson

from app.core import metrics
from app.core.clock import cpu_sec, mono
from app.core.errors import QmError
from app.core.streams import send
from app.infrastructure.chart_store import ChartStore
from app.infrastructure.engine_lookup import EngineLookup
from app.infrastructure.heavy_link import (
    PIECE_MAX,
    QUESTION_MAX,
    WAIT_EVERY_SEC,
    Frame,
    HeavyUnavailable,
    LinkBroken,
    Question,
    frame,
    read_frame,
    refusal_bytes,
)
from app.infrastructure.hour_store import HourStore, LiveHours
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.notes_store import NotesStore
from app.infrastructure.room_directory import RoomDirectory
from app.services.heavy_pauses import ASKED, HeavyPauses
from app.services.heavy_turns import HeavyTurns, Turn
from app.services.heavy_works import IS_JSON, IS_WHOLE, QUICK, HeavyWorks, Work
from app.services.history import History
from app.services.notes import Notes
from app.services.ref_search import RefsHere
from app.services.reports import Reports
from workers.directory import directory_of
from workers.pauses import pauses_of
from workers.runner import Background

IDLE_SEC: Final = 120.0
"""How long it stays without a question."""
QUESTION_SEC: Final = 10.0
EARLY_SEC: Final = 20.0
"""An answer in JSON that has not begun by then begins with blanks: proxies end what is silent for 30 or 60 s. A refusal
before that has its own status."""

log = structlog.get_logger(__name__)


async def run(background: Background) -> None:
    """Answer until the process is stopped, or nobody has asked for a while."""
    assert background.inbox is not None
    rooms, book = directory_of(background), background.book
    desk = HeavyDesk(_works(background, rooms), HeavyTurns(book), pauses_of(background, ASKED), background)
    server = await asyncio.start_unix_server(desk.serve, sock=background.inbox, limit=PIECE_MAX)
    await rooms.start()
    background.ready()
    try:
        while not await background.pause(IDLE_SEC / 4) and desk.idle_sec() < IDLE_SEC:
            pass
    finally:
        server.close()  # what knocks from now on waits at main's socket for the next process
        await desk.end(at_once=background.stop.is_set())
        await rooms.stop()


def _works(background: Background, rooms: RoomDirectory) -> HeavyWorks:
    valkey, postgres, prefix = background.valkey, background.postgres, background.settings.valkey_prefix
    return HeavyWorks(
        notes=Notes(NotesStore(postgres), rooms),
        reports=Reports(rooms=rooms, live=LiveHours(prefix, LuaLoader(valkey)), store=HourStore(postgres)),
        history=History(rooms=rooms, store=ChartStore(valkey, prefix)),
        refs=RefsHere(EngineLookup(prefix, LuaLoader(valkey))),
        look_again=rooms.look_again,
    )


class HeavyDesk:
    """Answers connections."""

    def __init__(self, works: HeavyWorks, turns: HeavyTurns, pauses: HeavyPauses, background: Background) -> None:
        self._works = works
        self._turns = turns
        self._pauses = pauses
        self._book = background.book
        self._at_work: set[asyncio.Task[None]] = set()
        self._used_at = mono()

    def idle_sec(self) -> float:
        """Seconds since the last question was done with; 0 while one is open."""
        return 0.0 if self._at_work else mono() - self._used_at

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: its question is worked at until it is answered or the asker has gone."""
        self._at_work.add(asyncio.current_task())  # type: ignore[arg-type]  # asyncio runs this as a task
        parts: list[asyncio.Task[object]] = []
        try:
            send(writer, frame(Frame.TAKEN))
            async with asyncio.timeout(QUESTION_SEC):
                _, content = await read_frame(reader, QUESTION_MAX)
            question, line = Question(**ujson.loads(content)), Line(writer)
            parts = [asyncio.ensure_future(part) for part in (self._answer(question, line), reader.read(1))]
            beat = asyncio.ensure_future(line.beat(_blank(question)))
            parts.append(beat)
            await asyncio.wait(parts[:2], return_when=asyncio.FIRST_COMPLETED)
            if parts[0].done():
                beat.cancel()
                writer.close()
                await writer.wait_closed()
        except (LinkBroken, TimeoutError, OSError):
            log.debug("heavy_link_broken")
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            writer.transport.abort()
            self._used_at = mono()
            self._at_work.discard(asyncio.current_task())

    async def end(self, *, at_once: bool) -> None:
        """Wait for what is open, or end it."""
        tasks = list(self._at_work)
        for task in tasks:
            if at_once:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, question: Question, line: Line) -> None:
        """Make the answer to one question and send it; a refusal in its place when it cannot be made."""
        work, told = Work(question.kind, question.args), question.told
        began = mono(), cpu_sec()
        outcome = "broken_off"
        try:
            if work.kind in QUICK:
                line.whole(await self._works.quick(work))
                outcome = "done"
                return
            async with self._turns.place(work.kind) as turn:
                log.info("heavy_work_begun", **told)
                await self._make(work, line, turn, is_head=question.is_head)
                outcome = "done"
        except QmError as refusal:
            outcome = refusal.code
            line.refuse(refusal)
        except OSError:
            pass  # the asker has gone
        except asyncio.CancelledError:
            line.refuse(HeavyUnavailable())  # for an asker who has not: this process ends
            raise
        except Exception:
            log.exception("heavy_work_failed", **told)
            outcome = "failed"
            line.refuse(QmError())
        finally:
            took, cpu = mono() - began[0], cpu_sec() - began[1]
            if outcome != "busy" and work.kind not in QUICK:
                self._book.observe(metrics.HEAVY_SECONDS, took, work.kind)
            log.info(
                "heavy_work_ended", **told, outcome=outcome, sec=round(took, 3), cpu_sec=round(cpu, 3),
                rows=line.rows, bytes=line.bytes,
            )  # fmt: skip

    async def _make(self, work: Work, line: Line, turn: Turn, *, is_head: bool) -> None:
        """Two pieces are made before the head is sent: a store that is away is a refusal, not half a file."""

        async def rest() -> None:
            await self._pauses.let_pass()
            await turn.share()

        await rest()
        async with contextlib.aclosing(self._works.pieces(work, rest)) as pieces:
            first = await anext(pieces)
            first += await anext(pieces, "")
            line.head(len(first.encode()) if work.kind in IS_WHOLE else None)
            if not is_head:
                line.body(first)
                await turn.outlast(line.taken())
                async for piece in pieces:
                    line.body(piece)
                    await turn.outlast(line.taken())
                    await rest()
        line.end()


def _blank(question: Question) -> str | None:
    """What may be sent at any moment of an answer without changing what it says; None: nothing."""
    if question.kind not in IS_JSON:
        return None
    return "" if question.is_head else " "


class Line:
    """The answering end of one connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._began = mono()
        self._has_head = False
        self._is_taking = False
        self.bytes = 0
        """Bytes of the body so far."""
        self.rows = 0
        """Lines of it."""

    async def beat(self, blank: str | None) -> None:
        """Say now and then that there will be an answer; after EARLY_SEC in the answer itself, if it takes blanks."""
        while True:
            await asyncio.sleep(WAIT_EVERY_SEC)
            if self._is_taking:
                continue
            send(self._writer, frame(Frame.WAIT))
            if blank is not None and mono() - self._began >= EARLY_SEC:
                self.head(None)
                self.body(blank)

    def head(self, length: int | None) -> None:
        """The answer begins, unless it has."""
        if self._has_head:
            return
        self._has_head = True
        send(self._writer, frame(Frame.HEAD, ujson.dumps({"length": length}).encode()))

    def body(self, text: str) -> None:
        """Some more of it."""
        raw = text.encode()
        self.bytes += len(raw)
        self.rows += text.count("\r\n")
        for start in range(0, len(raw), PIECE_MAX):
            send(self._writer, frame(Frame.BODY, raw[start : start + PIECE_MAX]))

    def whole(self, text: str) -> None:
        """All of it at once."""
        self.head(len(text.encode()))
        self.body(text)
        self.end()

    def end(self) -> None:
        """It is whole."""
        send(self._writer, frame(Frame.END))

    def refuse(self, refusal: QmError) -> None:
        """There is none, or no more of it."""
        with contextlib.suppress(OSError):  # whoever has gone needs none
            send(self._writer, frame(Frame.REFUSAL, refusal_bytes(refusal)))

    async def taken(self) -> None:
        """Wait until the asker has taken most of what was sent. Raises OSError when it has gone."""
        self._is_taking = True
        try:
            await self._writer.drain()
        finally:
            self._is_taking = False
