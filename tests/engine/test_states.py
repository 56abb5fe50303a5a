"""What the configured states of a room do to a line that stands in it."""

from __future__ import annotations

import pytest

from app.domain.room import RoomState
from app.infrastructure.engine_results import JoinCode, Reason, Verdict, ViewState
from tests.engine.world import World


@pytest.mark.req("ENG-065")
async def test_it_keeps_the_line_while_the_queue_is_off(world: World) -> None:
    await world.create(rate_per_minute=0, presence_sec=30, max_concurrent=10)
    present, silent, behind = await world.joined(3)

    await world.update(state=RoomState.BYPASS)

    told = await world.status(present)
    assert (told.state, told.ticket) == (ViewState.BYPASS, 0)
    assert (await world.check(present)).verdict is Verdict.BYPASS
    assert (await world.join(present)).code is JoinCode.BYPASS
    for _ in range(3):
        await world.tick(20)
        await world.status(present)
        await world.status(behind)
    await world.update(state=RoomState.ACTIVE)
    views = [await world.status(browser, seen=False) for browser in (present, silent, behind)]
    assert [(view.state, view.ticket, view.ahead) for view in views] == [
        (ViewState.WAITING, 1, 0), (ViewState.WAITING, 2, 1), (ViewState.WAITING, 3, 2),
    ]  # fmt: skip
    await world.update(rate_per_minute=60)
    await world.tick(2)
    # Whoever was away is passed over without a slot, as chapter 11 has it.
    assert (await world.figures()).pending_entry == 2
    assert (await world.ticket(2)).flags == 0


@pytest.mark.req("ENG-067")
async def test_it_resumes_with_at_most_one_credit(world: World) -> None:
    await world.create(rate_per_minute=600, presence_sec=3600)
    await world.update(state=RoomState.PAUSED)
    browsers = await world.joined(30)
    await world.tick(120)
    assert {(await world.status(b)).state for b in browsers} == {ViewState.PAUSED}

    await world.update(state=RoomState.ACTIVE)
    answer = await world.tick()

    assert answer.promoted <= 1
    await world.advance(0)  # what the calls took is not counted
    assert 9 <= (await world.tick(1)).promoted <= 11


@pytest.mark.req("ENG-066")
async def test_it_is_paused_by_nothing_but_an_operator(world: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined(1)

    await world.update(rate_per_minute=0, max_concurrent=1)
    await world.tick(5)
    await world.commit()
    views = [await world.status(browser), (await world.join(browser)).view]
    check = await world.check(browser)

    for view in views:
        assert view is not None
        assert (view.state, view.reason, view.room_state) == (ViewState.WAITING, Reason.WAITING, RoomState.ACTIVE)
    assert (check.reason, check.room_state) == (Reason.WAITING, RoomState.ACTIVE)
