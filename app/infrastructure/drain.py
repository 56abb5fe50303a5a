"""Moving facts from the outboxes of all rooms into the journal, many rooms in one commit.

One drainer per instance. Correct without any lease and when killed at any point: what is in an outbox stays there until
it is known to be stored, and the journal takes each position once. Not here: the commit itself (``journal.py``), those
who wait for it (``services/commit.py``), the process around it (``workers/drainer.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
import ujson

from app.core import metrics
from app.core.clock import mono, wall_ms
from app.core.errors import QmError, StorageUnavailable
from app.core.ids import RoomId
from app.infrastructure.engine_errors import RoomFenced, RoomGone
from app.infrastructure.journal import Appended, Batch, Journal, Outcome, recorded_at
from app.infrastructure.metric_book import MetricBook

MAX_ROOMS: Final = 500
"""Rooms in one commit."""
MAX_FACTS: Final = 20_000
"""Facts in one commit, shared out over its rooms: some MB of parameters."""
MAX_FACTS_A_ROOM: Final = 2_000
SWEEP_SEC: Final = 1.0
"""Every room is looked at this often even when nobody named it: a poke may be lost, and facts without a waiter are to
be in the journal within a second (ENG-005)."""
ROOMS_SEC: Final = 5.0
"""How often the list of rooms is read again."""
GRACE_SEC: Final = 0.5
"""How long commits may fail before the waiters are told: a restart of a private Postgres passes unseen."""
NOTICE_SEC: Final = 1.0
"""Interval of failure notices while commits fail; shorter than the life of a waiter's memory of the last one."""
RETRY_SEC: Final = (0.02, 1.0)
"""First and longest pause after a failed commit or an unreachable Valkey."""
PUSH_BACK_SEC: Final = (1.0, 30.0)
"""First and longest pause of a room that cannot be stored while the others can."""

log = structlog.get_logger(__name__)


class Outboxes(Protocol):
    """What the drainer asks of the engine (``engine_jobs.EngineJobs``)."""

    async def drain_many(self, pulls: Sequence[tuple[RoomId, int]], limit: int) -> Sequence[Any]:
        """Acknowledge up to the seq given, then pull; one ``Pulled`` or exception per room."""
        ...

    async def fence(self, room_id: RoomId, gen: int, epoch: int) -> bool:
        """Stop the room if its live state is of this generation and not of a later epoch."""
        ...


@dataclass(slots=True)
class _Due:
    """A room with facts on the way."""

    committed: int = 0
    """Seq to acknowledge with the next pull; 0 = none."""
    poked: bool = False
    """Named again since the last pull began."""
    not_before: float = 0.0
    pause: float = PUSH_BACK_SEC[0]


