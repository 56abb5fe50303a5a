"""What is answered only after its commit, and what is answered at once and journaled in the background."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest

from app.core.clock import wall_ms
from app.core.errors import QmError
from app.core.ids import RoomId
from app.domain.facts import FactType
from app.infrastructure.engine_auto import Tuning
from app.infrastructure.rate_limiter import RateLimiter
from app.services.draws import draw_room
from tests.engine.world import World
from tests.journal.house import House, until
from tests.visitor.site import Answer, Browser, Site
from tests.visitor.test_outage import line_of, operator

SHOP = RoomId("shop")
HOUR_MS = 3_600_000


class Undrained:
    """An instance whose facts are stored only when the test says so."""

    def __init__(self, house: House, site: Site) -> None:
        self.house, self.site = house, site
        self.rooms = operator(house)
        self.line = line_of(house, self.rooms)

    async def stored(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The outcome of ``work`` while commits work."""
        task = asyncio.ensure_future(work)
        while not task.done():
            for room in await self.house.live_rooms():
                await self.house.drain(room)
            await self.house.commits._ask_now()
            await asyncio.sleep(0)
        return task.result()

    async def with_a_failing_commit(self, work: Coroutine[Any, Any, Any]) -> tuple[int, str]:
        """Status and code of ``work`` when the commit that it waits for fails; it does wait for one."""
        task = asyncio.ensure_future(work)

        async def somebody_waits() -> bool:
            assert not task.done(), "it was answered before its commit"
            return any(not future.done() for _, future in self.house.commits._deadlines)

        await until(somebody_waits)
        rooms = sorted({(room, gen) for room, gen in self.house.commits._lines})
        self.house.commits.hear(json.dumps({"failed": rooms}))
        try:
            answer = await task
        except QmError as error:
            return error.status, error.code
        assert isinstance(answer, Answer)
        return answer.status, answer.code or ""

    async def facts(self, room: str = SHOP) -> list[FactType]:
        """Types of everything that is in the journal."""
        rows = await self.house.postgres.fetch("SELECT type FROM events WHERE room = $1 ORDER BY gen, seq", room)
        return [FactType(row["type"]) for row in rows]


@pytest.fixture
async def undrained(idle_house: House, limiter: RateLimiter) -> AsyncIterator[Undrained]:
    """No room yet."""
    site = Site(idle_house, limiter)
    yield Undrained(idle_house, site)
    await site.stop()


async def _line(u: Undrained) -> Browser:
    """A room with one in line."""
    await u.site.create(rate_per_minute=0)
    browser = Browser(u.site)
    await u.stored(browser.join())
    return browser


async def _join(u: Undrained) -> Callable[[], Awaitable[Any]]:
    await u.site.create(rate_per_minute=0)
    return Browser(u.site).join


async def _place(u: Undrained) -> Callable[[], Awaitable[Any]]:
    await u.site.create(opens_at=wall_ms() + HOUR_MS)
    return Browser(u.site).join


async def _admission(u: Undrained) -> Callable[[], Awaitable[Any]]:
    await u.site.create()
    browser = Browser(u.site)
    await u.stored(browser.released())
    return browser.check


async def _reclaim(u: Undrained) -> Callable[[], Awaitable[Any]]:
    browser = Browser(u.site)
    await u.site.create()
    await u.stored(browser.released())
    await u.stored(browser.check())
    browser.jar.pop("qm_dk_shop")
    await u.site.advance(11)
    return browser.join


async def _eject(u: Undrained) -> Callable[[], Awaitable[Any]]:
    await _line(u)
    return lambda: u.line.eject("shop", {"ticket": 1}, actor="ann")


async def _purge(u: Undrained) -> Callable[[], Awaitable[Any]]:
    await _line(u)
    return lambda: u.line.purge("shop", actor="ann")


async def _flush(u: Undrained) -> Callable[[], Awaitable[Any]]:
    await _line(u)
    return lambda: u.line.flush("shop", actor="ann")


async def _schedule(u: Undrained) -> Callable[[], Awaitable[Any]]:
    await u.site.create()
    return lambda: u.line.schedule("shop", {"opensAt": wall_ms() + HOUR_MS}, actor="ann")


async def _create(u: Undrained) -> Callable[[], Awaitable[Any]]:
    return lambda: u.rooms.upsert({"id": "shop", "targetUrl": "https://shop.example"}, actor="ann")


async def _update(u: Undrained) -> Callable[[], Awaitable[Any]]:
    await u.site.create()
    return lambda: u.rooms.upsert({"id": "shop", "name": "Other"}, actor="ann")


async def _delete(u: Undrained) -> Callable[[], Awaitable[Any]]:
    await u.site.create()
    return lambda: u.rooms.delete("shop", actor="ann")


ACTS = {
    "join": (_join, FactType.JOINED),
    "place": (_place, FactType.PREJOINED),
    "admission": (_admission, FactType.ADMITTED),
    "reclaim": (_reclaim, FactType.RECLAIMED),
    "eject": (_eject, FactType.EJECTED),
    "purge": (_purge, FactType.PURGED),
    "flush": (_flush, FactType.PROMOTED),
    "schedule": (_schedule, FactType.SCHEDULED),
    "create": (_create, FactType.ROOM_CREATED),
    "update": (_update, FactType.ROOM_UPDATED),
    "delete": (_delete, FactType.ROOM_DELETED),
}


