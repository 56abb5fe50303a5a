"""The way to the process for heavy work, both ends in one process and a made-up work between them."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ujson
from structlog.testing import capture_logs

from app.core.errors import InvalidField, QmError, StorageUnavailable, Unavailable
from app.core.metrics import HEAVY_ASKED
from app.infrastructure import heavy_link
from app.infrastructure.heavy_link import (
    SOCKET_NAME,
    Frame,
    HeavyLink,
    HeavyUnavailable,
    Question,
    bind_socket,
    frame,
    read_frame,
)
from app.infrastructure.metric_book import MetricBook
from app.services import heavy_pauses, heavy_turns
from app.services.heavy_asking import HeavyAsking
from app.services.heavy_pauses import HeavyPauses, Pace, Rest
from app.services.heavy_turns import RETRY_AFTER_SEC, WAITING_MAX, Busy, HeavyTurns
from app.services.heavy_works import Work
from workers import heavy
from workers.heavy import HeavyDesk

BIG = "x" * 100_000 + "\r\n"


class Works:
    """Makes what a test wants, and counts."""

    def __init__(self) -> None:
        self.made = 0
        self.open = 0
        self.may_go_on = asyncio.Event()

    async def pieces(self, work: Work, _: Rest) -> AsyncGenerator[str]:
        self.open += 1
        try:
            for piece in work.args["pieces"] * work.args["times"]:
                if piece == "no store":
                    raise StorageUnavailable
                if piece == "no sense":
                    raise InvalidField("roomId", "roomId must make sense")
                if piece == "a bug":
                    raise ZeroDivisionError
                if piece == "wait":
                    await self.may_go_on.wait()
                    continue
                self.made += 1
                yield piece
        finally:
            self.open -= 1


class Side:
    """The answering end, on a socket of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = bind_socket(folder)
        self.works = Works()
        self.book = MetricBook.alone()
        self.turns = HeavyTurns(self.book)
        self.desk = self.new_desk(HeavyPauses(lambda: False))
        self.server: asyncio.Server | None = None
        self.link = HeavyLink(str(folder / SOCKET_NAME))
        self.signs = 0

    def new_desk(self, pauses: HeavyPauses) -> HeavyDesk:
        works: Any = self.works
        background: Any = SimpleNamespace(book=self.book)
        return HeavyDesk(works, self.turns, pauses, background)

    async def start(self) -> None:
        self.server = await asyncio.start_unix_server(self.desk.serve, sock=self.socket.dup())

    async def stop(self) -> None:
        if self.server is not None:
            self.server.close()
        await self.desk.end(at_once=True)
        await asyncio.sleep(0.01)  # aborted transports close in the next turn of the loop

    def ask(self, *pieces: str, kind: str = "audit_csv", is_head: bool = False, times: int = 1) -> Any:
        args = {"pieces": pieces, "times": times}
        return self.link.ask(Question(kind, args, is_head, "Ann", "R1"), self.note)

    def note(self) -> None:
        self.signs += 1

    async def read(self, *pieces: str, **more: Any) -> str:
        async with self.ask(*pieces, **more) as answer:
            return b"".join([piece async for piece in answer.pieces]).decode()


@pytest.fixture
async def side() -> AsyncIterator[Side]:
    with tempfile.TemporaryDirectory(prefix="qm-t-") as folder:
        side = Side(Path(folder))
        await side.start()
        yield side
        await side.stop()
        side.socket.close()


async def until(claim: Any) -> None:
    async with asyncio.timeout(10):
        while not claim():
            await asyncio.sleep(0.005)


async def test_it_brings_the_whole_answer_byte_for_byte(side: Side) -> None:
    pieces = ["\ufeffhead\r\n", "ü,€\r\n", BIG, "", "end"]
    assert await side.read(*pieces) == "".join(pieces)
    assert await side.read("only one") == "only one"
    async with side.ask("sätze", kind="report") as answer:
        assert answer.length == len("sätze".encode())
        assert [piece async for piece in answer.pieces] == ["sätze".encode()]
    async with side.ask("a", BIG, BIG, "b") as answer:
        sizes = [len(piece) async for piece in answer.pieces]
    assert max(sizes) <= heavy_link.PIECE_MAX
    assert (side.works.open, side.turns.inside) == (0, 0)


async def test_it_makes_nothing_behind_the_head_for_head(side: Side) -> None:
    assert await side.read("a", "b", "c", "d", is_head=True) == ""
    assert side.works.made == 2


async def test_a_refusal_is_the_same_at_both_ends(side: Side) -> None:
    with pytest.raises(QmError) as away:
        await side.read("no store")
    assert (away.value.status, away.value.headers) == (503, {"Retry-After": "5"})
    assert away.value.body() == StorageUnavailable().body()
    with pytest.raises(QmError) as wrong:
        await side.read("a", "no sense")
    assert wrong.value.status == 400
    assert wrong.value.body() == {
        "error": "roomId must make sense", "code": "invalid_room_id", "fields": ["roomId"],
    }  # fmt: skip
    with pytest.raises(QmError) as bug:
        await side.read("a bug")
    assert bug.value.code == "internal_error"


