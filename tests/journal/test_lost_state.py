"""What is there again after the live store was lost: everything acknowledged, and orphans that end by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.facts import FactType
from app.domain.fold_doors import DoorsFold
from app.domain.fold_image import make_image
from app.domain.layout import TICKET_BYTES, Flag, Phase
from app.domain.room import RoomState
from app.domain.ticket_state import TicketState
from app.infrastructure.engine_errors import RoomFenced
from app.infrastructure.engine_results import JoinCode, Reason, Verdict, ViewState
from app.services.draws import draw_room
from tests.engine.world import ROOM, Browser, World
from tests.journal.folds import folded, rows_of
from tests.journal.history import Chance
from tests.journal.house import House

MINUTE = 60


class Lasting(World):
    """A room whose facts reach the journal, and whose live state can be lost."""

    def __init__(self, house: House) -> None:
        super().__init__(house.valkey, house.prefix)
        self.house = house

    async def store(self) -> None:
        """Bring everything into the journal."""
        await self.house.drain(ROOM)

    async def commit(self) -> None:
        await self.store()

    async def lose(self) -> None:
        """Lose the live store, and have the room rebuilt from what the journal has."""
        await self.house.lose_everything()
        assert await self.house.recovery.ensure(ROOM)
        await self.reload()
        self.mono = (await self.header())["mono"]


@pytest.fixture
def lasting(house: House) -> Lasting:
    """No room yet."""
    return Lasting(house)


async def scheduled(world: World, sec: int, **fields: Any) -> int:
    await world.create(**fields)
    opens_at = await world.now() + sec * 1000
    await world.update(opens_at=opens_at)
    return opens_at


async def shown(world: World, browsers: list[Browser]) -> list[Any]:
    """What each owner is told, without being seen."""
    views = [await world.status(browser, seen=False, told=False) for browser in browsers]
    return [(v.state, v.reason, v.ticket, v.ahead, v.joined_at, v.passed_at) for v in views]


def _still_drawn(doors: DoorsFold, head: int) -> int:
    """Numbers in line that a draw has taken and not given to anybody yet."""
    if doors.phase != Phase.DRAWING:
        return 0
    return max(0, doors.first + doors.count - max(doors.first + doors.done, head + 1))


@pytest.mark.req("ENG-011")
async def test_nothing_that_was_acknowledged_is_lost(lasting: Lasting) -> None:
    """Configuration and generation, pre-queue, schedule, draw, tickets, passes, admissions, ejects, purge."""
    opens_at = await scheduled(lasting, MINUTE, rate_per_minute=0, max_concurrent=5, presence_sec=3600)
    early = await lasting.joined(6)
    await lasting.store()
    await lasting.lose()
    assert (lasting.room.config.opens_at, lasting.room.config.max_concurrent) == (opens_at, 5)
    assert [view[0] for view in await shown(lasting, early)] == [ViewState.SCHEDULED] * 6
    assert (await lasting.figures()).pre_queue == 6

    await lasting.advance(MINUTE + 1)
    await lasting.open_doors()
    order = [(await lasting.status(browser)).ticket for browser in early]
    late = await lasting.joined(4)
    await lasting.update(rate_per_minute=6000)
    await lasting.tick(1)
    await lasting.update(rate_per_minute=0)
    inside = sorted(early, key=lambda b: order[early.index(b)])[:3]
    for browser in inside:
        browser.ticket, browser.handle = order[early.index(browser)], b""
        assert (await lasting.check(browser)).verdict is Verdict.ADMITTED
    await lasting.admin.eject(ROOM, inside[2].ticket, actor="ann")
    everybody = [*early, *late]
    before = await shown(lasting, everybody)
    await lasting.store()
    await lasting.lose()

    assert await shown(lasting, everybody) == before
    assert sorted(order) == [1, 2, 3, 4, 5, 6]
    for browser in inside[:2]:
        assert (await lasting.check(browser)).verdict is Verdict.SESSION
    assert (await lasting.check(inside[2])).reason is Reason.EJECTED
    stolen = Browser(ticket=inside[0].ticket, network=inside[0].name)
    assert (await lasting.check(stolen)).reason is Reason.SESSION_ELSEWHERE

    line = await lasting.joined(3)
    await lasting.admin.purge(ROOM, actor="ann")
    await lasting.store()
    await lasting.lose()

    assert {(await lasting.status(browser)).reason for browser in line} == {Reason.EJECTED}
    assert (await lasting.figures()).waiting == 0
    assert (await lasting.check(inside[0])).verdict is Verdict.SESSION
    await lasting.admin.delete(ROOM, actor="ann")
    await lasting.store()
    await lasting.create(gen=2)
    await lasting.store()
    await lasting.lose()
    assert lasting.room.generation == 2


@pytest.mark.req("ENG-011")
async def test_a_crash_between_any_two_facts_leaves_no_half_of_anything(house: House) -> None:
    """The journal cut anywhere adds up to a room in which everything fits together."""
    await house.create("shop", rate_per_minute=600, max_concurrent=4, presence_sec=20, queue_max_per_ip=None)
    chance = Chance(house)
    for _ in range(100):
        await chance.act()
    await house.drain("shop")
    rows = await rows_of(house)

    for end in range(1, len(rows) + 1):
        image = make_image(folded(rows[:end], rows[end - 1]["at"]))
        header, records = image.header, image.records
        states = bytes(records.tickets[::TICKET_BYTES])[: records.last_ticket]
        flags = records.tickets[1::TICKET_BYTES]
        beyond = states[int(header["head"]) :]
        in_line = beyond.count(TicketState.WAITING) + _still_drawn(records.pre_queue, int(header["head"]))
        assert header["last_ticket"] - header["head"] - header["removed"] == in_line, (chance.seed, end)
        passed = [n for n, state in enumerate(states) if state == TicketState.PASSED]
        slots = sum(1 for n in passed if flags[n] & Flag.SLOT)
        assert (header["pending"], header["passes_out"]) == (slots, len(passed) - slots)
        assert header["active"] == states.count(TicketState.ACTIVE)
        assert image.deadlines.keys() == {n + 1 for n, state in enumerate(states) if state in (2, 3)}


@pytest.mark.req("ENG-020", "ENG-256")
async def test_a_deletion_ends_everything_of_its_generation_for_good(lasting: Lasting) -> None:
    """Line, pre-queue, passes, sessions, settings, schedule; after a rebuild and in the next generation too."""
    await lasting.create(rate_per_minute=6000, max_concurrent=2, presence_sec=3600)
    inside, passed, waiting = await lasting.joined(3)
    await lasting.tick(1)
    await lasting.check(inside)
    await lasting.update(opens_at=await lasting.now() + 3_600_000)
    early = (await lasting.joined(2))[0]
    await lasting.store()

    write = await lasting.admin.delete(ROOM, actor="ann")
    await lasting.store()

    assert (write.waiting, write.passes, write.sessions, write.pre_queue) == (1, 1, 1, 2)
    assert await lasting.admin.read(ROOM) is None
    await lasting.house.lose_everything()
    await lasting.house.recovery.ensure_all()
    assert await lasting.house.journal.room_ids() == []
    with pytest.raises(RoomFenced):
        await lasting.admin.update(ROOM, {"name": "Back"}, actor="ann")
    await lasting.create(gen=2)
    assert (lasting.room.config.opens_at, lasting.room.config.max_concurrent) == (None, None)
    for browser in (inside, passed, waiting, early):
        assert (await lasting.check(browser)).reason is Reason.STALE_GENERATION
    figures = await lasting.figures()
    assert (figures.waiting, figures.occupancy, figures.pre_queue, figures.last_ticket) == (0, 0, 0, 0)


@pytest.mark.req("ENG-075", "ENG-260", "FLT-106", "FLT-114")
async def test_a_join_whose_commit_failed_is_gone_for_good(lasting: Lasting) -> None:
    """Not in line, not counted for its address, and not back after a rebuild."""
    await lasting.create(rate_per_minute=0, queue_max_per_ip=1)
    lost, behind = Browser(address="home"), Browser()
    answer = await lasting.join(lost)
    await lasting.join(behind)
    assert not await lasting.admin.undo_join(ROOM, 1, answer.seq, lost.ticket)
    await lasting.store()

    for _ in range(2):
        figures = await lasting.figures()
        assert (figures.waiting, figures.last_ticket) == (1, 2)
        assert (await lasting.status(behind)).ahead == 0
        await lasting.lose()
    assert len(await lasting.house.journaled("shop", FactType.JOIN_WITHDRAWN)) == 1
    assert (await lasting.join(Browser(address="home"))).code is JoinCode.CREATED


@pytest.mark.req("ENG-075", "ENG-260", "FLT-106")
async def test_a_place_whose_commit_failed_is_gone_for_good(lasting: Lasting) -> None:
    await scheduled(lasting, MINUTE, pre_queue_max_per_ip=1)
    lost, other = Browser(address="home"), Browser()
    answer = await lasting.join(lost)
    await lasting.join(other)
    assert not await lasting.admin.undo_prejoin(ROOM, 1, answer.seq, lost.handle)
    await lasting.store()

    for _ in range(2):
        assert (await lasting.figures()).pre_queue == 1
        await lasting.lose()
    assert (await lasting.join(Browser(address="home"))).code is JoinCode.CREATED
    await lasting.advance(MINUTE + 1)
    await lasting.open_doors()
    assert sorted([(await lasting.status(other)).ticket, 1, 2])[-1] == 2
    assert (await lasting.status(lost)).ticket == 0
    assert (await lasting.figures()).last_ticket == 2


@pytest.mark.req("ENG-076")
@pytest.mark.req("FLT-113")
async def test_an_orphan_ends_like_a_closed_tab(lasting: Lasting) -> None:
    """The fact was stored, its answer was not given, and the compensation never came."""
    await lasting.create(rate_per_minute=0, queue_max_per_ip=1, presence_sec=30, passed_ttl_sec=60)
    orphan = Browser(address="home")
    await lasting.join(orphan)
    await lasting.store()
    await lasting.lose()

    assert (await lasting.join(Browser(address="home"))).code is JoinCode.IDENTITY_LIMIT
    await lasting.advance(20)
    real = (await lasting.joined())[0]
    await lasting.advance(20)
    await lasting.status(real)
    await lasting.update(rate_per_minute=600, max_concurrent=1)
    await lasting.tick(1)

    ticket = await lasting.ticket(orphan.ticket)
    assert (ticket.state, ticket.flags & (Flag.SLOT | Flag.PAID)) == (TicketState.PASSED, 0)
    assert (await lasting.status(real)).state is ViewState.PASSED
    assert (await lasting.join(Browser(address="home"))).code is not JoinCode.IDENTITY_LIMIT
    await lasting.tick(MINUTE + 1)
    assert (await lasting.ticket(orphan.ticket)).state == TicketState.EXPIRED


@pytest.mark.req("ENG-076")
@pytest.mark.req("FLT-113")
async def test_an_orphan_place_counts_until_the_opening_and_is_drawn(lasting: Lasting) -> None:
    await scheduled(lasting, MINUTE, pre_queue_max_per_ip=1, rate_per_minute=600, presence_sec=30)
    orphan, real = Browser(address="home"), Browser()
    for browser in (orphan, real):
        await lasting.join(browser)
    await lasting.store()
    await lasting.lose()

    assert (await lasting.join(Browser(address="home"))).code is JoinCode.PRE_IDENTITY_LIMIT
    await lasting.advance(MINUTE + 1)
    await lasting.tick()
    await lasting.status(real)
    assert await draw_room(lasting.jobs, ROOM) is not None
    await lasting.commit()
    number = 3 - (await lasting.status(real)).ticket
    await lasting.tick(2)

    ticket = await lasting.ticket(number)
    assert ticket.state == TicketState.PASSED
    assert not ticket.flags & Flag.SLOT
    assert (await lasting.status(real)).state is ViewState.PASSED
    assert lasting.room.config.state is RoomState.ACTIVE
