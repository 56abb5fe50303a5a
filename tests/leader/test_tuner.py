"""Autotune: which rooms it acts on, when, and what it leaves behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.automation import Autotune
from app.domain.autotune import ROUND_MS
from app.domain.facts import FactType, decode_body
from app.domain.facts_of_rooms import RoomUpdated
from app.domain.origins import Origin
from app.domain.room import RoomState
from app.domain.site_health import Knocked, SiteHealth
from app.infrastructure.engine_auto import Overtaken, Tuning
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.site_store import SiteStore, TuneRound
from app.services.leadership import Term, TermOver
from app.services.tuner import Tuner, may_be_tuned
from tests.journal.history import advance
from tests.journal.house import House
from tests.leader.conftest import lease_of

ID = RoomId("shop")
SITE = Origin("https", "shop.example", 443)
ON = Autotune(True, min_rate=1, max_rate=600, target_ms=1000)


class Clock(SiteStore):
    """The store, whose clock the test moves."""

    ahead_ms = 0

    async def now_ms(self) -> int:
        return await super().now_ms() + self.ahead_ms


class Shop:
    """One room with people in line, a site, and a leader."""

    def __init__(self, house: House, directory: RoomDirectory) -> None:
        self.house, self.directory = house, directory
        self.store = Clock(house.valkey, house.prefix, LuaLoader(house.valkey))
        self.tuner = self.make_tuner()
        self.term: Term

    def make_tuner(self, *, default: bool = False) -> Tuner:
        return Tuner(rooms=self.directory, engine=self.house.auto, store=self.store, default=default)

    async def open(self, *, waiting: int = 3, **fields: Any) -> None:
        await self.house.create("shop", **{"rate_per_minute": 100, "autotune": ON, **fields})
        for who in range(waiting + 1):
            await self.house.join("shop", who)
        await self.directory.reload(ID)
        await self.lead("one")

    async def lead(self, name: str) -> None:
        lease = lease_of(self.house, name, ms=60_000)
        await self.house.valkey.execute("DEL", f"{self.house.prefix}leader:lease")
        assert await lease.take()
        self.term = Term(lease)

    async def knocked(self, *times: int) -> None:
        """Knocks of the last 30 s, each with its ms; 0 = failed."""
        now, health = await self.store.now_ms(), SiteHealth()
        for number, ms in enumerate(times):
            at = now - 25_000 + number * 10_000
            health = health.after(Knocked(at, ms, 200) if ms else Knocked(at, 5000, 0, "timeout"))
        await self.store.put(self.term.epoch, {SITE: health}, by="i:one")

    async def round(self, *times: int) -> int:
        """The rate after the next round, before which the site answered its knocks like this."""
        self.store.ahead_ms += ROUND_MS
        if times:
            await self.knocked(*times)
        await self.tuner.look(self.term)
        return await self.rate()

    async def rate(self) -> int:
        return (await self.house.admin.figures([ID]))[ID].rate_per_minute

    async def change(self, **fields: Any) -> None:
        await self.house.admin.update(ID, fields, actor="ann")
        await self.directory.reload(ID)


@pytest.fixture
def shop(house: House, directory: RoomDirectory) -> Shop:
    return Shop(house, directory)


@pytest.mark.req("ENG-222", "ENG-225")
async def test_it_follows_the_site_up_and_down(shop: Shop) -> None:
    await shop.open()

    assert await shop.round(100, 100, 100) == 100, "nothing is known yet of what grows"
    assert await shop.round(100, 100, 100) == 105
    assert await shop.round(1500, 1500, 1500) == 84
    assert await shop.round(1500, 0, 0) == 42
    assert await shop.round(100, 0, 100) == 42
    assert await shop.round(100, 100, 100) == 44


@pytest.mark.req("ENG-225")
async def test_it_holds_one_round_in_thirty_seconds_whoever_leads(shop: Shop) -> None:
    await shop.open()
    assert await shop.round(1500, 1500, 1500) == 80
    await shop.tuner.look(shop.term)
    assert await shop.rate() == 80

    await shop.lead("two")
    successor = shop.make_tuner()
    task = asyncio.create_task(successor.run(shop.term))
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await shop.rate() == 80
    shop.tuner = successor
    assert await shop.round(1500, 1500, 1500) == 64


@pytest.mark.req("ENG-225")
async def test_it_remembers_over_a_change_of_leader_what_had_grown(shop: Shop) -> None:
    await shop.open()
    await shop.round(100, 100, 100)
    await shop.lead("two")
    shop.tuner = shop.make_tuner()
    shop.tuner._rounds = await shop.store.rounds()

    assert await shop.round(100, 100, 100) == 105


@pytest.mark.req("ENG-225")
async def test_it_changes_nothing_without_knocks(shop: Shop) -> None:
    await shop.open()

    assert [await shop.round() for _ in range(3)] == [100, 100, 100]


@pytest.mark.req("ENG-224")
@pytest.mark.parametrize(
    "fields",
    [{"state": RoomState.PAUSED}, {"state": RoomState.BYPASS}, {"rate_per_minute": 0}, {"autotune": None},
     {"autotune": Autotune(False, 1, 600, 50)}],
)  # fmt: skip
async def test_it_leaves_rooms_alone_whose_queue_does_not_run(shop: Shop, fields: dict[str, Any]) -> None:
    await shop.open(**fields)
    before = await shop.rate()

    assert await shop.round(1500, 1500, 1500) == before
    assert await shop.round(0, 0, 0) == before


@pytest.mark.req("ENG-224")
async def test_it_leaves_a_room_alone_in_which_nobody_waits(shop: Shop) -> None:
    await shop.open(waiting=0)

    assert await shop.round(0, 0, 0) == 100


@pytest.mark.req("ENG-224")
async def test_it_leaves_a_fenced_room_alone(shop: Shop) -> None:
    await shop.open()
    await shop.house.jobs.fence(ID, 1, 1)

    await shop.tuner.look(shop.term)

    header = await shop.house.jobs.header(ID)
    assert header is not None
    assert header["rate"] == 100


@pytest.mark.req("ENG-224")
async def test_it_keeps_its_hands_off_for_five_minutes_after_a_person_set_the_rate(shop: Shop) -> None:
    await shop.open(waiting=30, max_concurrent=1, presence_sec=3600)
    await shop.change(rate_per_minute=200)

    await advance(shop.house, "shop", 297)
    assert await shop.round(1500, 1500, 1500) == 200
    await advance(shop.house, "shop", 4)
    assert await shop.round(1500, 1500, 1500) == 160
    assert await shop.round(1500, 1500, 1500) == 128, "its own change binds it not"


@pytest.mark.req("ENG-224")
def test_it_looks_whether_it_may_act_before_it_reckons() -> None:
    free = Tuning(1, 1, RoomState.ACTIVE, 100, 3, 0, None, 0, 100, None)

    assert may_be_tuned(free)
    assert may_be_tuned(replace(free, hand_rate_age_ms=300_000))
    bound: list[dict[str, Any]] = [
        {"hand_rate_age_ms": 299_999}, {"waiting": 0}, {"rate": 0}, {"state": RoomState.PAUSED},
        {"state": RoomState.BYPASS}, {"state": RoomState.SCHEDULED},
    ]  # fmt: skip
    assert not any(may_be_tuned(replace(free, **change)) for change in bound)


@pytest.mark.req("ENG-224")
async def test_it_takes_back_nothing_that_a_person_changed_in_between(shop: Shop) -> None:
    await shop.open()
    (seen,) = await shop.house.auto.tuning_many([ID])
    assert isinstance(seen, Tuning)
    await shop.change(rate_per_minute=300)

    assert not await shop.house.auto.tune(ID, seen, 80, leader=shop.term.epoch, hold_ms=0, figures={})
    (seen,) = await shop.house.auto.tuning_many([ID])
    assert isinstance(seen, Tuning)
    assert not await shop.house.auto.tune(ID, seen, 80, leader=shop.term.epoch, hold_ms=60_000, figures={})

    await shop.change(state=RoomState.PAUSED)
    (seen,) = await shop.house.auto.tuning_many([ID])
    assert isinstance(seen, Tuning)
    assert not await shop.house.auto.tune(ID, seen, 80, leader=shop.term.epoch, hold_ms=0, figures={})
    assert await shop.rate() == 300


@pytest.mark.req("ENG-222", "ENG-223", "CFG-079")
async def test_it_tunes_by_the_servers_default_up_to_the_rate_that_a_person_set(shop: Shop) -> None:
    await shop.open(autotune=None)
    shop.tuner = shop.make_tuner(default=True)

    assert await shop.round(1500, 1500, 1500) == 80
    rates = [await shop.round(100, 100, 100) for _ in range(7)]
    assert rates == [84, 88, 92, 96, 100, 100, 100]

    await shop.change(autotune=Autotune(False))
    assert await shop.round(0, 0, 0) == 100, "the room's own word comes first"


@pytest.mark.req("ENG-225")
async def test_it_raises_nothing_while_unused_passes_pile_up_or_the_site_is_full(shop: Shop) -> None:
    await shop.open(waiting=50, presence_sec=1, rate_per_minute=600)
    await shop.round(100, 100, 100)
    await advance(shop.house, "shop", 3)
    assert await shop.round(100, 100, 100) == 600
    (seen,) = await shop.house.auto.tuning_many([ID])
    assert isinstance(seen, Tuning)
    assert seen.passes_outstanding > 0

    await shop.change(max_concurrent=1)
    shop.tuner._rounds["shop"] = TuneRound(await shop.store.now_ms(), 10_000)
    assert await shop.round(100, 100, 100) == 600


async def test_it_leaves_old_and_new_rate_and_figures_in_the_journal(shop: Shop) -> None:
    await shop.open()
    await shop.round(1500, 1500, 1500)

    await shop.house.drain("shop")

    (body,) = await shop.house.journaled("shop", FactType.ROOM_UPDATED)
    fact = decode_body(FactType.ROOM_UPDATED, 1, body)
    assert isinstance(fact, RoomUpdated)
    assert (fact.changes, fact.actor, fact.why) == ({"rate_per_minute": 80}, "system", "autotune")
    assert fact.figures is not None
    assert (fact.figures["old"], fact.figures["new"], fact.figures["median_ms"]) == (100, 80, 1500)
    assert fact.figures["leader"] == shop.term.epoch
    copy = shop.directory.get("shop")
    assert copy is not None
    assert copy.config.rate_per_minute == 80


async def test_it_does_nothing_when_the_term_is_over_or_a_later_leader_has_decided(shop: Shop) -> None:
    await shop.open()
    await shop.knocked(1500, 1500, 1500)
    name = RoomKeys(shop.house.prefix, "shop").config
    await shop.house.valkey.execute("HSET", name, "mark_leader", shop.term.epoch + 1)
    with pytest.raises(Overtaken):
        await shop.tuner.look(shop.term)
    shop.term._lease.until = 0.0
    with pytest.raises(TermOver):
        await shop.tuner.look(shop.term)

    assert await shop.rate() == 100


async def test_it_forgets_rounds_of_rooms_that_went(shop: Shop) -> None:
    await shop.open()
    await shop.round(100)
    assert (await shop.store.rounds()).keys() == {"shop"}

    await shop.change(autotune=None)
    await shop.round(100)

    assert await shop.store.rounds() == {}