async def test_what_breaks_off_behind_the_head_never_looks_whole(side: Side) -> None:
    async with side.ask("a", "b", "c", "no store") as answer:
        with pytest.raises(QmError):
            [piece async for piece in answer.pieces]
    async with side.ask("a", "b", BIG, "wait") as answer:
        await anext(answer.pieces)
        for task in list(side.desk._at_work):
            task.cancel()
        with pytest.raises(QmError) as ended:
            [piece async for piece in answer.pieces]
    assert ended.value.code == "heavy_unavailable"


async def test_it_tells_of_the_end_that_the_other_process_cannot_tell_of(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heavy_link, "SILENT_SEC", 0.05)
    for dies, outcome in ((True, "process_ended"), (False, "process_silent")):

        async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, dies: bool = dies) -> None:
            await read_frame(reader, heavy_link.QUESTION_MAX)
            writer.write(frame(Frame.HEAD, b'{"length":null}') + frame(Frame.BODY, b"half"))
            if not dies:
                await reader.read()
            writer.close()

        path = str(side.folder / outcome)
        async with await asyncio.start_unix_server(half, path):
            with capture_logs() as lines:
                async with HeavyLink(path).ask(Question("report_csv", {}, by="Ann", request_id="R7"), side.note) as got:
                    with pytest.raises(HeavyUnavailable) as lost:
                        [piece async for piece in got.pieces]
            assert (lost.value.status, lost.value.code) == (503, "heavy_unavailable")
            assert lost.value.headers == {"Retry-After": "5"}
            (line,) = lines
            told = {"event": "heavy_work_ended", "kind": "report_csv", "by": "Ann", "request_id": "R7", "bytes": 4}
            assert line.items() >= {**told, "outcome": outcome}.items()


async def test_it_tells_of_each_end_once_when_the_other_process_stops_in_order(side: Side) -> None:
    with capture_logs() as lines:
        asking = asyncio.create_task(side.read("wait"))
        await until(lambda: side.works.open == 1)
        await side.stop()
        with pytest.raises(QmError) as ended:
            await asking
    assert ended.value.code == "heavy_unavailable"
    assert [line["outcome"] for line in lines if line["event"] == "heavy_work_ended"] == ["broken_off"]


@pytest.mark.req("BUD-076")
async def test_it_refuses_at_once_what_has_no_place_though_nobody_answers(side: Side) -> None:
    await side.stop()  # a process that hangs: the questions wait at its socket
    workers = [HeavyAsking(side.link, side.book), HeavyAsking(side.link, side.book)]
    work, told = Work("audit_csv", {"pieces": ["a"], "times": 1}), {"by": "Ann", "request_id": "R1"}

    async def answer_of(worker: HeavyAsking) -> bytes:
        async with asyncio.timeout(10), worker.ask(work, side.note, **told) as answer:
            return b"".join([piece async for piece in answer.pieces])

    waiting = [asyncio.create_task(answer_of(workers[number % 2])) for number in range(1 + WAITING_MAX)]
    await asyncio.sleep(0)
    for worker in workers:
        with capture_logs() as lines, pytest.raises(Busy) as refusal:
            await answer_of(worker)
        assert refusal.value.headers == {"Retry-After": str(RETRY_AFTER_SEC)}
        assert [(line["event"], line["outcome"], line["by"]) for line in lines] == [("heavy_work_ended", "busy", "Ann")]
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

    await side.start()
    assert await answer_of(workers[0]) == b"a"


async def test_json_that_takes_long_begins_with_blanks_and_a_file_never_does(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heavy, "WAIT_EVERY_SEC", 0.01)
    monkeypatch.setattr(heavy, "EARLY_SEC", 0.02)
    whole = '{"rows":[1,2]}'
    for kind, pieces in (("report", ("wait", whole)), ("chart", ('{"rows":', "[1,", "wait", "2]}"))):
        side.works.may_go_on.clear()
        async with side.ask(*pieces, kind=kind) as answer:
            assert answer.length is None
            text = ""
            async for piece in answer.pieces:
                text += piece.decode()
                if piece == b" ":
                    side.works.may_go_on.set()
        assert " " in text
        assert ujson.loads(text) == ujson.loads(whole)

    side.works.may_go_on.clear()
    async with side.ask("wait", whole, kind="report", is_head=True) as answer:
        side.works.may_go_on.set()
        assert [piece async for piece in answer.pieces] == []

    side.works.may_go_on.clear()
    asking = asyncio.create_task(side.read("a", "wait", "b", kind="report_csv"))
    seen = side.signs
    await until(lambda: side.signs > seen + 5)
    side.works.may_go_on.set()
    assert await asking == "ab"


