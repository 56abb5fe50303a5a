"""Addresses that take slots and let them go unused."""

from __future__ import annotations

import pytest

from app.domain.facts_of_passes import Promoted, SlotGiven
from app.infrastructure.engine_results import Verdict, ViewState
from tests.engine.world import Browser, World

FIELDS = {
    "rate_per_minute": 60_000, "queue_max_per_ip": None, "presence_sec": 3600, "passed_ttl_sec": 600,
    "session_max_per_ip": 10, "max_concurrent": 50,
}  # fmt: skip


async def passes(world: World, count: int, address: str | None = None, *, told: bool = True) -> list[Browser]:
    """``count`` visitors who have their pass, and know it."""
    browsers = await world.joined(count, address=address)
    await world.tick(1)
    for browser in browsers if told else ():
        await world.status(browser)
    return browsers


async def window(world: World, browser: Browser) -> int:
    """Seconds that his pass holds a slot."""
    view = await world.status(browser)
    door = await world.door(browser.ticket)
    assert view.state is ViewState.PASSED
    return (door.claim_end - door.pass_end) // 10 + world.room.config.passed_ttl_sec


async def squat(world: World, count: int, address: str = "squat") -> list[Browser]:
    """``count`` told passes of an address let their slot go."""
    browsers = await passes(world, count, address)
    await world.tick(125)
    return browsers


@pytest.mark.req("ENG-297")
async def test_it_gives_short_windows_to_an_address_that_lets_four_told_slots_go_unused(world: World) -> None:
    await world.create(**FIELDS)
    await squat(world, 3)
    (after_three,) = await passes(world, 1, "squat")
    before = await window(world, after_three)
    await world.check(after_three)
    await squat(world, 2)

    (squatter,) = await passes(world, 1, "squat")
    (honest,) = await passes(world, 1)

    assert (before, await window(world, squatter), await window(world, honest)) == (120, 15, 120)
    await world.tick(16)
    assert (await world.figures()).pending_entry == 1
    assert (await world.status(squatter)).claim_until == 0


@pytest.mark.req("ENG-297")
async def test_it_counts_only_passes_whose_holder_was_told(world: World) -> None:
    await world.create(**FIELDS)
    await passes(world, 6, "squat", told=False)
    await world.tick(125)

    (browser,) = await passes(world, 1, "squat")

    assert await window(world, browser) == 120


@pytest.mark.req("ENG-297")
async def test_it_leaves_an_address_alone_that_uses_half_of_its_told_passes(world: World) -> None:
    await world.create(**FIELDS)
    for browser in await passes(world, 4, "campus"):
        assert (await world.check(browser)).verdict is Verdict.ADMITTED
    await squat(world, 4, "campus")
    (half,) = await passes(world, 1, "campus")
    fair = await window(world, half)
    await world.tick(125)

    (most,) = await passes(world, 1, "campus")

    assert (fair, await window(world, most)) == (120, 15)


@pytest.mark.req("ENG-297")
async def test_it_forgives_after_an_hour(world: World) -> None:
    await world.create(**FIELDS)
    await squat(world, 5)
    (early,) = await passes(world, 1, "squat")
    short = await window(world, early)
    await world.check(early)

    await world.advance(3600)
    await world.tick(1)
    (late,) = await passes(world, 1, "squat")

    assert (short, await window(world, late)) == (15, 120)


@pytest.mark.req("ENG-297")
async def test_it_has_no_squatters_in_a_room_without_a_bound(world: World) -> None:
    await world.create(**{**FIELDS, "session_max_per_ip": None})
    await squat(world, 5)

    (browser,) = await passes(world, 1, "squat")

    assert await window(world, browser) == 120


@pytest.mark.req("ENG-297")
async def test_it_gives_short_windows_in_the_step_of_a_join_and_at_the_door_too(world: World) -> None:
    await world.create(**{**FIELDS, "max_concurrent": 1, "passed_ttl_sec": 6000})
    (late,) = await squat(world, 1)
    for _ in range(3):
        await squat(world, 1)
    (at_once,) = await world.joined(address="squat")
    joined = await window(world, at_once)
    await world.check(at_once)
    standing = await world.status(late)

    await world.leave(at_once)
    await world.tick(1)

    (given,) = [element for element in await world.elements() if isinstance(element.decode(), SlotGiven)]
    fact = given.decode()
    assert isinstance(fact, SlotGiven)
    assert (joined, standing.state) == (15, ViewState.AT_CAPACITY)
    assert fact.tickets == (late.ticket,)
    assert fact.claim_end - given.at == pytest.approx(15_000, abs=100)


@pytest.mark.req("ENG-297")
async def test_it_records_short_and_long_windows_of_one_tick_apart(world: World) -> None:
    await world.create(**FIELDS)
    await squat(world, 4)
    await world.update(state=1)
    await world.joined(1, address="squat")
    await world.joined(1)
    await world.joined(1, address="squat")
    await world.update(state=0)
    await world.tick(1)

    *_, long, short = await world.facts(Promoted)

    assert [(run.first, run.count) for run in long.runs] == [(6, 1)]
    assert [(run.first, run.count) for run in short.runs] == [(5, 1), (7, 1)]
    assert short.pass_end - short.claim_end == 600_000 - 15_000
    assert long.pass_end - long.claim_end == 600_000 - 120_000