@pytest.mark.req("ENG-004", "FLT-108")
@pytest.mark.parametrize("name", ACTS)
async def test_it_is_acknowledged_only_after_its_commit(undrained: Undrained, name: str) -> None:
    prepare, kind = ACTS[name]
    act = await prepare(undrained)
    await undrained.stored(asyncio.sleep(0))
    before = (await undrained.facts()).count(kind)

    refused = await undrained.with_a_failing_commit(act())  # type: ignore[arg-type]

    assert refused == (503, "storage_unavailable")
    assert (await undrained.facts()).count(kind) == before
    answered = await undrained.stored(act()) if name not in ("create", "delete") else None  # type: ignore[arg-type]
    assert not isinstance(answered, Answer) or answered.status == 200
    await undrained.stored(asyncio.sleep(0))
    assert (await undrained.facts()).count(kind) > before


@pytest.mark.req("ENG-004")
async def test_a_draw_is_revealed_only_after_its_commit(undrained: Undrained) -> None:
    await undrained.site.create(opens_at=wall_ms() + HOUR_MS)
    browser = Browser(undrained.site)
    await undrained.stored(browser.join())
    await undrained.site.advance(HOUR_MS / 1000 + 1)
    await undrained.house.jobs.tick(SHOP, wall_ms() + HOUR_MS)
    assert await draw_room(undrained.house.jobs, SHOP) is not None

    hidden = [(await browser.status()).json, (await browser.check()).json, (await browser.join()).json]
    await undrained.house.drain("shop")
    await undrained.house.jobs.tick(SHOP, wall_ms() + HOUR_MS)
    told = (await undrained.stored(browser.status())).json

    assert [(answer.get("ticket"), answer.get("position")) for answer in hidden] == [(None, None)] * 3
    assert told["ticket"] == 1


@pytest.mark.req("ENG-005")
async def test_it_is_answered_at_once_and_may_be_undone_by_a_rebuild(undrained: Undrained) -> None:
    """State and rate (autotune's too), promotion, leaving, re-binding, lapse, end of a session: none waits."""
    site, house = undrained.site, undrained.house
    await site.create(rate_per_minute=600, max_concurrent=10, passed_ttl_sec=60, session_ttl_sec=60)
    inside, unused, leaver, mover = (Browser(site, agent=f"Browser/{n}") for n in range(4))
    for browser in (inside, unused):
        await undrained.stored(browser.released())
    await undrained.stored(inside.check())
    await site.update(rate_per_minute=0)
    for browser in (leaver, mover):
        await undrained.stored(browser.join())
    await undrained.stored(asyncio.sleep(0))
    before = await undrained.facts()

    async def at_once(work: Coroutine[Any, Any, Any]) -> Any:
        answer = await asyncio.wait_for(work, 5)
        assert await undrained.facts() == before
        assert not any(not future.done() for _, future in house.commits._deadlines)
        return answer

    assert (await at_once(leaver.send("POST", "/api/leave", {"roomId": "shop"}))).json["left"] == "waiting"
    mover.peer = "198.51.100.99"
    assert (await at_once(mover.status())).json["position"] == 1
    assert (await at_once(undrained.line.set_rate("shop", {"rate": 600}, actor="ann"))).changed == ("rate",)
    (seen,) = await at_once(house.auto.tuning_many([SHOP]))
    assert isinstance(seen, Tuning)
    assert await at_once(house.auto.tune(SHOP, seen, 500, leader=3, hold_ms=0, figures={}))
    assert (await house.admin.figures([SHOP]))[SHOP].rate_per_minute == 500
    await site.advance(1)
    assert (await at_once(house.jobs.tick(SHOP))).promoted == 1
    assert (await at_once(mover.status())).json["state"] == "passed"
    await site.advance(120)
    assert (await at_once(house.jobs.tick(SHOP))).expired >= 2
    assert (await at_once(undrained.line.pause("shop", actor="ann"))).changed == ("state",)
    outbox = {type(fact).__name__ for fact in await World(house.valkey, house.prefix).facts()}
    await house.lose_everything()
    assert await house.recovery.ensure(SHOP)

    assert {"Left", "OwnerRebound", "RoomUpdated", "Promoted", "Lapsed"} <= outbox
    assert await undrained.facts() == before
    figures = (await house.admin.figures([SHOP]))[SHOP]
    assert (figures.waiting, figures.active, figures.passes_outstanding + figures.pending_entry) == (2, 1, 1)
    assert (figures.state.word, figures.rate_per_minute) == ("active", 0)


@pytest.mark.req("ENG-005")
async def test_the_background_stores_it_without_being_asked(house: House, limiter: RateLimiter) -> None:
    site = Site(house, limiter)
    await site.create(rate_per_minute=0)
    browser = Browser(site)
    await browser.join()
    await browser.send("POST", "/api/leave", {"roomId": "shop"})
    await site.update(rate_per_minute=5)

    async def is_stored() -> bool:
        rows = await house.postgres.fetch("SELECT type FROM events WHERE room = 'shop' ORDER BY seq")
        return [row["type"] for row in rows][-2:] == [FactType.LEFT, FactType.ROOM_UPDATED]

    await until(is_stored)
    await site.stop()