async def test_it_ends_the_work_when_the_asker_goes(side: Side) -> None:
    async with side.ask("a", "b", "wait") as answer:
        await anext(answer.pieces)
        assert side.works.open == 1
    await until(lambda: side.works.open == 0 and side.turns.inside == 0)

    asking = asyncio.create_task(side.read("wait"))
    await until(lambda: side.works.open == 1)
    waiting = asyncio.create_task(side.read("a"))
    await until(lambda: side.turns.inside == 2)
    waiting.cancel()
    await until(lambda: side.turns.inside == 1)
    asking.cancel()
    await until(lambda: side.turns.inside == 0)


async def test_it_makes_no_more_than_the_asker_takes(side: Side) -> None:
    async with side.ask(BIG, times=300) as answer:
        taken = len(await anext(answer.pieces))
        await until(lambda: side.turns.inside == 1 and side.turns.is_idle)
        made = side.works.made
        assert made < 30, "30 MB would have been made"
        async for piece in answer.pieces:
            taken += len(piece)
    assert taken == 300 * len(BIG)


async def test_it_says_that_it_is_still_there(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy, "WAIT_EVERY_SEC", 0.01)
    asking = asyncio.create_task(side.read("a", "wait"))
    await until(lambda: side.signs > 5)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_it_is_unavailable_when_nobody_answers(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = HeavyLink(str(side.folder / "nobody.sock"))
    with pytest.raises(HeavyUnavailable) as refusal:
        async with nowhere.ask(Question("audit", {}), side.note):
            pass
    assert refusal.value.headers == {"Retry-After": "5"}

    monkeypatch.setattr(heavy_link, "SILENT_SEC", 0.05)
    await side.stop()
    with pytest.raises(HeavyUnavailable):
        await side.read("a")  # somebody holds the socket, and nobody accepts


@pytest.mark.req("BUD-076")
async def test_who_has_gone_frees_his_place_though_the_other_process_hangs(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heavy_link, "LOOK_SEC", 0.01)
    await side.stop()
    looks: list[None] = []

    def gone() -> None:
        looks.append(None)
        if len(looks) == 3:
            raise Unavailable

    async with asyncio.timeout(10):
        with pytest.raises(Unavailable):
            async with HeavyAsking(side.link, side.book).ask(Work("audit_csv"), gone, by="Ann", request_id="R1"):
                pass
    assert side.book.total(HEAVY_ASKED) == 0


async def test_no_asker_is_silent_until_another_s_work_is_done(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy_turns, "SHARE_SEC", 0.0)
    monkeypatch.setattr(heavy_pauses, "LOOK_SEC", 0.001)
    side.desk = side.new_desk(HeavyPauses(lambda: True, Pace(rest_sec=0.002, work_sec=0.0)))
    await side.stop()
    await side.start()
    came: list[str] = []

    async def read(name: str) -> None:
        async with side.ask("a", "b", times=5) as answer:
            async for _ in answer.pieces:
                came.append(name)  # noqa: PERF401  # at its moment

    await asyncio.gather(read("A"), read("B"))

    assert sorted(came) == ["A"] * 9 + ["B"] * 9, "two pieces come first"
    assert came.index("B") < came.index("A", 4)
    assert came.index("A") < came.index("B", 4)


async def test_a_question_waits_at_the_socket_until_somebody_is_there(side: Side) -> None:
    await side.stop()
    asking = asyncio.create_task(side.read("a", "b"))
    await until(lambda: select.select([side.socket], [], [], 0)[0])
    await side.start()
    assert await asking == "ab"


async def test_it_bears_those_who_do_not_ask(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy, "QUESTION_SEC", 0.05)
    for said in (b"", b"GET / HTTP/1.1\r\n\r\n", frame(Frame.QUESTION, b"x")[:-1]):
        reader, writer = await asyncio.open_unix_connection(str(side.folder / SOCKET_NAME))
        writer.write(said)
        with contextlib.suppress(heavy_link.LinkBroken):
            while True:
                await read_frame(reader)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    assert await side.read("a") == "a"


def test_only_its_owner_gets_at_the_socket() -> None:
    with tempfile.TemporaryDirectory(prefix="qm-t-") as folder:
        sock = bind_socket(Path(folder))
        assert Path(folder).stat().st_mode & 0o077 == 0
        assert sock.family is socket.AF_UNIX
        sock.close()


async def test_it_is_idle_only_while_nobody_is_there(side: Side) -> None:
    await asyncio.sleep(0.01)
    assert side.desk.idle_sec() > 0
    async with side.ask("a", "b", "wait") as answer:
        await anext(answer.pieces)
        assert side.desk.idle_sec() == 0.0
    await until(lambda: side.desk.idle_sec() > 0)
