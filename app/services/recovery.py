"""When the live state was lost: comparing each room with its journal, fencing it, having it rebuilt.

One Recovery runs in the background process ``jobs`` of each instance; other processes ask it through the control
channel. Not here: the rebuild itself (``infrastructure/rebuild.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import structlog
import ujson

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.core.metrics import REBUILDS
from app.domain.facts import UnknownFact
from app.domain.fold_tickets import BrokenJournal
from app.domain.layout import LAYOUT
from app.infrastructure.engine_jobs import Place
from app.infrastructure.journal import Head, Journal
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rebuild import NotNeeded, Overtaken, Rebuilder, Rebuilt
from app.services.heavy_state import at_work
from app.services.rebuild_lanes import RebuildLanes
from app.services.recovery_notes import RecoveryNotes

RETRY_SEC: Final = (5.0, 60.0)
"""First and longest pause before a rebuild that failed is tried again (FLT-090)."""
ASK_SEC: Final = 1.0
"""How often one process asks for the same room at most."""
UNREACHABLE_SEC: Final = 0.5

log = structlog.get_logger(__name__)


class LiveRooms(Protocol):
    """What the comparison asks of the engine (``engine_jobs.EngineJobs``)."""

    async def headers(self, room_ids: Sequence[RoomId]) -> Sequence[dict[str, Any] | None]:
        """Headers as stored, None for a room without; ``verified`` = compared since this live store began to run."""
        ...

    async def fence(self, room_id: RoomId, gen: int, epoch: int) -> bool:
        """Stop the room if its live state is of this generation and not of a later epoch."""
        ...

    async def verify_many(self, places: Sequence[Place]) -> Sequence[bool | Exception]:
        """Let rooms answer that still stand exactly there."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a room has to be rebuilt, in the words of the log line (FLT-090)."""

    head: Head
    reason: str
    header: dict[str, Any] | None


def judge(head: Head, header: dict[str, Any] | None) -> Finding | None:
    """Compare a room's live header with its journal head, read in the order head, header. None: it may answer.

    A live state that is further than the journal has facts that are not stored yet, and is right (ENG-277). One that
    a newer build wrote is not this build's to judge; it does not answer here.
    """
    reason = ""
    if header is None:
        reason = "" if head.deleted else "missing"
    elif header["layout"] > LAYOUT or header["gen"] > head.gen:
        reason = ""
    elif header["gen"] < head.gen:
        reason = f"of generation {int(header['gen'])}, journal has {head.gen}"
    elif header["fenced"]:
        reason = "fenced"
    elif header["epoch"] < head.epoch:
        reason = f"of epoch {int(header['epoch'])}, journal has {head.epoch}"
    elif header["seq"] < head.seq:
        reason = f"behind by {head.seq - int(header['seq'])}"
    elif head.deleted and not header["deleted"]:
        reason = "deleted in the journal"
    return Finding(head, reason, header) if reason else None


def _is_same_life(head: Head, header: dict[str, Any]) -> bool:
    return bool(head.gen == header["gen"] and head.epoch == header["epoch"])


def _place(room: RoomId, header: dict[str, Any], *, raised_by: int = 0) -> Place:
    gen, epoch, seq = (int(header[name]) for name in ("gen", "epoch", "seq"))
    return Place(room, gen, epoch, seq, epoch + raised_by)


@dataclass(slots=True)
class _Attempts:
    next_try: float = 0.0
    pause: float = field(default_factory=lambda: RETRY_SEC[0])


