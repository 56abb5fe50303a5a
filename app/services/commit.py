"""Waiting until a fact is in the journal: one CommitWaiter per web worker, fed by the drainer's notices.

A waiter costs a future and no store access; the notices name how far each room has been stored. Belongs here: waiting,
its deadline, and refusing while commits fail. Not here: the commits (``infrastructure/drain.py``).
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import structlog
import ujson

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.marks import split_mark
from app.infrastructure.keys import ack_channel
from app.infrastructure.valkey import Listener, Valkey

DEADLINE_SEC: Final = 5.0
"""How long an answer waits for its commit (settled with the API: then undo and 503)."""
POLL_SEC: Final = 0.5
"""Age of a waiter from which the live store is asked itself: a notice may be lost."""
OTHERS_SEC: Final = 3.0
"""How long a commit by the drainer of another instance shows that facts are stored without ours."""
TICK_SEC: Final = 0.25
REFUSE_SEC: Final = 5.0
"""How long the last bad sign counts. The drainer repeats its notice every second while commits fail."""

log = structlog.get_logger(__name__)


class Waiter(Protocol):
    """The part of a future that is told whether a fact is stored. It must not raise: others wait behind it."""

    def done(self) -> bool: ...
    def set_result(self, is_stored: bool, /) -> None: ...


class Headers(Protocol):
    """What a waiter asks of the engine (``engine_jobs.EngineJobs``)."""

    async def headers(self, room_ids: Sequence[RoomId]) -> Sequence[dict[str, Any] | None]:
        """Headers as stored (gen, epoch, committed), None for a room without."""
        ...


@dataclass(slots=True)
class _Line:
    """Waiters of one room's generation and what is known of it. ``epoch`` 0 = not known."""

    epoch: int = 0
    committed: int = 0
    heap: list[tuple[int, int, int, Waiter]] = field(default_factory=list)
    """(seq, order, epoch, waiter), smallest seq first."""


