"""Visitor calls of the engine: join, status, check, leave, gathered into few calls of the Lua library.

One queue per function and copy of a room. The first item schedules a flush in this turn of the loop; one batch is in
flight per queue, and what comes meanwhile makes the next one. So a single visitor waits for nobody, and under load a
call carries up to 500 items at a tenth of the cost each. Not here: operator calls (engine_admin.py), ticks and
draining (engine_jobs.py).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from redis.exceptions import OutOfMemoryError

from app.core.errors import StorageUnavailable
from app.domain.room import Room
from app.infrastructure.engine_errors import RoomFenced, RoomGone, StaleRoom
from app.infrastructure.engine_pack import (
    UNPACKERS,
    RoomCode,
    pack_check,
    pack_join,
    pack_leave,
    pack_status,
    unpack_statuses,
)
from app.infrastructure.engine_results import (
    CheckAnswer,
    CheckItem,
    JoinAnswer,
    JoinItem,
    LeaveAnswer,
    Proof,
    VisitorView,
)
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import Commands, LuaLoader

MAX_BATCH: Final = 500
"""Items in one call: about 5 ms of Valkey."""
LINE_MAX: Final = 10_000_000
_OF_NOBODY: Final = contextvars.Context()
"""Many are answered in one task: a line of the log in it must not name the request that happened to come first."""

_QueueKey = tuple[str, str, int, int]


class Waiter(Protocol):
    """The part of a future that an answer is given to. It must not raise: others wait behind it."""

    def done(self) -> bool: ...
    def set_result(self, answer: Any, /) -> None: ...
    def set_exception(self, error: Any, /) -> None: ...


class _Queue:
    """Items of one function for one copy of a room."""

    __slots__ = ("args", "busy", "items", "key", "name", "room_id", "unpack")

    def __init__(self, name: str, key: str, room_id: str, args: tuple[Any, ...]) -> None:
        self.name = name
        self.key = key
        self.room_id = room_id
        self.args = args
        self.unpack = UNPACKERS[name]
        self.items: list[tuple[Waiter, bytes]] = []
        self.busy = False


class Engine:
    """Visitor calls. Each method packs its item at once and returns a future of the answer.

    Futures raise StaleRoom (reload the copy, try once more), RoomGone, RoomFenced or StorageUnavailable.
    """

    def __init__(
        self,
        valkey: Commands,
        prefix: str,
        loader: LuaLoader,
        *,
        line_max: int = LINE_MAX,
        is_short: Callable[[], bool] = lambda: False,
    ) -> None:
        """``line_max``: QM_LINE_MAX. ``is_short``: True while the live store is short of memory (FLT-147)."""
        self._valkey = valkey
        self._is_short = is_short
        self._prefix = prefix
        self._loader = loader
        self._line_max = line_max
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queues: dict[_QueueKey, _Queue] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, room: Room, item: JoinItem) -> Awaitable[JoinAnswer]:
        """Get a place, or the one that is held."""
        return self._put("join", room, pack_join(item))

    def ask_join(self, room: Room, item: JoinItem, waiter: Waiter) -> None:
        """``join``; ``waiter`` hears what the future would."""
        self._append("join", room, pack_join(item), waiter)

    def status(
        self, room: Room, proof: Proof, *, told: bool = True, seen: bool = True, bind: bool = False
    ) -> Awaitable[VisitorView]:
        """Tell a place. ``told``: the answer delivers a pass; ``seen``: the holder is present.

        ``bind``: the request shows where its owner is now (ENG-108), which an old proof asked about again does not.
        """
        return self._put("status", room, pack_status(proof, told=told, seen=seen, bind=bind))

    async def statuses(self, room: Room, asked: Sequence[tuple[Proof, bool]]) -> list[VisitorView]:
        """Tell up to MAX_BATCH places in a call of their own; all holders are present.

        With each proof stands whether the answer delivers a pass. For open streams, of which many are due at once:
        half the cost of a future each. Raises what the futures of the others raise.
        """
        queue = self._queue("status", room)
        items = [pack_status(proof, told=told, seen=True, bind=False) for proof, told in asked]
        reply = await self._call(queue, items)
        if reply[0] != RoomCode.OK:
            raise room_error(reply[0], room.id)
        return unpack_statuses(reply)

    def check(self, room: Room, item: CheckItem) -> Awaitable[CheckAnswer]:
        """Decide one page request at the door."""
        return self._put("check", room, pack_check(item))

    def ask_check(self, room: Room, packed: bytes, waiter: Waiter) -> None:
        """``check`` of an item that is packed; ``waiter`` hears what the future would."""
        self._append("check", room, packed, waiter)

    def ask_status(self, room: Room, packed: bytes, waiter: Waiter) -> None:
        """``status`` of an item that is packed; ``waiter`` hears what the future would."""
        self._append("status", room, packed, waiter)

    def leave(self, room: Room, proof: Proof) -> Awaitable[LeaveAnswer]:
        """End the owner's place, pass or session."""
        return self._put("leave", room, pack_leave(proof))

    def _put(self, name: str, room: Room, item: bytes) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._running_loop().create_future()
        self._append(name, room, item, future)
        return future

    def _append(self, name: str, room: Room, item: bytes, waiter: Waiter) -> None:
        index = (name, room.config.id, room.generation, room.cfg_ver)
        queue = self._queues.get(index)
        if queue is None:
            queue = self._queues[index] = self._queue(name, room)
        queue.items.append((waiter, item))
        if not queue.busy:
            queue.busy = True
            loop = self._running_loop()
            loop.call_soon(self._start, loop, index, queue, context=_OF_NOBODY)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Kept, since asking for it costs a system call in Python 3.11."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def _queue(self, name: str, room: Room) -> _Queue:
        args: tuple[Any, ...] = (room.generation, room.cfg_ver)
        if name == "join":
            args = (*args, self._line_max)
        return _Queue(name, RoomKeys(self._prefix, room.id).header, room.id, args)

    def _start(self, loop: asyncio.AbstractEventLoop, index: _QueueKey, queue: _Queue) -> None:
        task = loop.create_task(self._flush(index, queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _flush(self, index: _QueueKey, queue: _Queue) -> None:
        try:
            while queue.items:
                batch, queue.items = queue.items[:MAX_BATCH], queue.items[MAX_BATCH:]
                await self._send(queue, batch)
        finally:
            queue.busy = False
            del self._queues[index]
            _refuse(queue.items, StorageUnavailable())

    async def _send(self, queue: _Queue, batch: list[tuple[Waiter, bytes]]) -> None:
        try:
            reply = await self._call(queue, [item for _, item in batch])
        except Exception as error:  # every waiter must learn of it, whatever it is
            _refuse(batch, error)
            return
        code = reply[0]
        if code != RoomCode.OK:
            _refuse(batch, room_error(code, queue.room_id))
            return
        try:
            answers = queue.unpack(reply)
            if len(answers) != len(batch):
                raise ValueError(f"{len(answers)} answers to {len(batch)} items of {queue.name}")
        except Exception as error:  # or they would wait for ever
            _refuse(batch, error)
            return
        for (future, _), answer in zip(batch, answers, strict=True):
            if not future.done():  # a client that went away has cancelled it
                future.set_result(answer)

    async def _call(self, queue: _Queue, items: Sequence[bytes]) -> Any:
        if queue.name == "join" and self._is_short():
            return await self._join_full(queue, items)
        try:
            return await self._loader.call(queue.name, queue.key, *queue.args, *items)
        except StorageUnavailable as error:
            if queue.name != "join" or not isinstance(error.__cause__, OutOfMemoryError):
                raise
        return await self._join_full(queue, items)

    async def _join_full(self, queue: _Queue, items: Sequence[bytes]) -> Any:
        """Short of memory, nobody new gets in, and whoever has a place is answered as ever (ENG-294)."""
        return await self._loader.call("join_full", queue.key, *queue.args[:2], 0, *items)


def room_error(code: int, room_id: str) -> Exception:
    """The exception for a room code other than OK."""
    if code == RoomCode.STALE:
        return StaleRoom(room_id)
    if code == RoomCode.NOROOM:
        return RoomGone()
    return RoomFenced()


def _refuse(batch: list[tuple[Waiter, bytes]], error: Exception) -> None:
    for future, _ in batch:
        if not future.done():
            future.set_exception(error)