class Recovery:
    """Compares rooms with their journal at start, after each reconnect, every ``resync_sec``, and when asked.

    ``known``: ids of the rooms in the live store. ``publish``: send a text to the channel of commits; ``announce``:
    tell every process to read a room anew.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        live: LiveRooms,
        rebuilder: Rebuilder,
        known: Callable[[], Awaitable[Iterable[RoomId]]],
        publish: Callable[[str], Awaitable[None]],
        announce: Callable[[RoomId], Awaitable[None]],
        resync_sec: float,
        noted: Callable[[RoomId, Rebuilt], Awaitable[None]] | None = None,
        book: MetricBook | None = None,
    ) -> None:
        """``noted`` hears of each room that was rebuilt; ``book``: where rebuilds are counted."""
        self._noted = noted
        self._book = book or MetricBook.alone()
        self._notes = RecoveryNotes(self._book)
        self._journal = journal
        self._live = live
        self._rebuilder = rebuilder
        self._known = known
        self._publish = publish
        self._announce = announce
        self._resync_sec = resync_sec
        self._wake = asyncio.Event()
        self._asked: set[RoomId] = set()
        self._all_at = 0.0
        self._attempts: dict[RoomId, _Attempts] = {}
        self._lanes = RebuildLanes(rebuilder.session, self._rebuild, self._note_settled)
        self.compared = asyncio.Event()
        """Set once every room was compared and all but huge ones were rebuilt, or a store was found away: the process
        does its work."""

    def ask(self, room_id: RoomId) -> None:
        """Compare this room soon (message ``rebuild <room>`` of the control channel)."""
        self._asked.add(room_id)
        self._wake.set()

    async def ask_all(self) -> None:
        """Compare every room now: the live store may be another than before."""
        self._all_at = 0.0
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Until ``stop`` is set. Never ends by an error of a store or a room."""
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                self._wake.clear()
                try:
                    await self._turn()
                except StorageUnavailable:
                    pause = UNREACHABLE_SEC
                except Exception:
                    log.exception("recovery_turn_failed")
                    pause = RETRY_SEC[0]
                else:
                    pause = 0.0
                if pause or not self._lanes.has_small:
                    self.compared.set()
                if pause:
                    await asyncio.wait([stopping], timeout=pause)
                else:
                    await self._sleep(stopping)
        finally:
            stopping.cancel()
            await self._lanes.stop()

    async def ensure(self, room_id: RoomId) -> bool:
        """Compare one room, and rebuild it if need be; True when it may answer afterwards."""
        findings = await self._look_at(room_id)
        await self._lanes.wait([room_id])
        return not findings or room_id not in self._attempts

    async def ensure_all(self) -> int:
        """Compare every room and rebuild those that need it; the number of rooms that needed it."""
        findings = await self._look_at_all()
        await self._lanes.wait([finding.head.room for finding in findings])
        return len(findings)

    async def _look_at(self, room_id: RoomId) -> list[Finding]:
        """Compare one room and begin to mend it."""
        findings = await self._compare(await self._journal.current_heads(room_id), [room_id])
        await self._mend(findings)
        return findings

    async def _look_at_all(self) -> list[Finding]:
        """Compare every room and begin to mend those that need it."""
        heads = await self._journal.current_heads()
        known = set(await self._known())
        findings = await self._compare(heads, known)
        self._notes.leave(known | {head.room for head in heads})
        await self._mend(findings)
        return findings

    async def _turn(self) -> None:
        """Compare what is due; what has to be rebuilt is left to the lanes, for which nobody else waits."""
        if mono() >= self._all_at:
            self._all_at = mono() + self._resync_sec
            self._asked.clear()
            try:
                await self._look_at_all()
            except StorageUnavailable:
                self._all_at = 0.0
                raise
        while self._asked:
            await self._look_at(self._asked.pop())

    def _note_settled(self) -> None:
        if not self._lanes.has_small:
            self.compared.set()

    async def _sleep(self, stopping: asyncio.Future[Any]) -> None:
        waking = asyncio.ensure_future(self._wake.wait())
        try:
            pause = max(0.0, self._all_at - mono())
            await asyncio.wait([stopping, waking], timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()

    async def _compare(self, heads: Sequence[Head], live_ids: Iterable[RoomId]) -> list[Finding]:
        """Findings of all rooms. The headers are read after the heads: a healthy live state is never behind then."""
        by_room = {head.room: head for head in heads}
        findings, good = [], []
        for room, header in await self._headers(sorted({*by_room, *live_ids})):
            head = by_room.get(room)
            finding = judge(head, header) if head is not None else None
            if finding is not None:
                findings.append(finding)
                continue
            self._notes.compared(room, head, header)
            if header is not None and not header["verified"]:
                good.append((room, head, header))
        await self._go_on(good)
        return findings

    async def _go_on(self, good: Sequence[tuple[RoomId, Head | None, dict[str, Any]]]) -> None:
        """Let rooms answer that another life of the live store has, and has right: under a new epoch (``new_life``).

        Where journal and live state do not stand in the same epoch the journal takes nothing anyway.
        """
        lives = {room: header for room, _, header in good}
        heads = [head for _, head, header in good if head is not None and _is_same_life(head, header)]
        if heads:
            async with self._rebuilder.new_life(heads) as (raised, moved):
                await self._verify([_place(room, lives[room], raised_by=1) for room in raised])
            self._asked |= moved
        others = lives.keys() - {head.room for head in heads}
        await self._verify([_place(room, lives[room]) for room in others])

    async def _verify(self, places: Sequence[Place]) -> None:
        """All of them together: whoever has a thousand rooms does not wait for a thousand answers."""
        for place, answer in zip(places, await self._live.verify_many(places), strict=True):
            if isinstance(answer, Exception):
                log.error("room_not_verified", room=place.room_id, error=str(answer))
            else:
                log.info("room_verified", room=place.room_id, seq=place.seq, epoch=place.as_epoch)

    async def _headers(self, rooms: Sequence[RoomId]) -> list[tuple[RoomId, dict[str, Any] | None]]:
        """Headers of all rooms together; when one of them cannot be read, without that one."""
        try:
            return list(zip(rooms, await self._live.headers(rooms), strict=True))
        except StorageUnavailable:
            raise
        except Exception:
            log.warning("headers_not_read_together", rooms=len(rooms))
        found = []
        for room in rooms:
            try:
                found.append((room, (await self._live.headers([room]))[0]))
            except StorageUnavailable:
                raise
            except Exception:
                log.exception("header_unreadable", room=room)
        return found

    async def _mend(self, findings: Sequence[Finding]) -> None:
        now = mono()
        due = [f for f in findings if not self._lanes.has(f.head.room) and self._is_due(f.head.room, now)]
        if not due:
            return
        for finding in due:
            await self._fence(finding)
            self._attempts.setdefault(finding.head.room, _Attempts())
        await self._publish(ujson.dumps({"reset": [finding.head.room for finding in due]}))
        self._lanes.add(finding.head for finding in due)

    def _is_due(self, room: RoomId, now: float) -> bool:
        return room not in self._attempts or self._attempts[room].next_try <= now

    async def _fence(self, finding: Finding) -> None:
        head, header = finding.head, finding.header
        if head.room not in self._attempts:
            log.warning("room_fenced", room=head.room, reason=finding.reason, gen=head.gen, journal_seq=head.seq)
        # What was not compared in this life of the store answers nobody; another instance may be about to let it.
        if header is not None and header["verified"] and not header["fenced"]:
            await self._live.fence(head.room, int(header["gen"]), int(header["epoch"]))

    async def _rebuild(self, link: Any, head: Head) -> None:
        room = head.room
        log.info("rebuild_started", room=room, events=head.seq)
        try:
            with at_work(self._book, "rebuild"):
                rebuilt = await self._rebuilder.rebuild(link, room, lambda: self._wanted(room))
        except StorageUnavailable:
            self._all_at = mono() + UNREACHABLE_SEC
            self._wake.set()
            self.compared.set()
            raise
        except NotNeeded:
            log.info("rebuild_not_needed", room=room)
            del self._attempts[room]
            self.ask(room)
            return
        except Overtaken:
            log.info("rebuild_overtaken", room=room)
            return
        except (UnknownFact, BrokenJournal) as error:
            self._postpone(room, str(error))
            return
        except Exception as error:
            log.exception("rebuild_broke", room=room)
            self._postpone(room, repr(error))
            return
        if rebuilt is None:
            log.info("rebuild_elsewhere", room=room)
            return
        del self._attempts[room]
        self._notes.compared(room, None, None)
        self._notes.leave()
        log.info(
            "rebuild_ended",
            room=room,
            events=rebuilt.head.seq,
            tickets=rebuilt.tickets,
            seconds=round(rebuilt.seconds, 2),
        )
        self._book.add(REBUILDS, "ok")
        await self._announce(room)
        if self._noted is not None:
            await self._noted(room, rebuilt)

    async def _wanted(self, room: RoomId) -> Head | None:
        """Head of a room that still has to be rebuilt."""
        for head in await self._journal.current_heads(room):
            if judge(head, (await self._live.headers([room]))[0]) is not None:
                return head
        return None

    def _postpone(self, room: RoomId, reason: str) -> None:
        attempts = self._attempts[room]
        self._notes.failed(room, reason)
        self._notes.leave()
        self._book.add(REBUILDS, "failed")
        attempts.next_try = mono() + attempts.pause
        log.error("rebuild_failed", room=room, reason=reason, next_try_sec=attempts.pause)
        attempts.pause = min(attempts.pause * 2, RETRY_SEC[1])


class RebuildRequests:
    """Asks the recovery of every instance about a room that answered "fenced", at most once a second per room.

    ``publish``: send a text to the control channel.
    """

    def __init__(self, publish: Callable[[str], Awaitable[None]]) -> None:
        self._publish = publish
        self._asked: dict[RoomId, float] = {}

    async def ask(self, room_id: RoomId) -> None:
        """Ask, unless it was asked within the last second. A store that is away gets no request and needs none."""
        now = mono()
        if now - self._asked.get(room_id, -ASK_SEC) < ASK_SEC:
            return
        self._asked[room_id] = now
        try:
            await self._publish(f"rebuild {room_id}")
        except StorageUnavailable:
            del self._asked[room_id]