class CommitWaiter:
    """Turns marks of facts (``facts.mark``: epoch and seq) into "stored" or "not stored".

    ``jobs`` is asked about rooms whose waiters have heard nothing for half a second.
    """

    def __init__(self, *, valkey: Valkey, prefix: str, jobs: Headers, name: str = "") -> None:
        """``name``: of this run of the instance, as its drainer has it."""
        self._jobs = jobs
        self._name = name
        self._others_at = -OTHERS_SEC
        self._listener: Listener = valkey.listen({ack_channel(prefix): self.hear}, on_resync=self._ask_now)
        self._lines: dict[tuple[RoomId, int], _Line] = {}
        self._deadlines: deque[tuple[float, Waiter]] = deque()
        self._order = 0
        self._bad_sign = -REFUSE_SEC
        self._failing = False
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Begin to listen to the drainer and to watch deadlines."""
        await self._listener.start()
        self._task = asyncio.create_task(self._watch(), name="commit-waiter")

    async def stop(self) -> None:
        """Stop; whoever still waits is told False."""
        await self._listener.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._fail(self._lines)

    async def wait(self, room_id: RoomId, gen: int, mark: int) -> bool:
        """True once the fact is stored; False after 5 s, when commits fail, or when a rebuild lost the fact.

        ``mark`` 0: True at once. False does not mean "not stored": the caller undoes, and the undo decides.
        """
        loop = self._loop
        if loop is None:  # kept, since asking for it costs a system call in Python 3.11
            loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        known = self.ask(room_id, gen, mark, future)
        return await future if known is None else known

    def ask(self, room_id: RoomId, gen: int, mark: int, waiter: Waiter) -> bool | None:
        """What ``wait`` would say; None = it is not known yet, and ``waiter`` is told."""
        if mark == 0:
            return True
        line = self._lines.get((room_id, gen))
        if line is None:
            line = self._lines[room_id, gen] = _Line()
        epoch, seq = split_mark(mark)
        if _same(epoch, line.epoch) and seq <= line.committed:
            return True
        if epoch and epoch < line.epoch:
            return False
        self._order += 1
        heapq.heappush(line.heap, (seq, self._order, epoch, waiter))
        self._deadlines.append((mono() + DEADLINE_SEC, waiter))
        return None

    def is_stored(self, room_id: RoomId, gen: int, mark: int) -> bool:
        """Tell whether ``wait`` would say True without waiting."""
        line = self._lines.get((room_id, gen))
        if not mark or line is None:
            return not mark
        epoch, seq = split_mark(mark)
        return _same(epoch, line.epoch) and seq <= line.committed

    def refusing(self) -> bool:
        """True while commits fail: refuse before the engine is asked, or each retry adds two facts to the backlog."""
        return self._failing and mono() - self._bad_sign < REFUSE_SEC

    def hear(self, text: bytes | str) -> None:
        """One message of the channel of commits."""
        try:
            notice: dict[str, Any] = dict(ujson.loads(text))
        except (ValueError, TypeError):
            log.warning("commit_notice_unreadable")
            return
        if "stored" in notice:
            self._failing = False
            if notice["by"] != self._name:
                self._others_at = mono()
            for room, gen, seq, epoch in notice["stored"]:
                self._stored(room, gen, epoch, seq)
        elif "reset" in notice:
            rooms = set(notice["reset"])
            self._fail(key for key in self._lines if key[0] in rooms)
        elif notice.get("failed") == "*":
            if self._concerns_us(notice["by"]):
                self._note_failure()
                self._fail(self._lines)
        else:
            self._fail((room, gen) for room, gen in notice.get("failed", ()))

    def _concerns_us(self, drainer: str) -> bool:
        """Whether the failing commits of ``drainer`` are ours.

        That of another instance may have lost its own way to Postgres; and when ours has, but another stores the facts
        of all, nobody has to be refused here either.
        """
        return drainer == self._name and mono() - self._others_at >= OTHERS_SEC

    def _stored(self, room: RoomId, gen: int, epoch: int, seq: int) -> None:
        line = self._lines.get((room, gen))
        if line is None:
            line = self._lines[room, gen] = _Line()
            self._forget_older(room, gen)
        if epoch > line.epoch:
            line.committed = 0
        elif epoch < line.epoch:
            return
        line.epoch = epoch
        line.committed = max(line.committed, seq)
        while line.heap and (line.heap[0][0] <= line.committed or 0 < line.heap[0][2] < epoch):
            _, _, waits_for, waiter = heapq.heappop(line.heap)
            if not waiter.done():
                waiter.set_result(_same(waits_for, epoch))

    def _forget_older(self, room: RoomId, gen: int) -> None:
        for key in [key for key in self._lines if key[0] == room and key[1] < gen]:
            if not self._lines[key].heap:
                del self._lines[key]

    def _fail(self, keys: Iterable[tuple[RoomId, int]]) -> None:
        for key in list(keys):
            line = self._lines.get(key)
            if line is None:
                continue
            heap, line.heap = line.heap, []  # whoever is told may wait for something else at once
            for _, _, _, waiter in heap:
                if not waiter.done():
                    waiter.set_result(False)

    def _note_failure(self) -> None:
        if not self._failing:
            log.warning("commits_failing")
        self._failing = True
        self._bad_sign = mono()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(TICK_SEC)
            self._end_overdue()
            try:
                await self._poll()
            except StorageUnavailable:
                continue
            except Exception:
                # Deadlines have to be kept whatever is wrong with the headers of some room.
                log.exception("commit_poll_failed")

    def _end_overdue(self) -> None:
        now = mono()
        while self._deadlines and (self._deadlines[0][1].done() or self._deadlines[0][0] <= now):
            _, waiter = self._deadlines.popleft()
            if not waiter.done():
                self._note_failure()
                waiter.set_result(False)

    async def _poll(self) -> None:
        if not self._deadlines or self._deadlines[0][0] - DEADLINE_SEC + POLL_SEC > mono():
            return
        await self._ask_now()

    async def _ask_now(self) -> None:
        """Ask the live store how far the rooms are that somebody waits for."""
        rooms = sorted({room for (room, _), line in self._lines.items() if line.heap})
        if not rooms:
            return
        for room, header in zip(rooms, await self._jobs.headers(rooms), strict=True):
            if header is not None:
                self._stored(room, int(header["gen"]), int(header["epoch"]), int(header["committed"]))


async def committed_or_undone(waiting: Awaitable[bool], undo: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a commit; when it fails, undo. Returns when the fact is stored, else raises StorageUnavailable.

    ``undo`` (``EngineAdmin.undo_join``, ``undo_admission``) is one step of the live store: True = the fact had been
    stored meanwhile and stands, False = its compensation was appended behind it, so that both are stored or none.
    An undo that cannot be made leaves an orphan that ends like a closed tab (FLT-113).
    """
    if await waiting:
        return
    if not await undo():
        raise StorageUnavailable()


def _same(mark_epoch: int, epoch: int) -> bool:
    """Whether a mark belongs to the epoch; a mark without one belongs to any."""
    return mark_epoch in (0, epoch)
