"""Several instances at work on one room at once: the outcome is that of some one-after-another order of their calls."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.domain.facts_of_passes import AdmissionWithdrawn, Admitted, Lapsed, Promoted, SlotGiven, SlotReleased
from app.domain.facts_of_rooms import RoomUpdated
from app.domain.facts_of_tickets import Ejected, Joined, JoinWithdrawn, Left
from app.domain.layout import Flag
from app.infrastructure.engine_errors import StaleRoom
from app.infrastructure.engine_results import JoinCode, Verdict
from app.infrastructure.valkey import Valkey
from app.services.draws import RoomDrawn, draw_room
from tests.engine.world import ROOM, Browser, World

INSTANCES, CAP, PER_ADDRESS = 4, 5, 3


@pytest.fixture
async def instances(world: World, valkey_url: str) -> AsyncIterator[list[World]]:
    """Worlds on the same room, each with a connection of its own."""
    others = [World(await Valkey.connect(valkey_url), world.prefix) for _ in range(INSTANCES - 1)]
    yield [world, *others]
    for other in others:
        await other.valkey.close()


class Acts:
    """What one instance did, and what it was told."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.dice = random.Random(seed)
        self.browsers: list[Browser] = []
        self.created: list[int] = []
        self.admitted: list[int] = []
        self.ejected: list[int] = []

    async def act(self) -> None:
        """One random call."""
        kind = self.dice.choice(["join"] * 5 + ["check"] * 6 + ["tick"] * 3 + ["leave", "eject", "undo", "update"])
        try:
            await getattr(self, kind)()
        except StaleRoom:  # another instance changed the room: as a service does, look again
            await self.world.reload()

    async def join(self) -> Any:
        browser = Browser(address=f"a{self.dice.randrange(12)}")
        answer = await self.world.join(browser)
        if answer.code is JoinCode.CREATED:
            self.browsers.append(browser)
            self.created.append(browser.ticket)
        return answer

    async def check(self) -> None:
        if self.browsers:
            answer = await self.world.check(self.dice.choice(self.browsers))
            if answer.verdict is Verdict.ADMITTED:
                self.admitted.append(answer.ticket)

    async def tick(self) -> None:
        await self.world.jobs.tick(ROOM)

    async def leave(self) -> None:
        if self.browsers:
            await self.world.leave(self.dice.choice(self.browsers))

    async def eject(self) -> None:
        if self.created:
            ticket = self.dice.choice(self.created)
            answer = await self.world.admin.eject(ROOM, ticket, actor="op")
            if answer.was.name != "EJECTED":
                self.ejected.append(ticket)

    async def undo(self) -> None:
        answer = await self.join()
        if answer.code is JoinCode.CREATED:
            await self.world.admin.undo_join(ROOM, 1, answer.seq, answer.view.ticket)

    async def update(self) -> None:
        cap = self.dice.choice([3, CAP])
        await self.world.admin.update(ROOM, {"max_concurrent": cap}, actor="op")


def slots_over_time(facts: list[Any]) -> list[tuple[int, int]]:
    """(slots in use, cap) after each fact, counted from the facts alone."""
    holds: set[int] = set()
    cap, seen = CAP, []
    for fact in facts:
        match fact:
            case Promoted():
                for run in fact.runs:
                    if run.flags & Flag.SLOT:
                        holds |= set(range(run.first, run.first + run.count))
            case SlotGiven():
                holds |= set(fact.tickets)
            case Admitted():
                holds.add(fact.ticket)
            case AdmissionWithdrawn():
                if not fact.flags & Flag.SLOT:
                    holds.discard(fact.ticket)
            case SlotReleased() | Lapsed() | Left():
                holds -= set(fact.tickets)
            case Ejected() | JoinWithdrawn():
                holds.discard(fact.ticket)
            case RoomUpdated():
                cap = fact.changes.get("max_concurrent", cap)
        seen.append((len(holds), cap))
    return seen


@pytest.mark.req("ENG-001")
async def test_concurrent_calls_of_many_instances_come_out_in_some_order(instances: list[World]) -> None:
    """No number twice, no slot twice, no cap exceeded at any moment; each was told what the facts say."""
    world = instances[0]
    await world.create(rate_per_minute=6000, max_concurrent=CAP, queue_max_per_ip=PER_ADDRESS, presence_sec=3600)
    for other in instances:
        other.room = world.room
    acts = [Acts(one, seed) for seed, one in enumerate(instances)]

    for _ in range(60):
        await asyncio.gather(*(one.act() for one in acts for _ in range(2)))

    facts = await world.facts()
    joins = [fact for fact in facts if isinstance(fact, Joined)]
    told = Counter(ticket for one in acts for ticket in one.created)
    assert [fact.ticket for fact in joins] == list(range(1, len(joins) + 1))
    assert told == Counter(range(1, len(joins) + 1)), "each number was told to one visitor"
    admissions = Counter(fact.ticket for fact in facts if isinstance(fact, Admitted))
    assert admissions == Counter(ticket for one in acts for ticket in one.admitted)
    assert set(admissions.values()) <= {1}, "no pass was used twice"
    ejections = Counter(fact.ticket for fact in facts if isinstance(fact, Ejected))
    assert ejections == Counter(ticket for one in acts for ticket in one.ejected)
    before = 0
    for used, cap in slots_over_time(facts):
        assert used <= max(cap, before), "a slot was used twice"
        before = used
    figures = await world.figures()
    assert figures.occupancy == slots_over_time(facts)[-1][0]
    held = Counter(await waiting_addresses(world, len(joins)))
    assert max(held.values(), default=0) <= PER_ADDRESS


async def waiting_addresses(world: World, last: int) -> list[bytes]:
    """Address digest of every waiting ticket."""
    records = [await world.ticket(n) for n in range(1, last + 1)]
    return [record.addr for record in records if record.state == 1]


@pytest.mark.req("ENG-001")
async def test_a_draw_by_many_instances_at_once_gives_each_place_one_number(instances: list[World]) -> None:
    """With late joins, leaves and ticks in between; all of them follow the one order that is recorded."""
    world = instances[0]
    await world.create(rate_per_minute=0, queue_max_per_ip=None, pre_queue_max_per_ip=None)
    opens_at = await world.now() + 60_000
    await world.update(opens_at=opens_at)
    for other in instances:
        await other.reload()
    early = [Browser() for _ in range(60)]
    await asyncio.gather(*(instances[n % INSTANCES].join(browser) for n, browser in enumerate(early)))
    await world.advance(61)

    late: list[Browser] = []

    async def come_late(one: World) -> None:
        for _ in range(5):
            late.append(Browser())
            await one.join(late[-1])

    async def open_doors(one: World) -> RoomDrawn | None:
        await one.jobs.tick(ROOM, opens_at)
        return await draw_room(one.jobs, ROOM)

    drawn = await asyncio.gather(*map(open_doors, instances), *map(come_late, instances), world.leave(early[7]))
    await world.commit()

    assert sum(isinstance(each, RoomDrawn) for each in drawn) == 1
    numbers = [
        (await world.status(browser, seen=False)).ticket for browser in [*early, *late] if browser is not early[7]
    ]
    assert len(set(numbers)) == len(numbers) == 59 + len(late)
    first = [number for number in numbers[:59] if number]
    assert len(first) == 59, "everybody of the pre-queue has his number"
    assert max(first) <= 60
    assert min(numbers[59:]) > max(first), "whoever came after the opening stands behind"
