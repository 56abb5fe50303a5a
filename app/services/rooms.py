"""Rooms as operators handle them: list, read, create, change, delete.

The one place where the order of steps stands: check everything, change the live state in one step, wait for the
commit, make every process look again. Not here: field checks (domain/room_fields.py), acts on a line (line.py).
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from app.core.clock import wall_ms
from app.core.errors import NoRoom, QmError, StorageUnavailable
from app.core.ids import RoomId, is_room_id
from app.core.pacing import in_turns
from app.domain.opening import Moment
from app.domain.room import Room, RoomConfig
from app.domain.room_fields import BY_KEY, RoomPatch, new_config, parse_patch
from app.domain.room_warnings import warnings_for
from app.infrastructure.engine_admin import EngineAdmin, RoomWrite, WriteCode
from app.infrastructure.engine_errors import RoomGone
from app.infrastructure.engine_results import RoomFigures
from app.infrastructure.inline_turn import InlineTurn
from app.infrastructure.origin_failures import OriginFailures
from app.infrastructure.room_directory import RoomDirectory
from app.services.commit import CommitWaiter
from app.services.inline_saves import JUDGED, InlineSaves
from app.services.room_details import RoomDetails
from app.services.room_object import RoomView, room_object
from app.services.sites import Sites

TRIES: Final = 3
"""How often an upsert starts again because the room came or went in between."""
SALT_BYTES: Final = 16
ROOMS_A_TURN: Final = 100
"""Views made before visitors' requests get their turn."""
LIGHT: Final = frozenset({"state", "rate_per_minute"})
"""Fields whose change acts at once and is journaled in the background (ENG-005)."""


class NotRecorded(StorageUnavailable):
    """503 for a change whose commit failed or is not known (ADM-134, ADM-136)."""

    sentence = "The change could not be recorded. It may have taken effect; send it again when the room answers."


class CommitsFail(StorageUnavailable):
    """503 before anything was changed: commits fail at present."""

    sentence = "Changes cannot be recorded at present. Nothing was changed; try again shortly."


class StaleEtag(QmError):
    """409 ``stale_room``: somebody else changed the room since it was read (ADM-125)."""

    status = 409
    code = "stale_room"
    sentence = "The room was changed since you read it. Look at it again before you save."


class Unexpected(Exception):
    """A value that an update expected to hold does not; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What an upsert did."""

    view: RoomView
    created: bool
    changed: tuple[str, ...]
    """JSON names."""
    ignored: tuple[str, ...]
    warnings: Sequence[Mapping[str, Any]]
    drawn: int | None = None
    """Places that are drawn at once because this change took the schedule away (ADM-159)."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion dropped, in people."""

    generation: int
    pre_queue: int
    waiting: int
    passes: int
    sessions: int
    warnings: Sequence[Mapping[str, Any]] = ()