class Drainer:
    """The loop. ``publish`` sends one text to the channel of commits, ``ask_rebuild`` asks for the rebuild of a room;
    ``rooms`` lists all rooms that may have facts; ``lease`` keeps those that another drainer does not work on.
    ``name``: of this run of the instance, whose own waiters alone heed that its commits fail."""

    def __init__(
        self,
        *,
        outboxes: Outboxes,
        journal: Journal,
        publish: Callable[[str], Awaitable[None]],
        ask_rebuild: Callable[[RoomId], Awaitable[None]],
        rooms: Callable[[], Awaitable[Iterable[RoomId]]],
        lease: Callable[[Sequence[RoomId]], Awaitable[set[RoomId]]] | None = None,
        name: str = "",
        book: MetricBook | None = None,
    ) -> None:
        """``book``: where commits are counted, and how they went is left for the other processes."""
        self._book = book or MetricBook.alone()
        self._outboxes = outboxes
        self._journal = journal
        self._publish = publish
        self._ask_rebuild = ask_rebuild
        self._rooms = rooms
        self._lease = lease
        self._name = name
        self._wake = asyncio.Event()
        self._due: dict[RoomId, _Due] = {}
        self._known: set[RoomId] = set()
        self._next_rooms = 0.0
        self._next_sweep = 0.0
        self._failing_since: float | None = None
        self._next_notice = 0.0
        self._pause = RETRY_SEC[0]
        self._telling: set[asyncio.Future[None]] = set()

    def poke(self, room: str) -> None:
        """A room says that it has a fact (message of the poke channel)."""
        self._due.setdefault(RoomId(room), _Due()).poked = True
        self._wake.set()

    def sweep_soon(self) -> None:
        """Look at every room: pokes may have been missed."""
        self._next_rooms = self._next_sweep = 0.0
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> bool:
        """Drain until ``stop`` is set, then once more what is there. Never ends by an error of a store or a room.

        True when everything that was there at the end is stored.
        """
        while not stop.is_set():
            # Cleared before the pull: a poke that comes in between must wake the next turn.
            self._wake.clear()
            try:
                await self._sweep()
                if not await self._turn():
                    await self._sleep(stop)
            except StorageUnavailable:
                await self._rest(stop)
            except Exception:
                log.exception("drain_turn_failed", rooms=len(self._due))
                await self._rest(stop)
        is_clean = await self._last_turns()
        await asyncio.gather(*self._telling)
        return is_clean

    async def _rest(self, stop: asyncio.Event) -> None:
        await _first_of(self._pause, stop)
        self._pause = min(self._pause * 2, RETRY_SEC[1])

    async def _last_turns(self) -> bool:
        self.sweep_soon()
        self._lease = None  # it is for economy; now it matters that nothing is left behind
        for state in self._due.values():
            state.not_before = 0.0  # also of rooms that another drainer held a moment ago
        try:
            await self._sweep()
            for _ in range(100):
                if not await self._turn():
                    return not self._due
        except StorageUnavailable:
            return False
        except Exception:
            log.exception("last_turn_failed", rooms=len(self._due))
        return False

    async def _turn(self) -> bool:
        """One pull and commit; False when no room is due."""
        if self._failing_since is not None and self._lease is not None:
            # No room is held until Postgres answers here: the drainer of another instance may well reach it.
            await self._probe()
        now = mono()
        due = [room for room, state in self._due.items() if state.not_before <= now][:MAX_ROOMS]
        if due and self._lease is not None:
            due = self._leased(due, await self._lease(due), now)
        if not due:
            if self._failing_since is not None:
                await self._probe()
            return False
        for room in due:
            # To the end of the order, so that 500 busy rooms do not keep the others waiting.
            state = self._due[room] = self._due.pop(room)
            state.poked = False
        limit = min(MAX_FACTS_A_ROOM, max(1, MAX_FACTS // len(due)))
        answers = await self._outboxes.drain_many([(room, self._due[room].committed) for room in due], limit)
        if all(isinstance(answer, StorageUnavailable) and not isinstance(answer, RoomFenced) for answer in answers):
            raise answers[0]
        for room, answer in zip(due, answers, strict=True):
            if isinstance(answer, RoomFenced):
                await self._ask_rebuild(room)
        batches = [batch for room, answer in zip(due, answers, strict=True) if (batch := self._pulled(room, answer))]
        if batches:
            await self._commit(batches)
        self._pause = RETRY_SEC[0]
        return True

    def _leased(self, due: list[RoomId], mine: set[RoomId], now: float) -> list[RoomId]:
        for room in due:
            if room not in mine:
                self._due[room].not_before = now + SWEEP_SEC / 4
        return [room for room in due if room in mine]

    def _pulled(self, room: RoomId, answer: Any) -> Batch | None:
        state = self._due[room]
        if isinstance(answer, RoomFenced | RoomGone):
            # Nothing to do until it answers again; the sweep finds it then.
            del self._due[room]
            return None
        if isinstance(answer, Exception):
            self._push_back(room, "outbox_unreadable", reason=f"{type(answer).__name__}: {answer}")
            return None
        if answer.elements:
            return Batch(room, answer.gen, answer.epoch, answer.base, answer.elements)
        if state.poked:
            state.committed = 0
        else:
            del self._due[room]
        return None

    async def _commit(self, batches: list[Batch]) -> None:
        began = mono()
        try:
            answers = await self._journal.append(batches)
        except StorageUnavailable as error:
            self._book.put(metrics.OLDEST_AT, min(recorded_at(batch.elements[0]) for batch in batches))
            await self._failed(error)
            raise
        self._book.add(metrics.COMMITS)
        self._book.observe(metrics.COMMIT_SECONDS, mono() - began)
        acks = []
        for answer in answers:
            if answer.outcome in (Outcome.STORED, Outcome.REPLAYED):
                batch = answer.batch
                self._due[batch.room].committed = answer.committed
                self._due[batch.room].pause = PUSH_BACK_SEC[0]
                acks.append([batch.room, batch.gen, answer.committed, batch.epoch])
        await self._succeeded(acks)
        for answer in answers:
            if answer.outcome not in (Outcome.STORED, Outcome.REPLAYED):
                await self._refused(answer)

    async def _refused(self, answer: Appended) -> None:
        batch = answer.batch
        if answer.outcome is Outcome.FORKED:
            del self._due[batch.room]
            if await self._outboxes.fence(batch.room, batch.gen, batch.epoch):
                log.warning("room_fenced", room=batch.room, reason=answer.reason, gen=batch.gen, seq=batch.base)
                await self._publish(ujson.dumps({"reset": [batch.room]}))
            await self._ask_rebuild(batch.room)
            return
        if answer.outcome is Outcome.AHEAD:
            self._push_back(batch.room, "room_ahead_of_journal", reason=answer.reason, seq=batch.base)
        else:
            self._push_back(batch.room, "fact_not_stored", reason=answer.reason, seq=batch.base)
        await self._publish(ujson.dumps({"failed": [[batch.room, batch.gen]]}))

    def _push_back(self, room: RoomId, event: str, **words: Any) -> None:
        state = self._due[room]
        state.not_before = mono() + state.pause
        log.error(event, room=room, next_try_sec=state.pause, **words)
        state.pause = min(state.pause * 2, PUSH_BACK_SEC[1])

    async def _succeeded(self, acks: list[list[Any]]) -> None:
        note_commit(self._book)
        self._book.put(metrics.OLDEST_AT, 0)
        if self._failing_since is not None:
            log.info("journal_recovered", after_sec=round(mono() - self._failing_since, 1))
            self._failing_since = None
        # Also when it names no room: the first good commit ends the refusals (FLT-080).
        self._tell_stored(ujson.dumps({"stored": acks, "by": self._name}))
        await asyncio.sleep(0)  # it is on its way before anything else is said, and in one write with the next pull

    def _tell_stored(self, text: str) -> None:
        """Publish without waiting: whoever misses it asks the live store himself."""
        telling = asyncio.ensure_future(self._tell(text))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _tell(self, text: str) -> None:
        try:
            await self._publish(text)
        except StorageUnavailable as error:
            log.warning("commit_notice_lost", reason=repr(error.__cause__ or error))
        except Exception:
            log.exception("commit_notice_lost")

    async def _failed(self, error: QmError, *, is_commit: bool = True) -> None:
        now = mono()
        note_failure(self._book, error, is_commit=is_commit)
        if self._failing_since is None:
            self._failing_since = now
            log.warning("journal_commit_failed", reason=repr(error.__cause__ or error))
        if now - self._failing_since >= GRACE_SEC and now >= self._next_notice:
            self._next_notice = now + NOTICE_SEC
            await self._publish(ujson.dumps({"failed": "*", "by": self._name}))

    async def _probe(self) -> None:
        """Commits failed, and no fact is left to try them with: ask Postgres itself."""
        try:
            await self._journal.probe()
        except StorageUnavailable as error:
            await self._failed(error, is_commit=False)
            raise
        await self._succeeded([])

    async def _sweep(self) -> None:
        now = mono()
        if now >= self._next_rooms:
            self._next_rooms = now + ROOMS_SEC
            self._known = set(await self._rooms())
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_SEC
            for room in self._known:
                self._due.setdefault(room, _Due())

    async def _sleep(self, stop: asyncio.Event) -> None:
        now = mono()
        times = [state.not_before for state in self._due.values() if state.not_before > now]
        await _first_of(min([self._next_sweep, *times]) - now, self._wake, stop)


async def _first_of(seconds: float, *events: asyncio.Event) -> None:
    """Wait for one of the events, at most ``seconds``."""
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def note_commit(book: MetricBook) -> None:
    """The journal took a commit or a probe: for every process of the instance to know (OBS-023)."""
    book.put(metrics.LAST_COMMIT_MS, int(mono() * 1000))
    book.put(metrics.LAST_COMMIT_AT, wall_ms())


def note_failure(book: MetricBook, error: BaseException, *, is_commit: bool) -> None:
    """A commit of the journal failed, or a probe."""
    book.add(metrics.WRITE_ERRORS if is_commit else metrics.PROBE_ERRORS)
    book.put(metrics.LAST_ERROR_MS, int(mono() * 1000))
    book.put(metrics.LAST_ERROR_AT, wall_ms())
    cause = error.__cause__ or error
    book.write_text("storage_error", f"{type(cause).__name__}: {cause}".strip(": "))
