"""Which rooms exist, and this process's copy of each: what every request looks up first, without a store.

The list is Postgres' (a room that Valkey lost is fenced, not gone); a copy is what Valkey said last. Copies stay
fresh by hints on the control channel, by a resync every RESYNC_MS, and by whoever is told STALE by the engine and
calls ``refresh``. Not here: live figures, decisions.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import asyncpg
import structlog

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.core.ids import EpochMs, Generation, RoomId, is_room_id
from app.domain.facts import decode_body
from app.domain.facts_of_rooms import RoomDeleted
from app.domain.room import Room
from app.domain.room_codec import config_from_json
from app.infrastructure.engine_errors import RoomFenced
from app.infrastructure.hints import HintHandler, Hints
from app.infrastructure.keys import control_channel, rooms_key
from app.infrastructure.postgres import Postgres
from app.infrastructure.queries import QUERIES
from app.infrastructure.valkey import Listener, Valkey

FIRST_PAUSE_SEC: Final = 1.0
LAST_PAUSE_SEC: Final = 30.0
"""Pauses between tries at the list of rooms until it was read once (FLT-076)."""
LOOKUPS_PER_SEC: Final = 100
"""Look-ups of ids that no list knows, per process: made-up ids must not load the store."""

log = structlog.get_logger(__name__)

Reading = asyncio.Task[Room | None]


class LiveRooms(Protocol):
    """What is needed of EngineAdmin."""

    async def read(self, room_id: RoomId) -> Room | None:
        """The room as Valkey has it; None = deleted; RoomFenced = none there, or it must not be read now."""


class RoomDirectory:
    """The rooms as this process knows them. ``get`` and ``all`` never wait."""

    def __init__(self, *, postgres: Postgres, live: LiveRooms, valkey: Valkey, prefix: str, resync_ms: int) -> None:
        """``prefix``: VALKEY_PREFIX. ``resync_ms``: RESYNC_MS."""
        self._postgres = postgres
        self._live = live
        self._valkey = valkey
        self._prefix = prefix
        self._pause_sec = resync_ms / 1000
        self._rooms: dict[RoomId, Room] = {}
        self._reading: dict[RoomId, Reading] = {}
        self._waiting: dict[RoomId, Reading] = {}
        self._ended: dict[RoomId, int] = {}
        """Generations that Valkey calls deleted; the list may lag behind."""
        self._hints = Hints()
        self._hints.on("room", self._on_room)
        self._watchers: list[Callable[[], None]] = []
        self._listener: Listener | None = None
        self._task: asyncio.Task[None] | None = None
        self._tokens = float(LOOKUPS_PER_SEC)
        self._tokens_at = mono()
        self.is_loaded = False
        """True once a list of rooms was read: before, an unknown id may well be a room."""

    def get(self, room_id: str) -> Room | None:
        """This process's copy of a room. None: not known here; ``find`` asks the stores."""
        return self._rooms.get(RoomId(room_id))

    def all(self) -> list[Room]:
        """Every room, in order of creation (ADM-111)."""
        return sorted(self._rooms.values(), key=lambda room: (room.created_at, room.id))

    async def find(self, room_id: str) -> Room | None:
        """The copy, or, for an id that is not known here, what the stores say: a room made a moment ago elsewhere.

        None = no such room. StorageUnavailable while that cannot be said.
        """
        room = self.get(room_id)
        if room is not None or not is_room_id(room_id):
            return room
        return await self.reload(RoomId(room_id))

    async def refresh(self, room_id: RoomId) -> Room | None:
        """``reload`` for what visitors name: of ids that no list knows, only so many a second are looked up.

        One beyond that is answered as unknown, so that made-up ids cannot load the store.
        """
        if self.is_loaded and room_id not in self._rooms and not self._may_look_up():
            return None
        return await self.reload(room_id)

    async def reload(self, room_id: RoomId) -> Room | None:
        """Read a room from Valkey and keep that as the copy. None = it does not exist, or no longer.

        A room that is on the list but not in Valkey keeps its copy: it is being rebuilt (ENG-275).
        StorageUnavailable when nothing can be said.
        """
        running = self._reading.get(room_id)
        if running is None:
            return await asyncio.shield(self._begin(self._reading, room_id, self._read(room_id)))
        # The running read may have begun before what the caller wants to see: all latecomers share the next one.
        waiting = self._waiting.get(room_id)
        if waiting is None:
            waiting = self._begin(self._waiting, room_id, self._read_after(running, room_id))
        return await asyncio.shield(waiting)

    def _begin(self, table: dict[RoomId, Reading], room_id: RoomId, work: Coroutine[Any, Any, Room | None]) -> Reading:
        task = table[room_id] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda done: self._finish(table, room_id, done))
        return task

    @staticmethod
    def _finish(table: dict[RoomId, Reading], room_id: RoomId, done: Reading) -> None:
        if table.get(room_id) is done:
            del table[room_id]
        if not done.cancelled():
            done.exception()  # whoever asked has it; a caller that went away leaves no complaint behind

    async def _read_after(self, running: Reading, room_id: RoomId) -> Room | None:
        await asyncio.wait([running])
        del self._waiting[room_id]
        return await asyncio.shield(self._begin(self._reading, room_id, self._read(room_id)))

    async def announce(self, room_id: RoomId) -> None:
        """Tell every process to read this room anew; a lost hint is made up for by the resync."""
        await self.send_hint("room", room_id)

    async def send_hint(self, kind: str, text: str) -> None:
        """Send ``kind text`` to every process that shares this Valkey; never fails."""
        try:
            await self._valkey.execute("PUBLISH", control_channel(self._prefix), f"{kind} {text}")
        except StorageUnavailable:
            log.warning("hint_not_sent", kind=kind)

    def on_change(self, handler: Callable[[], None]) -> None:
        """Call ``handler``, which must not wait, whenever a copy came, changed or went."""
        self._watchers.append(handler)

    def _tell_watchers(self) -> None:
        for handler in self._watchers:
            handler()

    def on_hint(self, kind: str, handler: HintHandler) -> None:
        """Call ``handler`` with the text of each hint of ``kind``."""
        self._hints.on(kind, handler)

    async def last_generation(self, room_id: RoomId) -> int:
        """Generation of the last room under this id by the journal; 0 = there was none."""
        return int(await self._postgres.fetchval(QUERIES["directory_last_generation"], room_id) or 0)

    async def issued(self, room_id: RoomId, generation: int) -> int:
        """Highest number that an ended generation gave out; 0 = there was none, or no such generation."""
        row = await self._postgres.fetchrow(QUERIES["directory_last_fact"], room_id, generation)
        fact = None if row is None else decode_body(row["type"], row["lv"], row["body"])
        return fact.last_ticket if isinstance(fact, RoomDeleted) else 0

    async def start(self) -> None:
        """Read the list and begin to keep it fresh. With both stores away it starts all the same and goes on trying."""
        channel = control_channel(self._prefix)
        self._listener = self._valkey.listen({channel: self._hints.hear}, on_resync=self._try_resync)
        await self._listener.start()
        if not self.is_loaded:
            await self._try_resync()
        self._task = asyncio.get_running_loop().create_task(self._keep_fresh(), name="room-directory")

    async def stop(self) -> None:
        """End listening and resyncing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._listener is not None:
            await self._listener.stop()
        await self._hints.stop()

    async def look_again(self) -> None:
        """Read the list now instead of at the next turn; it stays as it is when that cannot be done."""
        await self._try_resync()

    async def _keep_fresh(self) -> None:
        pause = FIRST_PAUSE_SEC
        while True:
            await asyncio.sleep(self._pause_sec if self.is_loaded else pause)
            pause = min(pause * 2, LAST_PAUSE_SEC)
            await self._try_resync()

    async def _try_resync(self) -> None:
        try:
            await self._resync()
        except StorageUnavailable:
            log.debug("rooms_not_confirmed")
        except Exception:
            log.exception("room_resync_failed")

    async def _resync(self) -> None:
        """Bring the list in line with Postgres; with Postgres away at the start, with what Valkey has."""
        try:
            marks = await self._postgres.fetch(QUERIES["directory_marks"])
        except StorageUnavailable:
            if self.is_loaded:
                raise
            await self._load_from_valkey()
            return
        newer = [row["room"] for row in marks if self._is_newer(row)]
        if newer:
            for row in await self._postgres.fetch(QUERIES["directory_rooms"], newer):
                if self._is_newer(row):
                    self._keep(_room_of(row))
        for room_id in self._rooms.keys() - {RoomId(row["room"]) for row in marks}:
            await self._read_unlisted(room_id)
        self.is_loaded = True

    async def _read_unlisted(self, room_id: RoomId) -> None:
        """A copy that the list does not have: made a moment ago, or deleted and no longer in Valkey either.

        A room that was stored and lost from Valkey since the list was read is on it now.
        """
        try:
            room = await self._live.read(room_id)
        except RoomFenced:
            rows = await self._postgres.fetch(QUERIES["directory_rooms"], [room_id])
            room = self._rooms.get(room_id) if rows else None
        if room is None:
            self._rooms.pop(room_id, None)
            self._tell_watchers()
        else:
            self._keep(room)

    async def _load_from_valkey(self) -> None:
        ids = await self._valkey.execute("SMEMBERS", rooms_key(self._prefix))
        for room_id in ids:
            with contextlib.suppress(StorageUnavailable):  # fenced, and Postgres alone knows it: the others are there
                await self.reload(RoomId(room_id.decode()))
        log.warning("rooms_loaded_without_postgres", count=len(self._rooms))

    def _is_newer(self, row: asyncpg.Record) -> bool:
        """A row may be behind Valkey by what is not journaled yet: it never replaces a copy that is newer, and never
        brings back a room that Valkey says is deleted."""
        room = self._rooms.get(RoomId(row["room"]))
        if room is None:
            return bool(row["gen"] > self._ended.get(RoomId(row["room"]), 0))
        mark = (row["gen"], row["cfg_ver"], row["updated_at"])
        return mark > (room.generation, room.cfg_ver, room.updated_at)

    async def _read(self, room_id: RoomId) -> Room | None:
        try:
            room = await self._live.read(room_id)
        except RoomFenced:  # missing or being rebuilt, or there never was one: the list knows
            return await self._from_list(room_id)
        if room is not None:
            return self._keep(room)
        if (known := self._rooms.pop(room_id, None)) is not None:
            self._ended[room_id] = known.generation
            self._tell_watchers()
        return None

    async def _from_list(self, room_id: RoomId) -> Room | None:
        """What Postgres says about a room that Valkey does not have; a copy that is here stays."""
        known = self._rooms.get(room_id)
        if known is not None:
            return known
        rows = await self._postgres.fetch(QUERIES["directory_rooms"], [room_id])
        return self._keep(_room_of(rows[0])) if rows else None

    def _keep(self, room: Room) -> Room:
        known = self._rooms.get(room.id)
        if known is not None and known == room:
            return known  # keeps what was compiled from it
        self._ended.pop(room.id, None)
        self._rooms[room.id] = room
        self._tell_watchers()
        return room

    async def _on_room(self, text: str) -> None:
        if is_room_id(text):
            await self.reload(RoomId(text))

    def _may_look_up(self) -> bool:
        now = mono()
        self._tokens = min(float(LOOKUPS_PER_SEC), self._tokens + (now - self._tokens_at) * LOOKUPS_PER_SEC)
        self._tokens_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def _room_of(row: asyncpg.Record) -> Room:
    raw: Any = row["config"]
    return Room(
        config=config_from_json(json.loads(raw) if isinstance(raw, str) else raw),
        generation=Generation(row["gen"]),
        salt=bytes(row["salt"]),
        cfg_ver=row["cfg_ver"],
        created_at=EpochMs(row["created_at"]),
        updated_at=EpochMs(row["updated_at"]),
    )