class RoomService:
    """Use cases on whole rooms. ``actor`` is the name written into the journal."""

    def __init__(
        self,
        *,
        engine: EngineAdmin,
        rooms: RoomDirectory,
        commits: CommitWaiter,
        sites: Sites | None = None,
        keep_hours: Callable[[RoomId], Awaitable[None]] | None = None,
        inline: InlineSaves | None = None,
        turn: InlineTurn | None = None,
        failures: OriginFailures | None = None,
    ) -> None:
        """``sites``: how sites answer; None: it is not told. ``keep_hours``: keeps what a room did before it ends.
        ``inline``: judges saves of inline rooms, one after the other by ``turn``; None: whoever saves may do so.
        ``failures``: of origins, as shown.
        """
        self._engine = engine
        self._rooms = rooms
        self._commits = commits
        self._details = RoomDetails(engine, failures)
        self._sites = sites
        self._keep_hours = keep_hours
        self._inline = inline
        self._turn = turn
        self._last: dict[RoomId, RoomFigures | None] = {}
        self._stale_since: int | None = None

    async def views(self) -> list[RoomView]:
        """Every room in order of creation, with its figures of this moment.

        With Valkey away the last known figures, marked stale. StorageUnavailable when no list of rooms was ever read.
        """
        rooms = self._rooms.all()
        if not rooms and not self._rooms.is_loaded:
            raise StorageUnavailable
        try:
            ids = [room.id for room in rooms]
            figures = await self._details.figures(ids) if rooms else {}
            self._details.keep_only(ids)
            await self._look_at_sites(rooms)
        except StorageUnavailable:
            self._stale_since = self._stale_since or wall_ms()
            return [self._stale(room, self._stale_since) for room in rooms]
        self._last, self._stale_since = figures, None
        living = [room for room in rooms if room.id in figures]
        return [await self._seen(room, figures[room.id]) async for room in in_turns(living, ROOMS_A_TURN)]

    async def view(self, room_id: str) -> RoomView:
        """One room. Raises NoRoom; StorageUnavailable when neither store can tell (ADM-124)."""
        room = await self._rooms.find(room_id)
        if room is None:
            raise NoRoom
        try:
            figures = await self._details.figures([room.id], fresh=True)
            await self._look_at_sites([room])
        except StorageUnavailable:
            return self._stale(room, self._stale_since or wall_ms())
        if room.id not in figures:
            raise NoRoom
        return await self._seen(room, figures[room.id])

    async def upsert(
        self,
        body: Mapping[str, Any],
        *,
        actor: str,
        if_match: str | None = None,
        host: str = "",
        confirmed: bool = False,
    ) -> Saved:
        """Create a room or change the fields that were sent (ADM-127). ``if_match``: header value, None = not sent.

        ``host``: what the request was sent to; ``confirmed``: see :meth:`InlineSaves.judge`. Raises BadRequest,
        Forbidden, OriginConflict, StaleEtag, StorageUnavailable (NotRecorded when it may have taken effect).
        """
        named = body.get("id")
        room_id = RoomId(named) if isinstance(named, str) and is_room_id(named) else None
        room = None if room_id is None else await self._rooms.find(room_id)
        for _ in range(TRIES):
            moment = Moment(wall_ms(), room.config.opens_at if room is not None else None)
            patch = parse_patch(body, creating=room is None and room_id is not None, moment=moment)
            async with self._in_turn(patch, room):
                warnings = await self._judge(patch, room, actor=actor, host=host, confirmed=confirmed)
                saved = await self._save(patch, room, actor, if_match)
            if saved is not None:
                return replace(saved, warnings=[*saved.warnings, *warnings]) if warnings else saved
            room = await self._rooms.reload(patch.id)
        raise StorageUnavailable

    @asynccontextmanager
    async def _in_turn(self, patch: RoomPatch, room: Room | None) -> AsyncIterator[None]:
        """Let a save that rests on other rooms see what every earlier one has left (INL-011)."""
        if self._turn is None or not InlineSaves.concerns(*_both(patch, room)):
            yield
            return
        async with self._turn.hold():
            await self._rooms.look_again()
            yield

    async def _judge(
        self, patch: RoomPatch, room: Room | None, *, actor: str, host: str, confirmed: bool
    ) -> Sequence[Mapping[str, Any]]:
        """What the save does to inline hosts: refusals and warnings."""
        if self._inline is None:
            return []
        before, after = _both(patch, room)
        return await self._inline.judge(before, after, actor=actor, host=host, confirmed=confirmed)

    async def change(
        self, room_id: str, values: Mapping[str, Any], *, actor: str, expect: Mapping[str, Any] | None = None
    ) -> Saved:
        """Change fields of a room that exists; ``values`` by attribute of RoomConfig, checked before.

        Nothing changes unless the values in ``expect`` hold at that moment. Raises NoRoom, StorageUnavailable.
        """
        room = await self._rooms.find(room_id)
        if room is None:
            raise NoRoom
        patch = RoomPatch(room.id, values, ())
        try:
            saved = await self._update(patch, actor, expect)
        except Unexpected:
            return await self._saved(patch, False, ())
        if saved is None:
            raise NoRoom
        return saved

    async def delete(self, room_id: str, *, actor: str, host: str = "") -> Deleted:
        """End a room's generation for good (ADM-165). ``host``: what the request was sent to.

        Raises NoRoom, StorageUnavailable.
        """
        room = await self._rooms.find(room_id)
        if room is None:
            raise await self._gone(room_id)
        self._refuse_while_commits_fail()
        if self._keep_hours is not None:
            await self._keep_hours(room.id)
        write = await self._engine.delete(room.id, actor=actor)
        await self._look_again(room.id)
        if write.code is WriteCode.NO_ROOM:
            raise await self._gone(room.id)
        await self._committed(room.id, write)
        await self._rooms.announce(room.id)
        warnings = [] if self._inline is None else self._inline.left_behind(room.config, host)
        return Deleted(write.generation, write.pre_queue, write.waiting, write.passes, write.sessions, warnings)

    async def _gone(self, room_id: str) -> QmError:
        """The answer to a second deletion: 404 once the first one is in the journal, else 503 (ADM-136)."""
        if not is_room_id(room_id):
            return NoRoom()
        try:
            generation, seq, committed = await self._engine.committed(RoomId(room_id))
        except RoomGone:
            return NoRoom()
        if seq > committed and not await self._commits.wait(RoomId(room_id), generation, seq):
            return NotRecorded()
        return NoRoom()

    async def _save(self, patch: RoomPatch, room: Room | None, actor: str, if_match: str | None) -> Saved | None:
        """One try of an upsert; None: the room came or went in between."""
        now = None if room is None or if_match is None else await self.view(room.id)
        if if_match is not None and (now is None or not _matches(if_match, now)):
            raise StaleEtag(room=None if now is None else room_object(now))
        if room is None:
            return await self._create(patch, actor)
        expect = _judged(patch, room) if now is None else _settings(now)
        try:
            return await self._update(patch, actor, expect)
        except Unexpected:
            if now is None:
                return None  # what was judged is no longer so: judge again
            raise StaleEtag(room=room_object(await self.view(room.id))) from None

    async def _create(self, patch: RoomPatch, actor: str) -> Saved | None:
        """None: the room exists meanwhile."""
        self._refuse_while_commits_fail()
        config = new_config(patch)
        generation = await self._rooms.last_generation(patch.id) + 1
        salt = secrets.token_bytes(SALT_BYTES)
        write = await self._engine.create(config, gen=generation, salt=salt, actor=actor)
        if write.code is WriteCode.STALE_GEN:  # deleted a moment ago: its end is not in the list yet
            write = await self._engine.create(config, gen=write.generation + 1, salt=salt, actor=actor)
        if write.code is not WriteCode.CREATED:
            return None
        await self._committed(patch.id, write)
        return await self._saved(patch, True, patch.sent)

    async def _update(self, patch: RoomPatch, actor: str, expect: Mapping[str, Any] | None) -> Saved | None:
        """None: the room was deleted meanwhile. A change of only state and rate waits for no commit (ADM-135)."""
        is_light = patch.values.keys() <= LIGHT
        if not is_light:
            self._refuse_while_commits_fail()
        write = await self._engine.update(patch.id, dict(patch.values), actor=actor, expect=dict(expect or {}))
        if write.code is WriteCode.NO_ROOM:
            return None
        if write.code is WriteCode.CONFLICT:
            raise Unexpected
        if not write.background and not is_light:
            await self._committed(patch.id, write)
        drawn = write.pre_queue if "opens_at" in write.changed and patch.values["opens_at"] is None else 0
        return await self._saved(patch, False, _names(write.changed), drawn=drawn or None)

    async def _saved(
        self, patch: RoomPatch, created: bool, changed: tuple[str, ...], *, drawn: int | None = None
    ) -> Saved:
        await self._look_again(patch.id, announce=bool(changed))
        view = await self.view(patch.id)
        warnings = warnings_for(view.room.config, patch.sent)
        return Saved(view, created, changed, patch.ignored, warnings, drawn)

    async def _committed(self, room_id: RoomId, write: RoomWrite) -> None:
        """Wait until the write, or an earlier one that it found unfinished, is in the journal."""
        if not await self._commits.wait(room_id, write.generation, write.seq):
            await self._look_again(room_id)
            raise NotRecorded

    async def _look_again(self, room_id: RoomId, *, announce: bool = True) -> None:
        await self._rooms.reload(room_id)
        if announce:
            await self._rooms.announce(room_id)

    def _stale(self, room: Room, since: int) -> RoomView:
        """The last known state, while Valkey is away."""
        return RoomView(room, self._last.get(room.id), since, self._details.of(room.id))

    async def _seen(self, room: Room, figures: RoomFigures | None) -> RoomView:
        site = None if self._sites is None else self._sites.of(room)
        return RoomView(await self._current(room, figures), figures, details=self._details.of(room.id), site=site)

    async def _look_at_sites(self, rooms: Sequence[Room]) -> None:
        if self._sites is not None:
            await self._sites.refresh(rooms)

    async def _current(self, room: Room, figures: RoomFigures | None) -> Room:
        """The copy, read anew when the figures show that it is old."""
        if figures is None or (figures.generation, figures.cfg_ver) == (room.generation, room.cfg_ver):
            return room
        return await self._rooms.reload(room.id) or room

    def _refuse_while_commits_fail(self) -> None:
        if self._commits.refusing():
            raise CommitsFail


