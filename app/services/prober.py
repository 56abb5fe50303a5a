"""The leader's knocks at the sites of all rooms: what `site` of a room says, and what autotune goes by.

Each site is knocked at every MESH_KNOCK_MS ± 20 %, once however many rooms it has. A new leader goes on with the runs
of the last one. Not here: one knock (infrastructure/knock.py), what a run means (domain/site_health.py).
Source: MSH-025 … MSH-034, MSH-093, OBS-047.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Final, Protocol

import structlog

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.domain.inline.proxy_origin import origin_of
from app.domain.origins import Origin, origin_text, parse_web_url
from app.domain.room import Room
from app.domain.site_health import Knocked, SiteHealth
from app.infrastructure.engine_auto import Overtaken
from app.infrastructure.knock import Answer, KnockFailed, Refused
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.site_store import SiteStore
from app.services.leadership import Term, TermOver

TURN_SEC: Final = 0.25
AT_ONCE: Final = 20
"""Knocks under way at a time."""
JITTER: Final = 0.2
_FINE: Final = 1 << 16

log = structlog.get_logger(__name__)


class Asks(Protocol):
    """Who knocks (infrastructure/knock.Knocker)."""

    async def knock(self, site: Origin) -> Answer:
        """Ask a site. Raises Refused, KnockFailed."""
        ...


def site_of(room: Room) -> Origin | None:
    """The site that stands behind a room: ``proxyOrigin``, else the origin of ``targetUrl`` (MSH-033, INL-038)."""
    memo = room.compiled
    if "site" not in memo:
        url = parse_web_url(room.config.target_url)
        memo["site"] = origin_of(room.config) or (None if url is None else url.origin)
    site: Origin | None = memo["site"]
    return site


class Prober:
    """The duty."""

    name = "prober"

    def __init__(self, *, rooms: RoomDirectory, knocker: Asks, store: SiteStore, every_ms: int, instance: str) -> None:
        self._rooms = rooms
        self._knocker = knocker
        self._store = store
        self._every_sec = every_ms / 1000
        self._instance = instance
        self._due: dict[Origin, float] = {}
        self._healths: dict[Origin, SiteHealth] = {}
        self._fresh: dict[Origin, SiteHealth] = {}
        """Sites knocked at since the last writing."""
        self._under_way: set[Origin] = set()

    async def run(self, term: Term) -> None:
        """Knock until the term is over."""
        self._due, self._healths, self._fresh, self._under_way = {}, {}, {}, set()
        try:
            async with asyncio.TaskGroup() as knocks:
                while True:
                    await self._turn(term, knocks)
                    await asyncio.sleep(TURN_SEC)
        except ExceptionGroup as group:  # of what ended the loop; knocks raise nothing
            raise group.exceptions[0] from group

    async def _turn(self, term: Term, knocks: asyncio.TaskGroup) -> None:
        await self._meet_new_sites(term)
        for site in self._due_now():
            self._under_way.add(site)
            knocks.create_task(self._visit(site))
        await self._write(term)

    async def _meet_new_sites(self, term: Term) -> None:
        """Take up the sites of rooms that came, and let go of those whose rooms went."""
        wanted = {site for room in self._rooms.all() if (site := site_of(room)) is not None}
        if new := wanted - self._due.keys():
            self._healths.update(await self._store.healths(sorted(new)))
            now = mono()
            self._due.update((site, now + _part(self._every_sec * JITTER)) for site in new)
        gone = self._due.keys() - wanted
        for site in gone:
            self._due.pop(site)
            self._healths.pop(site, None)
            self._fresh.pop(site, None)
        if (gone or new) and self._rooms.is_loaded:
            names = {origin_text(site) for site in wanted}
            try:
                await self._store.put(term.check(), {}, by=self._instance, gone=await self._store.known() - names)
            except Overtaken as error:
                raise TermOver from error

    def _due_now(self) -> list[Origin]:
        now, free = mono(), AT_ONCE - len(self._under_way)
        due = [site for site, at in self._due.items() if at <= now and site not in self._under_way]
        for site in due[:free]:
            spread = self._every_sec * JITTER
            self._due[site] = now + self._every_sec - spread + _part(2 * spread)
        return due[:free]

    async def _visit(self, site: Origin) -> None:
        """One knock; whatever comes of it, the others go on."""
        began = mono()
        try:
            answer = await self._knocker.knock(site)
            failure = f"http-{answer.status}" if answer.status >= 500 else ""
            knock = Knocked(0, answer.ms, answer.status, failure)
        except Refused:
            return  # not knocked at, so nothing is known of it (MSH-033)
        except KnockFailed as error:
            knock = Knocked(0, round((mono() - began) * 1000), 0, error.kind)
        except Exception:
            log.exception("knock_broke", site=origin_text(site))
            return
        finally:
            self._under_way.discard(site)
        if site in self._due:
            with contextlib.suppress(StorageUnavailable):
                await self._note(site, knock)

    async def _note(self, site: Origin, knock: Knocked) -> None:
        before = self._healths.get(site, SiteHealth())
        dated = Knocked(await self._store.now_ms(), knock.ms, knock.status, knock.failure)
        after = before.after(dated)
        self._healths[site] = self._fresh[site] = after
        if after.is_up is not before.is_up and before.is_up is not None:
            log.warning("site_changed", site=origin_text(site), up=after.is_up, failure=knock.failure)

    async def _write(self, term: Term) -> None:
        epoch = term.check()
        fresh, self._fresh = self._fresh, {}
        if fresh:
            try:
                await self._store.put(epoch, fresh, by=self._instance)
            except Overtaken as error:
                raise TermOver from error


def _part(seconds: float) -> float:
    """Some moment within ``seconds``, so that knocks do not fall together."""
    return seconds * secrets.randbelow(_FINE) / _FINE