def _both(patch: RoomPatch, room: Room | None) -> tuple[RoomConfig | None, RoomConfig]:
    """The room before and after a save."""
    before = None if room is None else room.config
    return before, new_config(patch) if before is None else replace(before, **patch.values)


def _judged(patch: RoomPatch, room: Room) -> dict[str, Any] | None:
    """The values that the refusals of inline rooms rest on, where the save is about them."""
    if not any(key in patch.values for key in JUDGED):
        return None
    return {key: getattr(room.config, key) for key in JUDGED}


def _names(changed: Sequence[str]) -> tuple[str, ...]:
    """JSON names of changed attributes, in the order of the field table."""
    return tuple(row.name for key, row in BY_KEY.items() if key in changed)


def _matches(if_match: str, view: RoomView) -> bool:
    """Tell whether one of the tags of an ``If-Match`` header is the room's present one."""
    wanted = {part.strip().removeprefix("W/").strip('"') for part in if_match.split(",")}
    return bool(wanted & {room_object(view)["etag"], "*"})


def _settings(view: RoomView) -> dict[str, Any]:
    """All settings of a room as they were seen, by attribute: what must still hold when it is changed."""
    values = {key: getattr(view.room.config, key) for key in BY_KEY if key != "id"}
    if view.figures is not None:
        values |= {"state": view.figures.state, "rate_per_minute": view.figures.rate_per_minute}
    return values
